"""Schedules: the groups of pairwise, the messages of every strategy, and how fast workers agree."""
