"""Benchmarks: how fast gradwire is and how accurate its measurements are."""
