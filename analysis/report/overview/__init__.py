"""Sections: all runs and findings, trust, environment, commands."""
