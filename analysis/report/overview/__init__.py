"""Sections: all runs, answers, trust, how to repeat a run."""
