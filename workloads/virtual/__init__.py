"""Virtual workers: all workers of a run as threads of one process, which take turns."""
