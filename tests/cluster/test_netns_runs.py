"""Real runs on real namespaces."""

from __future__ import annotations

import functools
import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from bench import compositions
from cluster.spec.documents.run_folder import RunFolder
from tests import laws
from tests.measuring import (
    SILENCE_S,
    await_handlers,
    await_steps,
    finish,
    gone,
    kept_namespaces,
    links,
    measure,
    network_namespaces,
    one,
    processes_of,
    start,
    worker_processes,
)
from workloads.models.networks import make_model

NETNS = ("--engine", "netns")
STEPS = 20


@pytest.mark.parametrize(("workers", "flags", "runs"), laws.MATRIX)
def test_measured_bytes_match_theory_and_each_other(
    workers: int, flags: tuple[str, ...], runs: int, tmp_path: Path
) -> None:
    laws.bytes_agree("netns", workers, flags, runs, tmp_path)


@pytest.mark.parametrize(("workers", "model"), [(2, "1M"), (3, "10M:5"), (6, "1M:4")])
def test_every_strategy_moves_large_models_as_theory_says(
    workers: int, model: str, tmp_path: Path
) -> None:
    laws.large_models_agree("netns", workers, f"synthetic:{model}", tmp_path)


def test_compression_moves_what_its_own_prediction_says(tmp_path: Path) -> None:
    sweeps = [{"compress": "fp16"}, {"compress": "bf16", "bucket_mb": "1"}]
    laws.large_models_agree("netns", 3, "synthetic:4M:8", tmp_path, sweeps, tolerance=0.05)


CARRIED: list[dict[str, Any]] = [
    {"strategy": "allreduce", "compress": "2bit"},
    {"strategy": "local-sgd", "compress": "topk:0.05", "local_steps": 2},
    {"strategy": "allgather", "compress": "int8"},
    {"strategy": "gather-scatter", "compress": "int4"},
    {"strategy": "parameter-server", "compress": "topk:0.03:2bit"},
    {"strategy": "ddp", "compress": "sign"},
    {"strategy": "ddp", "compress": "powersgd:2"},
    {"strategy": "reduce-broadcast", "compress": "randk:0.2"},
    {"strategy": "halving-doubling", "compress": "powersgd:4"},
    {"strategy": "pairwise", "compress": "randk:0.05", "buffers": "local"},
    {"algorithm": "streaming-diloco"},
]
"""Every way in which a codec is carried; python3 -m bench compositions measures all."""


def test_lossy_codecs_move_what_their_own_prediction_says() -> None:
    rows = compositions.measured("netns", "4 MB", CARRIED)
    assert len(rows) == len(CARRIED)
    assert [row for row in rows if compositions.is_beyond(row)] == []


def test_measures_at_once_are_undisturbed_and_the_same_seed_gives_the_same_model(
    tmp_path: Path,
) -> None:
    flags = (*NETNS, "--workers", "4", "--passes", "1", "--schedule", "random", *laws.SMALL)
    seeds = ("--seed", "7", "--output", str(tmp_path))
    both = [start(*flags, *seeds, "--repeat", "2"), start(*flags, *seeds)]
    several, single = (finish(process) for process in both)
    first, other = several.summaries
    second = one(single)
    assert first["session"] != second["session"]
    for summary in (first, other, second):
        laws.summary_is_true(summary, "netns")
    assert (first["accuracy"], first["loss"]) == (second["accuracy"], second["loss"])
    assert first["loss"] != other["loss"]


ONE_EPOCH = {"epochs": "1", "train_size": "1920", "lr_rule": "none"}
"""Samples of 20 steps with 96 of them, which four workers have in 24 each."""


