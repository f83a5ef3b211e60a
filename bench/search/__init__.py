"""Hyper-parameters of the preset frontier: one protocol for all compositions, and what it found."""
