"""python3 -m workloads.check FILE.py: the laws of a strategy, tried on the user's own."""