@dataclass(frozen=True)
class Runs:
    """Runs of one session, with --no-report."""

    output: Path
    summaries: list[dict[str, Any]]
    stderr: str

    def of(self, **options: Any) -> dict[str, Any]:
        """The run with these options."""
        (found,) = (s for s in self.summaries if options.items() <= s["spec"].items())
        return found

    def are_alike(self, *summaries: dict[str, Any]) -> bool:
        """Whether the parameters at the end agree to 1e-5."""
        runs = [RunFolder(self.output / s["session"] / s["run"]) for s in summaries]
        first, second = (torch.load(run.model) for run in runs)
        return all(torch.allclose(first[n], second[n], rtol=0, atol=1e-5) for n in first)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    output = tmp_path_factory.mktemp("runs")
    sweeps = [
        ONE_EPOCH | {"strategy": "single", "batch_size": "96"},
        ONE_EPOCH | {"workers": "4", "batch_size": "24"},
        ONE_EPOCH | {"workers": "2", "batch_size": "96"},
        ONE_EPOCH | {"workers": "2", "batch_size": "32", "local_steps": "3"},
        {
            "strategy": "local-sgd",
            "local_steps": "4",
            "workers": "2",
            "epochs": "2",
            "train_size": "640",
            "batch_size": "32",
        },
    ]
    flags = (*NETNS, "--test-size", "1000", "--output", str(output))
    measured = measure(*flags, sweeps=sweeps)
    assert measured.code == 0, measured.stderr
    return Runs(output, measured.summaries, measured.stderr)


def test_all_reduce_equals_one_worker_with_the_whole_batch(runs: Runs) -> None:
    """20 steps on the same samples."""
    many, single = runs.of(workers=4), runs.of(strategy="single")
    assert many["steps"] == single["steps"] == 20
    assert runs.are_alike(many, single)


def test_accumulated_gradients_equal_those_of_the_larger_batch(runs: Runs) -> None:
    accumulated = runs.of(strategy="allreduce", local_steps=3)
    larger = runs.of(workers=2, batch_size=96)
    assert (accumulated["steps"], accumulated["rounds"]) == (30, 10)
    assert (larger["steps"], larger["rounds"]) == (10, 10)
    assert runs.are_alike(accumulated, larger)


def test_the_rest_of_an_epoch_is_exchanged_too(runs: Runs) -> None:
    summary = runs.of(strategy="local-sgd")
    assert (summary["steps"], summary["rounds"]) == (20, 6)
    assert summary["consensus_distance"] < 1e-6
    laws.summary_is_true(summary, "netns")


def test_a_session_makes_no_report_when_told_so(runs: Runs) -> None:
    """Otherwise it does: tests/cluster/test_quick_start.py."""
    assert list(runs.output.glob("*/report.html")) == []
    assert "report: " not in runs.stderr


def test_a_single_worker_sends_nothing(runs: Runs) -> None:
    summary = runs.of(strategy="single")
    assert summary["bytes"]["train"]["sent_bytes"] == 0
    assert summary["per_step"]["ratio"] is None
    assert summary["accuracy"] > 0.3


def test_more_nodes_than_the_neighbour_table_holds(tmp_path: Path) -> None:
    """40 nodes have 1,560 neighbours; the kernel's table has 1,024 entries."""
    flags = ("--workers", "40", "--epochs", "1", "--train-size", "800", "--batch-size", "20")
    output = ("--output", str(tmp_path))
    summary = one(measure(*NETNS, *flags, "--test-size", "100", *output))
    assert summary["steps"] == 1
    assert summary["counters"]["largest_difference"] < 0.01


def test_an_ordinary_user_needs_no_root_to_run_and_to_shape_links(tmp_path: Path) -> None:
    """In a user namespace as user 1000, without rights on the host."""
    prefix = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
    flags = ("--workers", "3", "--passes", "1", *laws.SMALL, "--output", str(tmp_path))
    links = ("--link", "50mbit", "--dilation", "1")
    summary = one(measure(*NETNS, *flags, *links, prefix=prefix))
    laws.summary_is_true(summary, "netns")
    assert [abs(link["error"]) < 0.03 for link in summary["links"]] == [True] * 3


