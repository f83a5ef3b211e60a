"""The table of networks, and the small ones for MNIST."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from cluster.spec import synthetic
from cluster.spec.experiment import Experiment
from cluster.spec.own_code import is_foreign
from workloads.data.tokens import WEIGHTS, data_folder, weights_of
from workloads.models.bert import BASE_CASED, MINILM, Bert, load_pretrained
from workloads.models.gpt import SMALL, TINY, Gpt
from workloads.models.synthetic import SyntheticNet
from workloads.models.vision import ResNet18, Vgg11
from workloads.own import learning


class MnistNet(nn.Module):
    """Two convolutions and two dense layers: 21,840 parameters, 87,360 bytes on the wire.

    The network of Horovod's MNIST example without dropout: random masks would make N workers differ
    from one worker with N times the batch, and tests rely on that equality.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1: nn.Module = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2: nn.Module = nn.Conv2d(10, 20, kernel_size=5)
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = functional.relu(functional.max_pool2d(self.conv1(images), 2))
        x = functional.relu(functional.max_pool2d(self.conv2(x), 2))
        x = functional.relu(self.fc1(x.flatten(1)))
        scores: Tensor = self.fc2(x)
        return scores


class MnistBatchNorm(MnistNet):
    """MnistNet with batch norm after each convolution, whose running statistics are buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Sequential(self.conv1, nn.BatchNorm2d(10))
        self.conv2 = nn.Sequential(self.conv2, nn.BatchNorm2d(20))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "mnist-cnn": MnistNet,
    "mnist-bn": MnistBatchNorm,
    "vgg11": Vgg11,
    "resnet18": ResNet18,
    "bert-minilm": lambda: Bert(MINILM),
    "bert-base-cased": lambda: Bert(BASE_CASED),
    "gpt-tiny": lambda: Gpt(TINY),
    "gpt-small": lambda: Gpt(SMALL),
}


def model_of(spec: Experiment, data_root: Path) -> nn.Module:
    """The model of a run: one of the table, or the user's own."""
    if is_foreign(spec.model):
        return learning.make_model(spec)
    return make_model(spec.model, spec.seed, data_folder(spec, data_root), spec.slowdown)


def make_model(
    name: str, seed: int, folder: Path | None = None, dilation: float = 1.0
) -> nn.Module:
    """A model with the same weights on every worker: random from the seed, or pretrained.

    `folder` is the run's data folder, which also has pretrained weights (workloads/data/tokens.py).
    Pretended compute takes `dilation` times as long.
    """
    torch.manual_seed(seed)
    if name.startswith(synthetic.PREFIX):
        return SyntheticNet(synthetic.parse(name), dilation)
    model = MODELS[name]()
    if weights_of(name) is not None and isinstance(model, Bert):
        assert folder is not None
        load_pretrained(model, folder / WEIGHTS)
    return model
