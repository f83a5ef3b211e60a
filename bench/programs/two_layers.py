"""Networks of 4 MB and 400 kB for MNIST's digits, whose layers are matrices."""

from __future__ import annotations

from torch import nn


def _network(first: int, second: int) -> nn.Module:
    layers = (nn.Linear(784, first), nn.ReLU(), nn.Linear(first, second), nn.ReLU())
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(second, 10))


def large() -> nn.Module:
    """1,000,500 numbers."""
    return _network(1024, 190)


def small() -> nn.Module:
    """100,070 numbers."""
    return _network(124, 20)
