"""A run that is continued ends, on every node, with the state of the run that was not interrupted.

Bit for bit: optimizer, residuals of codecs, outer optimiser, schedule of pairs, data order and
learning rate go on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.experiment import Experiment
from tests.measuring import measure, one
from tests.refusals import refusal

COMPOSITIONS = [
    {"strategy": "allreduce", "compress": "int4", "momentum": "0.9", "partition": "dirichlet:1"},
    {"strategy": "local-sgd", "local_steps": "3", "compress": "2bit", "outer": "nesterov:0.7:0.9"},
    {"algorithm": "streaming-diloco", "model": "mnist-bn"},
    {"strategy": "pairwise", "schedule": "random", "passes": "1", "outer": "nesterov:0.7:0.3"},
    {"strategy": "parameter-server", "optimizer": "adamw", "lr": "0.001", "augment": "yes"},
]
SIZES = ("--workers", "3", "--train-size", "1440", "--batch-size", "32", "--test-size", "100")
FLAGS = ("--engine", "netns", "--save-state", *SIZES)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[RunFolder], list[RunFolder]]:
    """Of each composition, four epochs at once, and the first two."""
    output = tmp_path_factory.mktemp("runs")
    sweeps = [{**options, "epochs": epochs} for epochs in ("4", "2") for options in COMPOSITIONS]
    measured = measure(*FLAGS, "--output", str(output), sweeps=sweeps)
    assert measured.code == 0, measured.stderr
    folders = [RunFolder(output / s["session"] / s["run"]) for s in measured.summaries]
    by_epochs = {
        epochs: [f for f in folders if f.read_experiment().epochs == epochs] for epochs in (4, 2)
    }
    return by_epochs[4], by_epochs[2]


def states(folder: RunFolder) -> list[dict[str, torch.Tensor]]:
    nodes = folder.read_experiment().node_names
    return [torch.load(folder.files_of(node).state) for node in nodes]


@pytest.mark.parametrize("index", range(len(COMPOSITIONS)))
def test_a_continued_run_ends_as_the_uninterrupted_one(
    runs: tuple[list[RunFolder], list[RunFolder]], index: int, tmp_path: Path
) -> None:
    whole, first = (folders[index] for folders in runs)
    flags = ("--continue", str(first.path), "--epochs", "2", "--output", str(tmp_path))
    summary = one(measure(*flags))
    continued = RunFolder(tmp_path / summary["session"] / summary["run"])
    spec: Experiment = continued.read_experiment()
    assert (spec.epochs, spec.epochs_before, spec.continues) == (2, 2, str(first.path))
    assert summary["accuracy"] == whole.read_summary().accuracy
    pairs = zip(states(whole), states(continued), states(first), strict=True)
    for rank, (expected, found, begin) in enumerate(pairs):
        assert expected.keys() == found.keys()
        assert all(torch.equal(expected[name], found[name]) for name in expected), rank
        assert not torch.equal(begin["parameters.0"], found["parameters.0"])
    is_small = summary["model_bytes"] / spec.local_steps < 100_000
    ratio: Any = pytest.approx(1, abs=0.03 if is_small else 0.02)
    assert summary["per_step"]["ratio"] == ratio


def test_a_run_goes_on_as_it_began_or_not_at_all(
    runs: tuple[list[RunFolder], list[RunFolder]],
    empty_folder: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = runs[1][0].path
    for flags, reason in (
        (("--epochs", "2", "--workers", "4"), "--workers 4 is not that of"),
        (("--epochs", "2", "--strategy", "ring"), "--strategy ring is not that of"),
        (("--epochs", "2", "--model", "mnist-bn"), "--model mnist-bn is not that of"),
        (("--epochs", "2", "--preset", "frontier"), "--preset does not go with --continue"),
        (("--epochs", "2", "--repeat", "2"), "--repeat does not go with --continue"),
        ((), "--epochs E says how many more epochs"),
    ):
        assert reason in refusal(["--continue", str(first), *flags], capsys)
    session = refusal(["--continue", str(first.parent), "--epochs", "1"], capsys)
    assert "name one of its runs" in session
    missing = RunFolder(runs[1][1].path)
    missing.files_of("node2").state.unlink()
    gone = refusal(["--continue", str(missing.path), "--epochs", "1"], capsys)
    assert "node2's state is missing" in gone
