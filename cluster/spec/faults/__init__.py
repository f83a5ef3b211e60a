"""Faults of a run: what happens to which node when, as text and as values."""
