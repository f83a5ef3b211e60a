"""The cost model: its formula, its fit, its ranges and errors."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from analysis.predict.cost_model import (
    Cluster,
    Constants,
    exchange_of,
    forecast,
    saved_s,
)
from analysis.predict.crossovers import sweeps
from analysis.predict.fitted import Fitted, load, save
from analysis.predict.fitting import errors, fit, fit_to
from analysis.predict.observations import Observation, observe_all
from cluster.spec import strategies
from cluster.spec.documents.run_folder import RunFolder, find_runs, write_json
from cluster.spec.documents.summary import Fidelity

RUNS = Path(__file__).resolve().parents[1] / "data" / "runs"
TRUE = Constants(time=(2e-4, 1.02, 3e-9, 0.9), bytes=(0.004, 150.0), runs=0)
ROOTED = ("gather-scatter", "parameter-server")
STRATEGIES = ("allreduce", "allgather", *ROOTED, "reduce-broadcast", "pairwise", "ddp")


def cluster(
    strategy: str, workers: int, rate: float | None, size: int, cores: int | None = 2
) -> Cluster:
    passes = 1 if strategy == "pairwise" else None
    schedule = "ring" if passes else None
    return Cluster(
        strategy=strategy,
        workers=workers,
        model_bytes=size,
        rate_mbit=rate,
        cores=cores,
        passes=passes,
        schedule=schedule,
    )


def grid(strategy: str) -> list[Cluster]:
    return [
        dataclasses.replace(cluster(strategy, workers, rate, size), burst_bytes=90_000)
        for workers in (2, 4, 6)
        for rate in (50, 200, None)
        for size in (600_000, 2_400_000)
    ]


def observe(cluster: Cluster, disturbed: float = 1.0) -> Observation:
    found = forecast(TRUE, cluster)
    return Observation(cluster, found.step_s * disturbed, found.sent_bytes)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_constants_that_made_the_times_are_found(strategy: str) -> None:
    model = fit([observe(each) for each in grid(strategy)])
    unseen = cluster(strategy, 9, 90, 5_000_000)
    expected, got = forecast(TRUE, unseen), forecast(model[strategy], unseen)
    assert got.step_s == pytest.approx(expected.step_s, rel=1e-3)
    assert got.sent_bytes == pytest.approx(expected.sent_bytes, rel=1e-4)
    assert min(model[strategy].time) >= 0


def test_a_run_that_was_disturbed_does_not_spoil_the_others() -> None:
    seen = [
        observe(each, 2.0 if place in (3, 9) else 1.0)
        for place, each in enumerate(grid("allreduce"))
    ]
    model = fit(seen)["allreduce"]
    unseen = cluster("allreduce", 5, 100, 1_200_000)
    assert forecast(model, unseen).step_s == pytest.approx(forecast(TRUE, unseen).step_s, rel=0.01)


def test_too_few_runs_are_not_fitted() -> None:
    assert fit([observe(each) for each in grid("ring")[:3]]) == {}


@pytest.mark.parametrize(("workers", "models"), [(2, 1), (3, 2), (4, 2), (5, 3), (8, 3)])
def test_a_tree_takes_what_passes_its_root(workers: int, models: int) -> None:
    """Its levels work at the same time: the root has log2 N children, up and down."""
    assert exchange_of(cluster("reduce-broadcast", workers, 100, 1)).path == models


def test_links_and_nodes_work_at_the_same_time_and_the_slower_counts() -> None:
    slow, fast = (forecast(TRUE, cluster("allreduce", 4, rate, 10**8)) for rate in (10, 10**6))
    assert (slow.limit, fast.limit) == ("links", "nodes")
    again = forecast(TRUE, cluster("allreduce", 4, 10**5, 10**8))
    assert again.step_s == fast.step_s


def throttled(strategy: str, compute_s: float, local_steps: int = 1) -> Cluster:
    """Its buckets hold 10 ms of the link."""
    plain = cluster(strategy, 4, 100, 10**6, cores=None)
    return dataclasses.replace(
        plain, burst_bytes=125_000, compute_s=compute_s, local_steps=local_steps
    )


@pytest.mark.parametrize(
    ("shaped", "saved"),
    [
        (throttled("allreduce", 0.0), 0.0),  # no pause, so nothing gathers
        (throttled("allreduce", 0.004), 0.004),
        (throttled("allreduce", 0.5), 0.010),  # and no more than the bucket holds
        (throttled("local-sgd", 0.004, local_steps=2), 0.008),
        (dataclasses.replace(throttled("allreduce", 0.5), burst_bytes=0), 0.0),
        (dataclasses.replace(throttled("allreduce", 0.5), rate_mbit=None), 0.0),
    ],
)
def test_a_token_bucket_saves_what_gathered_in_a_pause(shaped: Cluster, saved: float) -> None:
    assert saved_s(shaped) == pytest.approx(saved)
    slow_by_nature = dataclasses.replace(shaped, burst_bytes=0)
    gained = forecast(TRUE, slow_by_nature).exchange_s - forecast(TRUE, shaped).exchange_s
    assert gained == pytest.approx(saved)


def test_no_bucket_saves_more_than_the_exchange_takes() -> None:
    tiny = dataclasses.replace(throttled("allreduce", 0.5), model_bytes=1000)
    assert forecast(TRUE, tiny).exchange_s == pytest.approx(6 * TRUE.time[0], rel=0.1)


def test_delay_is_paid_for_every_message_in_turn() -> None:
    near = cluster("allreduce", 8, 100, 10**6)
    far = dataclasses.replace(near, delay_s=0.01)
    assert forecast(TRUE, far).step_s - forecast(TRUE, near).step_s == pytest.approx(14 * 0.01)


@pytest.mark.parametrize(
    ("size", "compute", "step"),
    [
        (10**6, 1.0, 2.0),  # one bucket: it leaves when backward has ended
        (16 * 2**20, 1.0, 1 + 15 / 16),  # as bench overlap measures it: 1.94
        (250 * 2**20, 2.0, 2.1),  # the last tenth of it is left
        (250 * 2**20, 0.5, 1.0),  # there is always a bucket on its way
    ],
)
def test_ddp_hides_all_but_its_last_bucket(size: int, compute: float, step: float) -> None:
    """Times in units of the exchange."""
    idle = cluster("ddp", 4, 100, size)
    exchange = forecast(TRUE, idle).step_s
    busy = dataclasses.replace(idle, compute_s=compute * exchange)
    assert forecast(TRUE, busy).step_s == pytest.approx(step * exchange)
    found = fit([observe(busy)] * 4)["ddp"]
    assert forecast(found, busy).step_s == pytest.approx(step * exchange, rel=1e-3)


def test_the_busiest_node_is_the_root_of_a_star() -> None:
    found = exchange_of(cluster("gather-scatter", 9, 100, 1))
    assert (found.busiest, found.handled_most) == (8, 16)


def test_what_is_outside_of_the_fit_is_named() -> None:
    model = Fitted(
        {"allreduce": TRUE},
        {"workers": (2, 6), "rate_mbit": (50, 200), "model_bytes": (10**5, 10**6)},
        None,
    )
    assert model.outside(cluster("allreduce", 4, 100, 10**6)) == ""
    assert model.outside(cluster("allreduce", 8, 100, 10**6)) == "workers outside"
    assert (
        model.outside(cluster("allreduce", 1024, 10_000, 10**6))
        == "workers far outside, link far outside"
    )


def test_errors_are_those_of_runs_that_were_not_seen() -> None:
    """Step times that no term explains: only what was left out is missed."""
    seen = [observe(each) for each in grid("allreduce")]
    others = [observe(cluster("allreduce", 12, 100, 10**6), 1.5)]
    model = fit_to(seen, others)
    assert model.errors is not None
    assert model.errors.runs == 1
    assert model.errors.step_median == pytest.approx(1 / 3, rel=0.01)
    left_out = fit_to(seen).errors
    assert left_out is not None
    assert left_out.runs == len(seen)


def test_a_model_read_again_is_the_same(tmp_path: Path) -> None:
    model = fit_to([observe(each) for each in grid("allreduce")])
    save(model, tmp_path / "fitted.json")
    assert load(tmp_path / "fitted.json") == model


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "file is no fitted model"),
        ("[]", "file is no fitted model"),
        ('{"schema": 2, "strategy": "ring"}', "file is no fitted model"),
        ('{"schema": 1, "strategies": 5}', "file is no fitted model: strategies must be"),
        ("no json", "file is no fitted model"),
        ('{"schema": 9, "strategies": {}}', "file has schema 9"),
        ('{"schema": true, "strategies": {}}', "file has schema True"),
    ],
)
def test_a_file_that_is_no_model_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(ValueError, match=reason):
        load(tmp_path / "file")


def test_the_shipped_model_knows_its_error_and_strategies_that_exist() -> None:
    model = load()
    assert set(model.strategies) <= set(strategies.STRATEGIES)
    assert model.knows("local-sgd")  # by the constants of allreduce, whose messages it sends
    assert not model.knows("single")
    assert model.errors is not None
    assert model.errors.step_median <= 0.10
    assert model.errors.bytes_median <= 0.02


def test_recorded_runs_are_observed_but_not_those_with_slow_nodes() -> None:
    found = observe_all(find_runs(RUNS))
    assert {run.cluster.strategy for run in found} >= {"allreduce", "gather-scatter"}
    assert not any("slow" in run.run or "single" in run.run for run in found)
    shaped = [run for run in found if run.cluster.rate_mbit == 50]
    result = errors((load(), run) for run in shaped)
    assert len(shaped) == 2
    assert result is not None
    assert result.bytes_median < 0.02


@pytest.mark.parametrize(("verdict", "count"), [("held", 1), ("unknown", 1), ("contended", 0)])
def test_a_contended_run_is_not_observed(verdict: str, count: int, tmp_path: Path) -> None:
    source = next(run for run in find_runs(RUNS) if "allreduce" in run.name)
    copy = RunFolder(shutil.copytree(source.path, tmp_path / "session" / source.name))
    fidelity = Fidelity(verdict=verdict)
    write_json(copy.summary, dataclasses.replace(source.read_summary(), fidelity=fidelity))
    assert len(observe_all([copy])) == count


def test_a_damaged_run_is_not_observed(tmp_path: Path) -> None:
    run = next(iter(find_runs(RUNS)))
    copy = tmp_path / "run"
    copy.mkdir()
    (copy / "summary.json").write_text(run.summary.read_text()[:500])
    assert observe_all(find_runs(tmp_path)) == []


def test_a_run_with_more_workers_than_tables_take_is_not_observed(tmp_path: Path) -> None:
    """Its messages would not fit into memory."""
    run = next(folder for folder in find_runs(RUNS) if observe_all([folder]))
    copy = RunFolder(tmp_path / "run")
    shutil.copytree(run.path, copy.path)
    document = json.loads(run.summary.read_text())
    document["spec"] |= {"workers": 10**9, "train_size": 10**12}
    copy.summary.write_text(json.dumps(document))
    assert observe_all([copy]) == []


def test_sweeps_find_crossovers_and_what_is_outside_the_fit() -> None:
    """From some number of workers on a ring is faster than a star, whatever its messages cost."""
    star = dataclasses.replace(TRUE, time=(0.0, 1.0, 0.0, 0.0))
    ring = dataclasses.replace(TRUE, time=(0.01, 1.0, 0.0, 0.0))
    ranges = {"workers": (2.0, 6.0), "rate_mbit": (50.0, 200.0), "model_bytes": (1e5, 1e6)}
    model = Fitted({"gather-scatter": star, "allreduce": ring}, ranges, None)
    both = [cluster(name, 4, 100, 10**6, cores=None) for name in ("allreduce", "gather-scatter")]
    by_workers, by_link = sweeps(model, both)
    ((crossing, outside),) = by_workers.crossovers
    # 0.02 (N-1) + 0.0837 x 2 (N-1)/N against 0.0837 (N-1):
    # 0.104 and 0.084 s for N = 2, 0.152 and 0.167 s for N = 3
    assert (crossing.at, crossing.faster, outside) == (3, "allreduce", "")
    ((crossing, outside),) = by_link.crossovers
    assert crossing.faster == "gather-scatter"  # on quick links messages are what counts
    assert crossing.at > 100
    assert by_link.stretches[-1].fastest == ("gather-scatter",)
