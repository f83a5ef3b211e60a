"""A user's program on a node: started, observed, and what it tells."""
