"""The shared core: what an experiment is, and what its run folder holds. Standard library only."""
