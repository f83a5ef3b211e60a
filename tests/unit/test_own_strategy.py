"""What a node makes of the user's functions: messages() as data, memory, samples, errors."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from cluster.spec.experiment import Experiment
from cluster.spec.schedules.messages import Setting
from workloads.comm.round import Round
from workloads.own import learning
from workloads.own.loading import OwnCodeError, describe, import_file, load, verify
from workloads.own.strategy import OwnExchange, OwnRound, WorkerRound, planned, record

SETTING = Setting(workers=4, model_bytes=1000)


def experiment(folder: Path, text: str, **options: Any) -> Experiment:
    (folder / "own.py").write_text(text)
    return Experiment(folder=str(folder), **options)


def test_rounds_are_recorded_up_to_where_they_repeat() -> None:
    def messages(round: OwnRound, setting: Setting) -> list[tuple[int, int, float, int]]:
        return [(0, 1 + round.index % 3, setting.model_bytes / 3, round.index % 2)]

    found = record(messages, SETTING, 100, "own.py")
    assert found is not None
    assert (len(found.rounds), found.order) == (6, [0, 1, 2, 3, 4, 5])


def test_messages_that_never_repeat_and_are_too_many_are_left_out() -> None:
    found = record(lambda round, _: [(0, 1, round.index + 1)] * 300, SETTING, 100, "own.py")
    assert found is None


@pytest.mark.parametrize(
    "returned",
    [
        5,
        [5],
        [(0, 4, 10)],
        [(1, 1, 10)],
        [(0, 1, -1)],
        [(0, 1, 1, 2, 3)],
        [("a", 1, 1)],
        [(0, 1.5, 1)],
    ],
)
def test_what_is_no_message_is_told_with_its_form(returned: object) -> None:
    with pytest.raises(OwnCodeError, match=re.escape("(source, destination, bytes[, step])")):
        planned(returned, SETTING, "own.py")


def test_each_part_of_a_model_has_a_memory_of_its_own() -> None:
    def exchange(tensor: Tensor, round: WorkerRound) -> None:
        round.memory["sum"] = round.memory.get("sum", 0) + tensor
        tensor.copy_(round.memory["sum"])

    own = OwnExchange(exchange, "own.py")
    for index in range(3):
        parts = [torch.ones(2), torch.full((2,), 10.0)]
        for part, tensor in enumerate(parts):
            own(tensor, Round(Experiment(), 0, index, part))
    assert [part[0].item() for part in parts] == [3, 30]


def test_a_returned_tensor_is_told(tmp_path: Path) -> None:
    own = OwnExchange(lambda tensor, round: tensor / 2, "own.py")
    with pytest.raises(OwnCodeError, match="in place"):
        own(torch.ones(2), Round(Experiment(), 0, 0))


def test_an_error_is_told_with_the_innermost_line_of_the_users_file(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("import torch\ndef f():\n    torch.ones(2).view(3)\n")
    with pytest.raises(RuntimeError) as raised:
        import_file(tmp_path, "own.py").f()
    assert describe(raised.value, tmp_path).startswith("own.py, line 3: RuntimeError: ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import torch\nnothing\n", "line 2: NameError"),
        ("import nosuch\n", "--requirements"),
        ("import sys\nsys.exit(3)\n", "line 2: SystemExit"),
        ("from torch import nosuch\n", "line 1: ImportError"),
    ],
)
def test_a_file_that_cannot_be_imported_is_told_with_its_line(
    tmp_path: Path, text: str, told: str
) -> None:
    (tmp_path / "own.py").write_text(text)
    with pytest.raises(OwnCodeError, match=re.escape(told)):
        import_file(tmp_path, "own.py")


def test_a_file_that_changed_since_the_plan_is_refused(tmp_path: Path) -> None:
    spec = experiment(tmp_path, "x = 1\n", strategy="own.py", code_sha256="0" * 16)
    with pytest.raises(OwnCodeError, match="has changed"):
        verify(spec)


def test_a_name_that_is_no_function_is_told(tmp_path: Path) -> None:
    spec = experiment(tmp_path, "Net = 5\n", model="own.py:Net", dataset="mnist")
    with pytest.raises(OwnCodeError, match="cannot be called"):
        load(spec, "model")


def test_a_package_that_nodes_lack_is_told_with_how_to_add_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = Experiment(model="hf:bert", dataset="rte", folder=str(tmp_path))
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(OwnCodeError, match=re.escape("add it with --requirements FILE")):
        learning.make_model(spec)


MODEL = "from torch import nn\ndef make():\n    return {}\n"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("5", "not a torch.nn.Module"),
        ("nn.ReLU()", "no parameter to train"),
        ("nn.LazyLinear(3)", "lazy layers"),
    ],
)
def test_what_is_no_model_is_told(tmp_path: Path, value: str, told: str) -> None:
    spec = experiment(tmp_path, MODEL.format(value), model="own.py:make", dataset="mnist")
    with pytest.raises(OwnCodeError, match=told):
        learning.make_model(spec)


def test_a_model_has_the_weights_of_the_seed(tmp_path: Path) -> None:
    text = MODEL.format("nn.Linear(3, 2)")
    spec = experiment(tmp_path, text, model="own.py:make", dataset="mnist", seed=7)
    made = next(learning.make_model(spec).parameters())
    torch.manual_seed(7)
    assert torch.equal(made, nn.Linear(3, 2).weight)


class Squares(Dataset[tuple[Tensor, int]]):
    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        return torch.full((2, 3), float(place)), place % 4


LOAD = (
    "import torch\nfrom tests.unit.test_own_strategy import Squares\ndef load():\n    return {}\n"
)


def test_tensors_and_datasets_give_the_same_samples(tmp_path: Path) -> None:
    spec = experiment(tmp_path, LOAD.format("Squares(20), Squares(5)"), dataset="own.py:load")
    found = learning.samples_of(spec, tmp_path)
    assert found.train_labels.tolist() == [place % 4 for place in range(20)]
    assert found.test_labels.tolist() == [0, 1, 2, 3, 0]
    chosen = torch.tensor([7, 2])
    assert found.train_inputs[chosen][:, 0, 0].tolist() == [7, 2]
    assert found.train_inputs.width == 6


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("7", "not (train, test)"),
        ("(torch.ones(3), torch.ones(3)), 5", "as a part"),
        ("((torch.ones(3, 2), torch.ones(4)),) * 2", "3 inputs with 4 labels"),
        ("((torch.ones(0, 2), torch.ones(0)),) * 2", "no training samples"),
    ],
)
def test_what_are_no_samples_is_told(tmp_path: Path, value: str, told: str) -> None:
    spec = experiment(tmp_path, LOAD.format(value), dataset="own.py:load")
    with pytest.raises(OwnCodeError, match=re.escape(told)):
        learning.samples_of(spec, tmp_path)


def test_a_loss_that_is_no_number_is_told(tmp_path: Path) -> None:
    spec = experiment(tmp_path, "def f(a, b):\n    return a\n", loss="own.py:f")
    with pytest.raises(OwnCodeError, match=re.escape("a tensor of shape (2, 3)")):
        learning.load_loss(spec)(torch.ones(2, 3), torch.ones(2))
