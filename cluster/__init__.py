"""On the host: describe, start, watch and stop a cluster of nodes."""
