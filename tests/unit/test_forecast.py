"""Forecasts: clusters as people ask for them, fitted costs, their errors, and measured runs."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from analysis.predict.coding import coding_s
from analysis.predict.crossovers import sweeps
from analysis.predict.fitted import Errors, Fitted, load, save
from analysis.predict.fitting import errors, fit, fit_to
from analysis.predict.forecast import Cluster, bound_s, forecast
from analysis.predict.need import Need
from analysis.predict.observations import Observation, observe_all
from analysis.predict.simulation.nodes import Costs
from analysis.theory.predicted_bytes import WIRE_PER_PAYLOAD
from cluster.spec.documents.run_folder import RunFolder, find_runs, write_json
from cluster.spec.documents.summary import Fidelity
from cluster.spec.exchange.strategies import IN_STEP, STRATEGIES
from cluster.spec.links import Link
from cluster.spec.schedules.recorded import PlannedMessage, RecordedSchedule

RUNS = Path(__file__).resolve().parents[1] / "data" / "runs"
COSTS = Costs(5e-4, 2e-9)
MBIT = 10**6


def cluster(strategy: str, workers: int = 4, rate_mbit: int = 100, **more: object) -> Cluster:
    passes = 1 if STRATEGIES[strategy].has_passes else None
    given = {"model_bytes": 10**6, "link": Link(rate_mbit * MBIT), "passes": passes}
    if passes:
        given["schedule"] = "ring"
    return Cluster(strategy=strategy, workers=workers, **given | more)  # type: ignore[arg-type]


def step_s(strategy: str, **more: object) -> float:
    return forecast(cluster(strategy, **more), COSTS).step_s  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", IN_STEP)
def test_what_makes_an_exchange_longer_makes_a_step_longer(strategy: str) -> None:
    usual = step_s(strategy, compute_s=0.05)
    assert step_s(strategy, compute_s=0.05, rate_mbit=50) > 1.2 * usual
    assert step_s(strategy, compute_s=0.05, model_bytes=2 * 10**6) > 1.2 * usual
    assert step_s(strategy, compute_s=0.05, link=Link(100 * MBIT, 0.02)) > usual + 0.01
    assert step_s(strategy, compute_s=0.05, slow=((1, Link(10 * MBIT)),)) > 1.5 * usual
    assert step_s(strategy, compute_s=0.05, stragglers=((1, 0.1),)) > usual + 0.2
    assert step_s(strategy, compute_s=0.05, compress="fp16") < usual


def test_a_step_is_at_least_its_computing_and_the_bound_of_its_links() -> None:
    for strategy in IN_STEP:
        asked = cluster(strategy, compute_s=0.05)
        found, bound = forecast(asked, COSTS), bound_s(asked)
        assert found.step_s >= 0.05
        assert bound is None or found.exchange_s >= bound


def test_local_steps_share_one_exchange() -> None:
    one, four = (
        forecast(cluster("allreduce", compute_s=0.05, local_steps=h), COSTS) for h in (1, 4)
    )
    assert four.exchange_s == pytest.approx(one.exchange_s)
    assert four.step_s == pytest.approx(0.05 + one.exchange_s / 4)


@pytest.mark.parametrize("strategy", ["allreduce", "gather-scatter", "ddp", "halving-doubling"])
def test_the_rate_that_a_share_needs_is_the_one_at_which_it_is_simulated(strategy: str) -> None:
    asked = cluster(strategy, model_bytes=400_000, compute_s=0.1)
    for share in (0.5, 0.75, 0.9):
        rate = Need(asked, COSTS).rate_bit(share)
        assert rate is not None
        found = forecast(dataclasses.replace(asked, link=Link(round(rate))), COSTS)
        assert 0.1 / found.step_s == pytest.approx(share, rel=0.02)


@pytest.mark.parametrize("workers", [5, 6, 9])
@pytest.mark.parametrize("strategy", IN_STEP)
def test_a_link_that_is_hardly_slower_hardly_changes_a_step(strategy: str, workers: int) -> None:
    asked = cluster(strategy, workers, 15, compute_s=0.08)
    slower = dataclasses.replace(asked, slow=((2, Link(14_999_000)),))
    equal, unequal = (forecast(each, COSTS).step_s for each in (asked, slower))
    assert unequal == pytest.approx(equal, rel=0.01)


def test_fast_links_leave_what_a_node_moves() -> None:
    """ResNet-18 between two nodes at 1 Gbit/s took 376 ms (docs/benchmarks.md, dilation)."""
    shipped = load().costs
    asked = cluster("allreduce", 2, 1000, model_bytes=44_700_000, compute_s=0.18)
    assert forecast(asked, shipped).exchange_s == pytest.approx(0.376, rel=0.02)
    fastest = forecast(dataclasses.replace(asked, link=Link(10**12)), shipped)
    assert fastest.exchange_s == pytest.approx(0.0447, rel=0.2)


def test_lossy_codecs_take_their_bytes() -> None:
    whole, small = (forecast(cluster("allreduce", compress=c), COSTS) for c in ("none", "int8"))
    assert small.sent_bytes == pytest.approx(0.254 * whole.sent_bytes, rel=0.02)
    assert small.step_s < 0.35 * whole.step_s


def test_encoding_takes_longer_where_nodes_share_cores() -> None:
    asked = cluster("allreduce", workers=8, compress="int4", model_bytes=4 * 10**6)
    encoding = dataclasses.replace(COSTS, encodes=True)
    alone = forecast(asked, encoding).step_s - forecast(asked, COSTS).step_s
    shared = dataclasses.replace(asked, cores=2)
    together = forecast(shared, encoding).step_s - forecast(shared, COSTS).step_s
    assert alone == pytest.approx(coding_s("allreduce", "int4", 8, 10**6), rel=0.01)
    assert together == pytest.approx(4 * alone, rel=0.01)
    exact = cluster("allreduce", workers=8)
    assert forecast(exact, encoding) == forecast(exact, COSTS)


def test_ddp_hides_all_but_its_last_bucket() -> None:
    """16 MiB: a first bucket of 1 MiB, and one of 15 that is ready when backward has ended."""
    size = 16 * 2**20
    asked = cluster("ddp", model_bytes=size, compute_s=10.0)
    exchange = forecast(cluster("ddp", model_bytes=size), COSTS).step_s
    assert len(asked.buckets) == 2
    assert forecast(asked, COSTS).exchange_s == pytest.approx(15 / 16 * exchange, rel=0.01)


def test_buckets_overlap_backward_where_that_is_asked_for() -> None:
    pieces = (250_000,) * 4
    apart = forecast(cluster("allreduce", compute_s=0.3, bucket_bytes=pieces), COSTS)
    over = forecast(cluster("allreduce", compute_s=0.3, bucket_bytes=pieces, overlap=True), COSTS)
    assert over.exchange_s == pytest.approx(apart.exchange_s / 4, rel=0.05)


def test_tokens_of_a_link_pass_at_once() -> None:
    asked = cluster("allreduce", compute_s=0.5)
    shaped = dataclasses.replace(asked, burst_bytes=(125_000.0,) * 4)
    gained = forecast(asked, COSTS).exchange_s - forecast(shaped, COSTS).exchange_s
    assert gained == pytest.approx(0.01, rel=0.1)


def test_nodes_that_share_cores_take_longer_on_free_links() -> None:
    free = cluster("allreduce", link=None, model_bytes=10**8)
    shared = dataclasses.replace(free, cores=2)
    assert forecast(shared, COSTS).step_s > 1.9 * forecast(free, COSTS).step_s


# --------------------------------------------------------------------------------- fit and errors


def observed(asked: Cluster, disturbed: float = 1.0) -> Observation:
    found = forecast(asked, COSTS)
    return Observation(asked, found.step_s * disturbed, found.exchange_s, found.sent_bytes)


def grid() -> list[Cluster]:
    return [
        cluster(strategy, workers, rate, model_bytes=size, compute_s=0.01)
        for strategy in ("allreduce", "ring")
        for workers in (2, 5)
        for rate, size in ((1000, 10**5), (10_000, 10**7))
    ]


def test_the_costs_that_made_the_times_are_found_beside_a_disturbed_run() -> None:
    seen = [observed(asked, 2.0 if place == 3 else 1.0) for place, asked in enumerate(grid())]
    found = fit(seen)
    assert found.message_s == pytest.approx(COSTS.message_s, rel=0.1)
    assert found.byte_s == pytest.approx(COSTS.byte_s, rel=0.2)


def test_errors_are_those_of_runs_that_were_not_seen(tmp_path: Path) -> None:
    others = [observed(cluster("allreduce", 6), 1.5), observed(cluster("ring", 6))]
    model = fit_to([observed(asked) for asked in grid()], others)
    assert model.errors is not None
    assert model.errors.runs == 2
    assert model.errors.step_worst == pytest.approx(1 / 3, rel=0.05)
    assert model.errors.exchange_median < 0.02
    assert list(model.ranges["workers"]) == [2, 6]
    save(model, tmp_path / "fitted.json")
    assert load(tmp_path / "fitted.json") == model


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "file holds no fitted costs"),
        ("[]", "file holds no fitted costs"),
        ('{"schema": 2, "ranges": 5}', "file holds no fitted costs"),
        ("no json", "file holds no fitted costs"),
        ('{"schema": 1, "ranges": {}}', "file has schema 1"),
        ('{"schema": true, "ranges": {}}', "file has schema True"),
    ],
)
def test_a_file_without_costs_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(ValueError, match=reason):
        load(tmp_path / "file")


def test_the_shipped_costs_know_their_error() -> None:
    model = load()
    assert model.errors is not None
    assert model.errors.runs >= 70
    assert model.errors.step_median <= 0.03
    assert model.errors.bytes_median <= 0.001


def fitted_with(error: float) -> Fitted:
    ranges = {"workers": (2.0, 6.0), "rate_mbit": (50.0, 200.0), "model_bytes": (1e5, 1e6)}
    missed = Errors(100, error, 2 * error, error, 2 * error, 0.0, 0.0)
    return Fitted(COSTS.message_s, COSTS.byte_s, 40, "2026-11-18", ranges, missed)


def test_what_is_outside_of_measured_runs_is_named() -> None:
    known = fitted_with(0.02)
    assert known.outside(cluster("allreduce")) == ""
    assert known.outside(cluster("allreduce", 8)) == "workers outside"
    far = known.outside(cluster("allreduce", 1024, 10_000))
    assert far == "workers far outside, link far outside"


def test_crossovers_are_called_beyond_the_models_own_error_only() -> None:
    """With more workers a ring overtakes a star; a model that misses 40 % cannot say where."""
    both = [cluster(name, 16) for name in ("allreduce", "gather-scatter")]
    by_workers, _ = sweeps(fitted_with(0.02), both)
    assert [c.faster for c in by_workers.crossovers] in (["allreduce"], [])
    assert by_workers.stretches[-1].fastest == ("allreduce",)
    blind, _ = sweeps(fitted_with(5.0), both)
    assert blind.crossovers == ()
    assert set(blind.stretches[0].fastest) == {"allreduce", "gather-scatter"}


@pytest.mark.parametrize("codec", ["sign", "randk:0.0001", "int8"])
def test_ddp_with_a_lossy_codec_waits_for_its_exchange(codec: str) -> None:
    """Also where the first bucket is all of the model."""
    for size in (1_048_580, 10**7):
        asked = cluster("ddp", compute_s=0.05, model_bytes=size, compress=codec)
        plain = cluster("allreduce", compute_s=0.05, model_bytes=size, compress=codec)
        found, same = (forecast(each, COSTS).exchange_s for each in (asked, plain))
        assert found >= 0.99 * same


def test_flows_of_two_sizes_between_the_same_nodes_are_both_counted() -> None:
    """Everyone sends 100 kB to the next and 200 kB to the two after it, all at once."""
    near = [PlannedMessage(rank, (rank + 1) % 5, 10**5, 0) for rank in range(5)]
    far = [PlannedMessage(rank, (rank + k) % 5, 2 * 10**5, 0) for rank in range(5) for k in (1, 2)]
    schedule = RecordedSchedule.of([[*near, *far]], [0], 5)
    asked = cluster("allreduce", workers=5, recorded=schedule)
    payload_rate = 100e6 / 8 / WIRE_PER_PAYLOAD
    found = forecast(asked, Costs()).exchange_s
    assert found == pytest.approx(5 * 10**5 / payload_rate, rel=0.02)


def test_a_strategy_of_ones_own_takes_what_its_messages_take() -> None:
    """A star without a pipeline: two messages of M cross the root's link for each leaf."""
    gather = [PlannedMessage(rank, 0, 10**6, 0) for rank in (1, 2)]
    scatter = [PlannedMessage(0, rank, 10**6, 1) for rank in (1, 2)]
    schedule = RecordedSchedule.of([[*gather, *scatter]], [0], 3)
    asked = Cluster(
        strategy="star.py",
        workers=3,
        model_bytes=10**6,
        link=Link(100 * MBIT),
        compute_s=0.05,
        recorded=schedule,
    )
    found = forecast(asked, COSTS)
    payload_rate = 100e6 / 8 / WIRE_PER_PAYLOAD
    assert found.exchange_s == pytest.approx(4 * 10**6 / payload_rate, rel=0.02)
    assert found.step_s == pytest.approx(0.05 + found.exchange_s)
    assert found.sent_bytes == pytest.approx(4 * 10**6 / 3)


# ---------------------------------------------------------------------------------- measured runs


def test_recorded_runs_are_observed_with_their_slow_nodes() -> None:
    found = observe_all(find_runs(RUNS))
    assert {run.cluster.strategy for run in found} >= {"allreduce", "gather-scatter"}
    assert any(run.cluster.slow for run in found)
    shaped = [run for run in found if run.cluster.rate_mbit == 50]
    result = errors(shaped, load().costs)
    assert result is not None
    assert result.bytes_worst < 0.002


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
