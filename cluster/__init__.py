"""On the host: plan, start, shape, watch and stop a cluster of nodes."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
"""The folder that measure.sh is in."""
