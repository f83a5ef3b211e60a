"""The files of a run folder as classes: the same class writes and reads each."""
