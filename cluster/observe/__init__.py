"""What is read and shown while a run lasts: counters, events, progress, tables."""
