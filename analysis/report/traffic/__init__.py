"""Sections: traffic by node and pair, over time, GPUs, use of the links."""
