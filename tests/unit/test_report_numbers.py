"""Numbers behind the report's figures: curves and their cost, scaling, bandwidth, rates."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.report.accuracy import correlation
from analysis.report.accuracy.curves import curve, frontier, reached, usual_target
from analysis.report.context import Report
from analysis.report.page import Chart
from analysis.report.time import scaling, steps
from analysis.report.time.scaling import find_series
from analysis.report.traffic.bandwidth import bandwidth
from analysis.tables.configurations import find_configurations
from analysis.tables.load import Runs, load_runs
from analysis.tables.rates import BINS, read_rates
from cluster.spec.documents.run_folder import RunFolder, find_runs

RUNS = Path(__file__).resolve().parents[1] / "data" / "runs"


@pytest.fixture(scope="module")
def recorded() -> Runs:
    return load_runs(find_runs(RUNS))


def test_runs_that_differ_in_their_seed_are_one_configuration(recorded: Runs) -> None:
    found = find_configurations(recorded)
    seeds = {config.label: len(config.numbers) for config in found}
    assert seeds["allreduce, 3 workers, mnist-cnn"] == 2
    assert sum(seeds.values()) == len(recorded.completed)
    assert len(seeds) == len(found)


def test_a_band_holds_its_mean_and_bytes_rise(recorded: Runs) -> None:
    for config in find_configurations(recorded):
        points = curve(recorded, config)
        assert all(point.low <= point.score <= point.high for point in points)
        assert [p.payload_bytes for p in points] == sorted(p.payload_bytes for p in points)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12))
def test_nothing_beats_the_frontier_and_all_else_is_beaten(ends: list[tuple[float, float]]) -> None:
    best = frontier(ends)
    for place, (sent, accuracy) in enumerate(ends):
        better = [
            (s, a) for s, a in ends if s <= sent and a >= accuracy and (s, a) != (sent, accuracy)
        ]
        same = [at for at in best if ends[at] == (sent, accuracy)]
        assert bool(better) != (place in best or bool(same))


def test_a_target_is_reached_at_the_first_epoch_that_has_it(recorded: Runs) -> None:
    (config,) = [
        c
        for c in find_configurations(recorded)
        if c.label == "pairwise (ring), 3 workers, 1 pass, mnist-cnn"
    ]
    points = recorded.curves[recorded.curves["number"] == config.numbers[0]]
    target = float(points["accuracy"].iloc[1])
    found = reached(recorded, config, target)
    assert found.of == 2
    assert found.seeds >= 1
    never = reached(recorded, config, 1.0)
    assert (never.seeds, never.payload_bytes) == (0, None)


def test_half_of_the_configurations_reach_the_usual_target(recorded: Runs) -> None:
    learned = [config for config in find_configurations(recorded) if config.mean("accuracy")]
    target = usual_target(recorded, learned)
    assert target is not None
    there = [
        config for config in learned if (got := reached(recorded, config, target)).seeds == got.of
    ]
    assert len(there) >= len(learned) / 2
    higher = [
        config
        for config in learned
        if (got := reached(recorded, config, target + 0.01)).seeds == got.of
    ]
    assert len(higher) <= len(learned) / 2


def test_scaling_compares_with_the_fewest_workers(recorded: Runs) -> None:
    series = {
        line.label: line.sizes for line in find_series(recorded, find_configurations(recorded))
    }
    sizes = series["allreduce"]
    assert [size.workers for size in sizes] == [1, 2, 3]
    assert (sizes[0].speed_up, sizes[0].efficiency, sizes[0].step_efficiency) == (1, 1, 1)
    for size in sizes:
        assert size.speed_up == pytest.approx(size.samples_per_s / sizes[0].samples_per_s)
        assert size.efficiency == pytest.approx(size.speed_up / size.workers)


def test_the_spread_of_a_speed_up_is_that_of_both_sizes() -> None:
    assert scaling._joint_spread([0.9, 1.1], [2.0, 2.0]) == pytest.approx(0.1 * 2**0.5)
    both = scaling._joint_spread([0.9, 1.1], [2.7, 3.3])
    assert both == pytest.approx(0.1 * 2**0.5 * 2**0.5)
    assert scaling._joint_spread([0.9, 1.1], [2.0]) is None


def test_a_bar_is_as_long_as_the_median_step(recorded: Runs) -> None:
    section = steps.section(Report.of(recorded))
    assert section is not None
    rows = section.tables["step_times"].dropna(subset=["compute_median_s"])
    assert not rows.empty
    parts = [rows[name].fillna(0) for name in steps.PARTS]
    step = rows["step_median_s"]
    assert (sum(parts) >= step - 1e-6).all()
    longer = sum(parts) > step + 1e-6  # only where the two medians alone are longer
    assert (rows["rest_s"][longer] == 0).all()
    assert rows["rest_s"].max() > 0
    charts = [block for block in section.body if isinstance(block, Chart)]
    assert steps.REST in [trace["name"] for chart in charts for trace in chart.data]
    assert steps.rest(0.1, None, None) is None


def test_nothing_is_drawn_of_runs_that_all_sent_or_learned_the_same(recorded: Runs) -> None:
    learned = recorded.table[recorded.table["accuracy"].notna()]
    same = learned.assign(train_payload_bytes=[1_000_000 + at for at in range(len(learned))])
    for table, drawn in ((learned, True), (same, False), (learned.assign(accuracy=0.5), False)):
        section = correlation.section(Report.of(dataclasses.replace(recorded, table=table)))
        assert section is not None
        assert any(isinstance(block, Chart) for block in section.body) == drawn


def test_four_configurations_have_no_correlation(recorded: Runs) -> None:
    learned = recorded.table[recorded.table["accuracy"].notna()]
    numbers_of = [
        config.numbers for config in find_configurations(recorded) if config.mean("accuracy")
    ]
    few = learned.loc[
        [number for numbers in numbers_of[: correlation.FEWEST - 1] for number in numbers]
    ]
    report = Report.of(dataclasses.replace(recorded, table=few))
    assert len(report.configurations) == correlation.FEWEST - 1
    assert correlation.section(report) is None


def test_pairs_pay_for_the_averaging_that_their_accuracy_takes(recorded: Runs) -> None:
    seen = {}
    for config in find_configurations(recorded):
        if points := curve(recorded, config):
            over = points[-1].payload_bytes - (config.mean("train_payload_bytes") or 0)
            seen[config.strategy, config.workers] = over / float(config.row["model_bytes"])
    assert seen["pairwise", 3] == pytest.approx(4)  # 2(N-1) models over all nodes
    assert seen["pairwise", 2] == seen["allreduce", 3] == pytest.approx(0)


def test_bytes_are_compared_without_headers(recorded: Runs) -> None:
    """At equal payload, twice the packets change no cost and no point of a figure."""
    more = recorded.table.assign(train_sent_bytes=recorded.table["train_sent_bytes"] * 2)
    later = recorded.curves.assign(sent_bytes=recorded.curves["sent_bytes"] * 2)
    other = dataclasses.replace(recorded, table=more, curves=later)
    for before, after in zip(*map(find_configurations, (recorded, other)), strict=True):
        assert curve(recorded, before) == curve(other, after)


@pytest.mark.parametrize(
    ("strategy", "passes", "algbw", "busbw"),
    [
        ("allreduce", None, 100, 150),  # M/t, and 2(n-1)/n of it
        ("gather-scatter", None, 100, 150),  # does the work of an all-reduce
        ("allgather", None, 400, 300),  # n M/t, and (n-1)/n of it
        ("pairwise", 1, 100, 100),  # an all-reduce between two
    ],
)
def test_bandwidths_are_those_of_nccl_tests(
    strategy: str, passes: int | None, algbw: float, busbw: float
) -> None:
    found = bandwidth(strategy, 4, passes, 1000, 10.0)
    assert (found.algbw, found.busbw) == (algbw, busbw)


def test_rates_add_up_to_the_bytes_of_the_samples() -> None:
    run = next(folder for folder in find_runs(RUNS) if "allreduce-n3" in folder.name)
    rates = read_rates(run)
    assert rates is not None
    for node, bits in rates.sent_bit.items():
        readings = [s.counters.sent_bytes for s in run.read_samples() if s.node == node]
        assert len(bits) == BINS
        assert sum(bits) * rates.step_s / 8 == pytest.approx(readings[-1] - readings[0], rel=0.01)
    names = [phase for phase, *_ in rates.phases]
    assert names[0] == "setup"
    assert names.count("train") == 3
    assert all(begin <= end for _, begin, end in rates.phases)


@pytest.mark.parametrize("damage", ["", "t,source\n", "not,a\ntable", "\x00\xff"])
def test_without_whole_lines_of_samples_there_are_no_rates(damage: str, tmp_path: Path) -> None:
    run = next(iter(find_runs(RUNS)))
    shutil.copytree(run.path, tmp_path / "run")
    (tmp_path / "run" / "samples.csv").write_text(damage)
    assert read_rates(RunFolder(tmp_path / "run")) is None


def test_a_counter_that_restarts_makes_no_negative_rate(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    rows = [
        f"{t},kernel,node0,{sent},0,0,0" for t, sent in ((0, 500), (1, 900), (2, 100), (3, 400))
    ]
    head = "t,source,node,sent_bytes,sent_packets,received_bytes,received_packets"
    (tmp_path / "samples.csv").write_text("\n".join([head, *rows]) + "\n")
    rates = read_rates(RunFolder(tmp_path))
    assert rates is not None
    assert min(rates.sent_bit["node0"]) >= 0
    assert sum(rates.sent_bit["node0"]) * rates.step_s / 8 == pytest.approx(
        400 + 100 + 300, rel=0.01
    )
