"""Models and data sets of packages that nodes may have: torchvision:NAME, hf:FOLDER.

A model has as many classes as the data set has; of the user's own data, which is not read yet, as
many as the package's model has by itself.
"""

import importlib
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from cluster.spec.catalogue import DATASETS
from cluster.spec.experiment import Experiment
from cluster.spec.own_code import package_of, pretrained_folder
from workloads.own.loading import OwnCodeError, add_packages, describe


def make_model(spec: Experiment) -> nn.Module:
    package = _import(spec.model)
    classes = DATASETS[spec.dataset].classes if spec.dataset in DATASETS else None
    if pretrained_folder(spec.model) is not None:
        return _pretrained(package, spec, classes)
    name = spec.model.partition(":")[2]
    known = package.models.list_models()
    if name not in known:
        raise OwnCodeError(f"model {spec.model}: torchvision has no {name}; it has: {_some(known)}")
    options = {} if classes is None else {"num_classes": classes}
    model: nn.Module = package.models.get_model(name, weights=None, **options)
    return model


class Scores(nn.Module):
    """A text classifier of transformers whose output is the scores alone.

    Inputs are tokens, or pairs of tokens and sentence numbers (n x 2 x length) as of RTE.
    """

    def __init__(self, model: nn.Module, padding: int) -> None:
        super().__init__()
        self.model, self.padding = model, padding

    def forward(self, inputs: Tensor) -> Tensor:
        options = {}
        if inputs.ndim == 3:
            inputs, options["token_type_ids"] = inputs[:, 0], inputs[:, 1]
        mask = (inputs != self.padding).long()
        scores: Tensor = self.model(input_ids=inputs, attention_mask=mask, **options).logits
        return scores


def _pretrained(package: Any, spec: Experiment, classes: int | None) -> nn.Module:
    """With the folder's weights; random ones where it has a config.json alone."""
    assert spec.folder is not None
    folder = Path(spec.folder, str(pretrained_folder(spec.model)))
    options = {} if classes is None else {"num_labels": classes}
    try:
        config = package.AutoConfig.from_pretrained(folder, local_files_only=True, **options)
        kind = package.AutoModelForSequenceClassification
        if any(folder.glob("*.safetensors")) or any(folder.glob("*.bin")):
            model = kind.from_pretrained(folder, config=config, local_files_only=True)
        else:
            model = kind.from_config(config)
    except (OSError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise OwnCodeError(f"model {spec.model} cannot be read: {first}") from error
    padding = config.pad_token_id
    return Scores(model.float(), 0 if padding is None else padding)


def open_dataset(spec: Experiment, data_root: Path) -> tuple[Any, Any]:
    """Training and test part, read from --data-dir: nodes cannot fetch."""
    package, name = _import(spec.dataset), spec.dataset.partition(":")[2]
    kind = getattr(package.datasets, name, None)
    if kind is None:
        known = _some(package.datasets.__all__)
        raise OwnCodeError(f"dataset {spec.dataset}: torchvision has no {name}; it has: {known}")
    ready = package.transforms.ToTensor()
    try:
        train, test = (kind(data_root, train=part, transform=ready) for part in (True, False))
    except (RuntimeError, TypeError) as error:
        first = str(error).splitlines()[0]
        raise OwnCodeError(f"dataset {spec.dataset} in --data-dir {data_root}: {first}") from error
    return train, test


def _import(value: str) -> Any:
    add_packages()
    package = package_of(value)
    assert package is not None
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise OwnCodeError(
            f"{value} needs the package {package}, which nodes lack ({error}): add it with"
            f" --requirements FILE, a file with the line {package}"
        ) from error
    except Exception as error:  # such as one that was built for another torch
        raise OwnCodeError(
            f"{value}: the package {package} cannot be imported: {describe(error, None)}"
        ) from error


def _some(names: list[str] | tuple[str, ...]) -> str:
    most = 12
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