def test_workers_have_no_privileges_and_an_interrupted_run_keeps_what_it_had(
    tmp_path: Path,
) -> None:
    process = start(*NETNS, "--workers", "2", "--epochs", "200", "--output", str(tmp_path))
    folder = await_steps(tmp_path, 5)
    status = [Path(f"/proc/{pid}/status").read_text() for pid in worker_processes(tmp_path)]
    process.send_signal(signal.SIGINT)
    assert finish(process).code == 130
    summary = (folder / "summary.json").read_text()
    assert '"status": "interrupted"' in summary
    assert (folder / "samples.csv").read_text().count("\n") > 2
    assert len(status) == 2
    for text in status:
        fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        assert int(fields["CapEff"], 16) == 0
        assert int(fields["CapPrm"], 16) == 0
        assert fields["NoNewPrivs"] == "1"


def test_a_cpu_limit_slows_training_and_changes_no_result(tmp_path: Path) -> None:
    """A fifth of a core: training takes five times its CPU time."""
    sizes = ("--epochs", "2", "--train-size", "1200", "--test-size", "100")
    flags = (*NETNS, "--workers", "1", "--strategy", "allreduce", *sizes)
    cases = [{"batch_size": "40"}, {"batch_size": "40", "cpus": "0.2"}]
    measured = measure(*flags, "--output", str(tmp_path), sweeps=cases)
    assert measured.code == 0, measured.stderr
    free, slow = measured.summaries
    assert slow["seconds"]["train_s"] > 2.5 * slow["steps"] * cost_of_a_step_s(slow["spec"])
    assert slow["accuracy"] == free["accuracy"]


def cost_of_a_step_s(spec: dict[str, Any]) -> float:
    """CPU seconds, which do not depend on how busy the machine is."""
    torch.set_num_threads(1)
    model, batch = make_model(spec["model"], spec["seed"]), spec["batch_size"]
    inputs, labels = torch.rand(batch, 1, 28, 28), torch.zeros(batch).long()
    functional.cross_entropy(model(inputs), labels).backward()  # the first takes longer
    began = time.process_time()
    for _ in range(STEPS):
        functional.cross_entropy(model(inputs), labels).backward()
    return (time.process_time() - began) / STEPS


def test_a_killed_worker_fails_its_run_by_name_within_seconds_and_not_the_sweep(
    tmp_path: Path,
) -> None:
    sizes = ("--workers", "3", "--train-size", "960", "--test-size", "200")
    process = start(*NETNS, *sizes, "--epochs", "2000,1", "--output", str(tmp_path))
    await_steps(tmp_path, 3)
    os.kill(worker_processes(tmp_path)[1], signal.SIGKILL)
    killed = time.monotonic()
    measured = finish(process)
    assert time.monotonic() - killed < SILENCE_S
    assert measured.code == 1
    summary, next_one = measured.summaries
    assert (summary["status"], next_one["status"]) == ("failed", "completed")
    assert summary["error"].startswith("node1 was ended by SIGKILL")
    assert summary["steps"] >= 3
    assert gone(lambda: processes_of(tmp_path))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_after_an_interruption_at_a_random_moment(
    number: signal.Signals, tmp_path: Path
) -> None:
    """Three measures at the same time, and so three moments."""
    interfaces = links()
    flags = (*NETNS, "--workers", "4", "--epochs", "100")
    outputs = [tmp_path / str(attempt) for attempt in range(3)]
    started = [start(*flags, "--output", str(output)) for output in outputs]
    for process in started:
        await_handlers(process)
    began = time.monotonic()
    for attempt, (process, output) in enumerate(zip(started, outputs, strict=True)):
        delay = 1.6 * (attempt + random.Random(10 * attempt + number).random())
        time.sleep(max(0.0, began + delay - time.monotonic()))
        with kept_namespaces(output) as namespaces:
            process.send_signal(number)
            measured = finish(process)
            assert measured.code == 128 + number, (delay, measured.stderr)
            assert gone(functools.partial(processes_of, output)), delay
            assert gone(lambda: network_namespaces() & namespaces), delay
    assert links() <= interfaces
