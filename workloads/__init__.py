"""What runs on the nodes: training and the exchange of what was learned."""
