"""The networks, by name."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional


class MnistNet(nn.Module):
    """Two convolutions and two dense layers: 21,840 parameters, 87,360 bytes on the wire.

    The network of Horovod's MNIST example, without its dropout: random masks would make N workers
    differ from one worker with N times the batch, and that equality is how we know the exchange right.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = functional.relu(functional.max_pool2d(self.conv1(images), 2))
        x = functional.relu(functional.max_pool2d(self.conv2(x), 2))
        x = functional.relu(self.fc1(x.flatten(1)))
        scores: Tensor = self.fc2(x)
        return scores


MODELS: dict[str, Callable[[], nn.Module]] = {"mnist-cnn": MnistNet}


def make_model(name: str, seed: int) -> nn.Module:
    """The same weights on every worker: they are drawn from the seed, so nothing is broadcast."""
    torch.manual_seed(seed)
    return MODELS[name]()
