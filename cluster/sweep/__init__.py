"""Sweeps: files with runs, the list of runs and the time they take, sessions that are resumed."""
