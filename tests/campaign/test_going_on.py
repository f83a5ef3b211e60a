"""Runs that go on without a node: a few in every call of ./test.sh, all with ./test.sh --soak."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from analysis.summary.recorded_run import RecordedRun
from cluster.spec.documents.run_folder import RunFolder, find_runs
from tests import laws
from tests.campaign import continuing
from tests.measuring import measure

NETNS = ("--engine", "netns")
CONTINUE = ("--on-failure", "continue")
FIRST_PORT = 29500
SOME = [
    continuing.Try("netns", "kill", "parameter-server", 2, epochs=3),
    continuing.Try("netns", "restart", "ddp", 1, epochs=3),
    continuing.Try("netns", "restart", "async-server", 1, epochs=3),
    continuing.Try("docker", "kill", "pairwise", 3, epochs=3),
]
TELLS_SAMPLES = """
import os
import torch
from torch import nn

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(1, 20_000), nn.Linear(20_000, 1))

def load():
    ids = torch.arange(600.0).reshape(-1, 1)
    return (ids / 600, ids), (ids[:50] / 600, ids[:50] + 1e6)

def tell(outputs, labels):
    print("ids", os.environ["MASTER_PORT"], *labels.flatten().int().tolist(), flush=True)
    return (outputs - labels / 1e6).square().mean()
"""
"""The loss says which samples a worker reads, in which generation."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.docker if case.engine == "docker" else ())
        for case in SOME
    ],
    ids=lambda case: f"{case.engine}-{case.fault}-{case.strategy}",
)
def test_a_run_goes_on_without_a_node_and_takes_it_back(
    case: continuing.Try, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if case.engine == "docker":
        request.getfixturevalue("docker")
    assert continuing.attempt(case, None, tmp_path).misses == ()


@pytest.mark.timeout(300)
def test_every_sample_is_read_once_an_epoch_while_workers_are_lost_and_come_back(
    tmp_path: Path,
) -> None:
    """By what the training processes say that they read, in the steps that count."""
    (tmp_path / "lab").mkdir()
    own = tmp_path / "lab" / "tells.py"
    own.write_text(TELLS_SAMPLES)
    files = ("--model", f"{own}:Net", "--dataset", f"{own}:load", "--loss", f"{own}:tell")
    sizes = ("--workers", "4", "--batch-size", "5", "--train-size", "600", "--epochs", "3")
    faults = ("--fault", "0:kill@exchange12,2:restart@exchange40,3:kill@step60")
    measured = measure(
        *NETNS, *files, *sizes, *CONTINUE, *faults, "--output", str(tmp_path / "runs")
    )
    assert measured.code == 0, measured.stderr
    for folder in find_runs(tmp_path / "runs"):
        run = RecordedRun.read(folder, folder.read_experiment())
        assert len(run.generations) >= 4
        read: Counter[int] = Counter()
        for rank in range(4):
            for generation, batches in batches_told(folder, rank).items():
                for batch in batches[: steps_that_count(run, rank, generation)]:
                    read.update(batch)
        assert read == dict.fromkeys(range(600), 3), folder.name


def batches_told(folder: RunFolder, rank: int) -> dict[int, list[list[int]]]:
    """By generation, the samples of every batch that a worker has begun to train on."""
    told: dict[int, list[list[int]]] = {}
    for line in folder.log(rank).read_text().splitlines():
        if line.startswith("ids "):
            port, *ids = map(int, line.split()[1:])
            told.setdefault(port - FIRST_PORT, []).append([n for n in ids if n < 1e6])
    return {number: [batch for batch in batches if batch] for number, batches in told.items()}


def steps_that_count(run: RecordedRun, rank: int, number: int) -> int:
    """Of a worker in a generation."""
    following = next(iter(run.generations[number + 1 :]), None)
    count = 0
    for epoch in range(1, 4):
        ends_here = following is not None and following.start.epoch == epoch
        told = continuing.steps_told(run.logs[rank], number, epoch)
        count += following.done.get(rank, 0) if following and ends_here else told
    return count


@pytest.mark.timeout(300)
def test_without_a_fault_a_run_that_would_go_on_is_the_same(tmp_path: Path) -> None:
    """The same accuracy, losses and bytes as with `stop`."""
    sizes = ("--workers", "3", "--epochs", "1", "--train-size", "1920", "--test-size", "500")
    runs = {}
    for how in ("stop", "continue"):
        output = tmp_path / how
        flags = ("--strategy", "allreduce,local-sgd", "--on-failure", how)
        measured = measure(*NETNS, *sizes, *flags, "--output", str(output))
        assert measured.code == 0, measured.stderr
        runs[how] = measured.summaries
    for stop, goes_on in zip(runs["stop"], runs["continue"], strict=True):
        laws.summary_is_true(goes_on, "netns")
        for key in ("accuracy", "loss", "steps", "rounds", "samples_seen"):
            assert goes_on[key] == stop[key]
        sent = [run["per_step"]["sent_mean_bytes"] for run in (stop, goes_on)]
        assert sent[1] == pytest.approx(sent[0], rel=0.001)
        assert goes_on["bytes"]["recover"]["sent_bytes"] == 0


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("strategy", continuing.STRATEGIES)
@pytest.mark.parametrize(
    ("engine", "faults", "tries"),
    [
        ("netns", ("kill",), 20),
        ("netns", ("freeze", "unplug", "restart"), 5),
        pytest.param("docker", ("kill",), 5, marks=pytest.mark.docker),
        pytest.param("docker", ("freeze", "unplug", "restart"), 2, marks=pytest.mark.docker),
    ],
)
def test_every_try_goes_on(
    engine: str,
    faults: tuple[str, ...],
    tries: int,
    strategy: str,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    if engine == "docker":
        request.getfixturevalue("docker")
    with capsys.disabled():
        outcomes = continuing.conduct(continuing.Plan(engine, faults, [strategy], tries))
    assert [outcome.misses for outcome in outcomes if outcome.misses] == []
