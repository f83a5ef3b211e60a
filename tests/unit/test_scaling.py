"""Which runs make a series, and what they are compared with: a recorded run with other numbers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from analysis.report.context import Report
from analysis.report.overview.answers import answers
from analysis.report.time.scaling import Series, find_series
from analysis.tables.configurations import find_configurations
from analysis.tables.load import load_runs
from cluster.spec.documents.run_folder import find_runs

RECORDED = Path(__file__).resolve().parents[1] / "data" / "runs"


@pytest.fixture
def tell(tmp_path: Path) -> Any:
    """Runs with these options, whose steps and epochs take so many seconds."""
    source = next(f.path for f in find_runs(RECORDED) if "allreduce-n2" in f.path.name)

    def told(*runs: dict[str, Any]) -> dict[str, Series]:
        for at, run in enumerate(runs):
            folder = tmp_path / "20260101-000000-aaaa" / f"{at:03}"
            shutil.copytree(source, folder)
            summary = json.loads((folder / "summary.json").read_text())
            summary |= {"session": folder.parent.name, "run": folder.name}
            options = {key: value for key, value in run.items() if not key.endswith("_s")}
            spec = summary["spec"] | {"epochs": 2, "train_size": 12_288} | options
            steps = 2 * (spec["train_size"] // (spec["batch_size"] * spec["workers"]))
            summary |= {"spec": spec, "steps": steps}
            summary["seconds"] = {"step_median_s": run["step_s"], "train_s": 2 * run["epoch_s"]}
            summary |= dict.fromkeys(("training", "bytes", "traffic_matrix"))
            if verdict := spec.pop("fidelity", None):
                summary["fidelity"] = {"verdict": verdict, "largest_wait_share": 0.5}
            (folder / "summary.json").write_text(json.dumps(summary))
        loaded = load_runs(find_runs(tmp_path))
        assert len(loaded.completed) == len(runs)
        return {series.label: series for series in find_series(loaded, find_configurations(loaded))}

    return told


@pytest.mark.parametrize(
    ("verdicts", "text"),
    [
        (("held", "held", "held"), "4 workers reach 2.00× the samples"),
        (("held", "held", "contended"), "2 workers reach 1.25× the samples"),
        (("held", "contended", "contended"), "No order"),
        (("contended", "contended", "contended"), "No order"),
    ],
)
def test_a_speed_up_is_that_of_sizes_that_held(
    tell: Any, tmp_path: Path, verdicts: tuple[str, ...], text: str
) -> None:
    """Of ddp, which does not tell its computing."""
    sizes = zip((1, 2, 4), (100.0, 80.0, 50.0), verdicts, strict=True)
    tell(*(run("ddp", n, 32, epoch_s, fidelity=verdict) for n, epoch_s, verdict in sizes))
    found = answers(Report.of(load_runs(find_runs(tmp_path))))
    (answer,) = [answer for answer in found if answer.question == "Speed-up"]
    assert str(answer).startswith(f"Speed-up: {text}")
    assert answer.grey == (text == "No order")


def run(strategy: str, workers: int, batch: int, epoch_s: float, **more: Any) -> dict[str, Any]:
    options = {"strategy": strategy, "workers": workers, "batch_size": batch}
    return options | {"epoch_s": epoch_s, "step_s": epoch_s / 100} | more


def speed_ups(series: Series) -> list[tuple[int, float]]:
    return [(size.workers, size.speed_up) for size in series.sizes]


def test_every_batch_size_is_a_series_with_its_own_single(tell: Any) -> None:
    found = tell(
        *(run("single", 1, 32, 100.0), run("single", 1, 128, 50.0)),
        *(run("allreduce", 2, 32, 80.0), run("allreduce", 4, 32, 50.0)),
        *(run("allreduce", 2, 128, 40.0), run("allreduce", 4, 128, 20.0)),
    )
    assert speed_ups(found["allreduce, 32 samples a worker"]) == [(1, 1), (2, 1.25), (4, 2)]
    assert speed_ups(found["allreduce, 128 samples a worker"]) == [(1, 1), (2, 1.25), (4, 2.5)]
    assert len(found) == 2


def test_one_batch_for_all_workers_is_a_series_without_weak_scaling(tell: Any) -> None:
    """256 samples over 1, 2, 3 (255 of them) and 4 workers; ddp has its own run of one worker."""
    found = tell(
        run("single", 1, 256, 90.0),
        *(run("ddp", n, 256 // n, 100.0 / n) for n in (1, 2, 3, 4)),
    )
    (series,) = found.values()
    assert series.label == "ddp, 256 samples over all workers"
    assert speed_ups(series) == [(1, 1), (2, 2), (3, pytest.approx(3 * 12_240 / 12_288)), (4, 4)]
    assert {size.step_efficiency for size in series.sizes} == {None}


def test_workers_that_drop_more_samples_are_not_faster_for_it(tell: Any) -> None:
    """Steps of 0.5 s and 640 samples: five steps of 128 samples, and one of 384."""
    runs = (run("allreduce", n, 64, epoch_s, step_s=0.5) for n, epoch_s in ((2, 2.5), (6, 0.5)))
    (series,) = tell(*(told | {"train_size": 640} for told in runs)).values()
    assert [size.samples_per_s for size in series.sizes] == [256, 768]
    assert speed_ups(series) == [(2, 1), (6, 3)]
    assert [size.efficiency for size in series.sizes] == [1, 1]


def test_a_single_on_other_machines_or_data_is_no_base(tell: Any) -> None:
    gpus = [run("allreduce", n, 32, 8.0 / n, gpu=1) for n in (2, 4)]
    found = tell(run("single", 1, 32, 100.0), *gpus)
    assert speed_ups(found["allreduce"]) == [(2, 1), (4, 2)]


def test_a_run_by_itself_is_no_series(tell: Any) -> None:
    assert tell(run("allreduce", 2, 32, 8.0), run("ddp", 4, 32, 8.0)) == {}


def test_runs_on_other_data_are_no_seeds(tell: Any, tmp_path: Path) -> None:
    tell(run("allreduce", 2, 32, 8.0), run("allreduce", 2, 32, 8.0, dataset="fashion-mnist"))
    found = find_configurations(load_runs(find_runs(tmp_path)))
    assert [config.label for config in found] == [
        "allreduce, mnist-cnn on mnist",
        "allreduce, mnist-cnn on fashion-mnist",
    ]
