"""Faults, carried out by the host: what is due, what is done to a node, and what is undone."""
