"""A node's link: the tc commands that shape it, and the probe that verifies its rate."""
