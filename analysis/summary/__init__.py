"""Events and samples of a run folder -> summary.json. Standard library only."""
