"""Learning curves: the steps that are kept of a run, and their means over workers and seeds."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pandas as pd
import pytest

from analysis.report.accuracy.learning_points import find_curves
from analysis.report.context import Report
from analysis.report.page import Choice
from analysis.report.sections import make_sections
from analysis.tables.load import load_runs
from analysis.tables.steps import FIRST_STEPS, MOST_STEPS, read_steps
from cluster.spec.documents.codec import DocumentError
from cluster.spec.documents.events import End, Event, Phase, Step
from cluster.spec.documents.records import Counters
from cluster.spec.documents.run_folder import RunFolder

DATA = Path(__file__).resolve().parents[1] / "data"


def write_log(folder: RunFolder, rank: int, steps: int, epochs: int = 1) -> None:
    """Epochs of steps of one second each, with evaluations of 100 seconds."""
    lines: list[Event] = []
    t = 0.0
    counters = Counters(0, 0, 0, 0)
    for epoch in range(epochs):
        lines.append(Phase(t=t, counters=counters, phase="train", epoch=epoch + 1))
        for index in range(steps // epochs):
            t += 1
            step = epoch * (steps // epochs) + index + 1
            lines.append(
                Step(
                    t=t,
                    epoch=epoch + 1,
                    step=step,
                    loss=1 / step,
                    step_s=1,
                    data_s=0,
                    compute_s=1,
                    exchange_s=0,
                )
            )
        lines.append(Phase(t=t, counters=counters, phase="evaluate", epoch=epoch + 1))
        t += 100
    lines.append(End(t=t, counters=counters))
    folder.events(rank).parent.mkdir(exist_ok=True)
    folder.events(rank).write_text("".join(line.line() for line in lines))


@pytest.mark.parametrize("count", [1, 7, MOST_STEPS, MOST_STEPS + 1, 3001, 20_000])
def test_the_first_and_the_last_steps_are_kept_and_not_too_many(tmp_path: Path, count: int) -> None:
    folder = RunFolder(tmp_path)
    write_log(folder, 0, count)
    kept = [int(step) for step in read_steps(folder, 1, 1, count)["step"]]
    assert kept[:FIRST_STEPS] == list(range(1, count + 1))[:FIRST_STEPS]
    assert kept[-1] == count
    assert len(kept) == count if count <= MOST_STEPS else len(kept) <= MOST_STEPS + FIRST_STEPS + 1
    later = kept[FIRST_STEPS + 1 : -1]
    assert len({b - a for a, b in itertools.pairwise(later)}) <= 1


def test_seconds_are_those_of_training_without_evaluation(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for rank in range(2):
        write_log(folder, rank, 12, epochs=3)
    steps = read_steps(folder, 1, 2, 12)
    assert steps["seconds"].tolist() == [*range(1, 13)] * 2
    assert steps["rank"].tolist() == [0] * 12 + [1] * 12


@pytest.mark.parametrize(
    "damage",
    ['"loss":"<b>"', '"loss":[1]', '"loss":1e99', '"step":null', '"loss":' + "9" * 400, '"loss"'],
)
def test_a_damaged_step_is_told_with_the_file(tmp_path: Path, damage: str) -> None:
    folder = RunFolder(tmp_path)
    folder.events(0).parent.mkdir()
    folder.events(0).write_text(f'{{"event":"step","t":1,"step":1,{damage}}}\n')
    with pytest.raises(DocumentError, match=r"node0\.jsonl"):
        read_steps(folder, 1, 1, 1)


def test_curves_are_means_over_workers_with_the_range_over_seeds() -> None:
    runs = load_runs(DATA / "runs")
    report = Report.of(runs)
    config = next(c for c in report.configurations if len(c.numbers) > 1 and c.workers > 1)
    curve = find_curves(runs, [config], "loss")[0]
    by_seed = []
    for number in config.numbers:
        losses = []
        for rank in range(config.workers):
            events = runs.folders[number].read_events(rank)
            losses.append([event.loss for event in events if isinstance(event, Step)])
        by_seed.append([fmean(at_step) for at_step in zip(*losses, strict=True)])
    assert len(curve.train) == len(by_seed[0]) <= 60
    for place, values in enumerate(zip(*by_seed, strict=True)):
        point = curve.train.iloc[place]
        expected = (min(values), fmean(values), max(values))
        assert (point["low"], point["mean"], point["high"]) == pytest.approx(expected)
    payload = config.mean("train_payload_bytes")
    assert curve.train["bytes"].iloc[-1] == pytest.approx(payload)
    assert curve.train["epoch"].iloc[-1] == curve.test["epoch"].iloc[-1] == config.row["epochs"]


def test_every_step_of_every_worker_is_in_the_table() -> None:
    runs = load_runs(DATA / "label-skew")
    section = next(s for s in make_sections(Report.of(runs)) if s.name == "learning")
    steps = section.tables["steps"]
    counts = steps.groupby(["run", "worker"]).size()
    assert counts.tolist() == [int(n) for n in runs.table["steps"] for _ in range(3)]
    assert steps["loss"].notna().all()
    assert (steps.groupby(["run", "worker"])["seconds"].diff().dropna() > 0).all()


def test_faults_are_crosses_on_the_curve_against_seconds() -> None:
    runs = load_runs(DATA / "runs")
    number = next(iter(runs.steps["number"]))
    fault = {"number": number, "fault": "1:kill@step4/1s", "node": "node1", "step": 4}
    runs = replace(runs, faults=pd.DataFrame([fault]))
    section = next(s for s in make_sections(Report.of(runs)) if s.name == "learning")
    choice = next(b for b in section.body if isinstance(b, Choice) and "loss" in b.name)
    drawn = {
        against: [trace for trace in chart.data if trace.get("marker", {}).get("symbol") == "x"]
        for against, chart in choice.charts.items()
    }
    assert [against for against, crosses in drawn.items() if crosses] == ["seconds"]
    (cross,) = drawn["seconds"]
    own = runs.steps[(runs.steps["number"] == number) & (runs.steps["step"] < 4)]
    assert cross["customdata"] == ["1:kill@step4/1s"]
    assert cross["x"] == pytest.approx([own["seconds"].max()], rel=0.01)
