"""The JSON documents of a run folder as classes: the same class writes and reads each."""
