"""What follows from a strategy's message schedule: bytes, traffic matrix, bounds."""
