"""Runs in other tools' formats: python3 -m analysis.export RUNS --to FORMAT."""
