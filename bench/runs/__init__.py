"""The runs on which predictions are tried."""
