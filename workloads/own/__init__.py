"""The user's own strategy, model, data and loss: imported and called here, on a node, only."""
