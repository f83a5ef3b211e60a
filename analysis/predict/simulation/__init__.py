"""The event simulator: nodes and links as values, messages and what they wait for, their times."""
