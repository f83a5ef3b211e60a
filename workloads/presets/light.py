"""Networks for --preset storm that learn MNIST, and sleep as if a step computed.

With it many nodes, and several sessions, fit on two cores, so that what a fault costs is not hidden
by nodes that wait for a core.
"""

import time

from torch import Tensor, nn


class Net(nn.Sequential):
    """24 thousand parameters."""

    COMPUTE_S = 0.2

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(784, 30), nn.ReLU(), nn.Linear(30, 10))

    def forward(self, images: Tensor) -> Tensor:
        if self.training:
            time.sleep(self.COMPUTE_S)
        scores: Tensor = super().forward(images)
        return scores


class Faster(Net):
    COMPUTE_S = 0.1
