"""The report of recorded runs has the recorded tables and structure, wherever it is made."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pytest

from analysis.network_report import main
from analysis.report.context import Report
from analysis.report.page import Chart, Choice
from analysis.report.sections import make_sections
from analysis.tables.load import load_runs
from cluster.spec.documents.run_folder import find_runs
from tests.report.record import RUNS, expected, report

PROJECT = Path(__file__).resolve().parents[2]


def test_the_recorded_runs_give_the_recorded_report(tmp_path: Path) -> None:
    """Where it should differ: python -m tests.report.record, and look at the differences."""
    made, recorded = report(tmp_path / "out"), expected()
    assert set(made) == set(recorded)
    for name, text in made.items():
        assert text == recorded[name], name


def test_it_does_not_depend_on_place_time_zone_language_or_chance(tmp_path: Path) -> None:
    shutil.copytree(RUNS, tmp_path / "elsewhere" / "runs")
    odd = {"PYTHONHASHSEED": "7", "TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", "analysis.network_report", "--output", "other"]
    subprocess.run(
        command, cwd=tmp_path / "elsewhere", env=os.environ | odd, check=True, capture_output=True
    )
    made = (tmp_path / "elsewhere" / "other" / "report.html").read_bytes()
    assert main([str(RUNS), "--output", str(tmp_path / "here")]) == 0
    assert made == (tmp_path / "here" / "report.html").read_bytes()


def test_every_figure_is_one_that_plotly_knows() -> None:
    """A misspelt property is ignored by the browser; the library's own schema refuses it."""
    figures = 0
    made = make_sections(Report.of(load_runs(find_runs(RUNS))))
    for part in (part for section in made for part in (section, *section.parts)):
        for block in part.body:
            if isinstance(block, Chart | Choice):
                for figure in block.content.get("choices", [block.content]):
                    assert go.Figure(data=figure["data"], layout=figure["layout"]).data
                    figures += 1
    assert figures > 20


SESSION = "20261117-072543-2a07"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A copy of one session: 8 runs of single, allreduce, pairwise and parameter-server."""
    shutil.copytree(RUNS / SESSION, tmp_path / "runs" / SESSION)
    return tmp_path / "runs"


def page_of(runs: Path, *flags: str) -> str:
    assert main([str(runs), "--output", str(runs.parent / "out"), *flags]) == 0
    return (runs.parent / "out" / "report.html").read_text()


def test_a_target_that_no_run_reached_names_the_nearest_configuration(runs: Path) -> None:
    page = page_of(runs, "--target", "99.9%")
    assert re.search(r"No run reached 99\.9 %.*single", page)


def test_the_page_can_be_opened_in_a_browser(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    page_of(runs, "--open")
    assert shown == [(runs.parent / "out" / "report.html").as_uri()]


def test_costs_are_those_of_the_given_target(runs: Path) -> None:
    page_of(runs, "--target", "0.3")
    table = pd.read_csv(runs.parent / "out" / "tables" / "target.csv")
    assert set(table["target"]) == {0.3}
    assert table["payload_bytes"].notna().any()


@pytest.mark.parametrize("target", ["0", "1.5", "good", "-3%", "nan", "9bits", "0bits", "nanbits"])
def test_a_target_that_is_no_accuracy_is_refused(
    target: str, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main([str(runs), f"--target={target}"])
    assert end.value.code == 2
    assert "such as 0.9 or 90%" in capsys.readouterr().err


def damage(runs: Path, name: str, text: str) -> None:
    for path in runs.rglob(name):
        path.write_text(text)


@pytest.mark.parametrize("name", ["samples.csv", "node0.jsonl"])
def test_files_that_were_cut_off_cost_a_section_and_no_more(name: str, runs: Path) -> None:
    damage(runs, name, '{"cut off')
    page = page_of(runs)
    assert 'id="accuracy"' in page
    assert page.count("agrees</td>") == 6  # all that sent anything


def test_runs_of_another_schema_are_named_among_the_others(runs: Path) -> None:
    path = sorted(runs.rglob("summary.json"))[0]
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 9}))
    page = page_of(runs)
    assert "summary.json has schema 9" in page
    assert 'id="steps"' in page


def test_only_damaged_runs_are_a_page_too(runs: Path) -> None:
    damage(runs, "summary.json", "{")
    page = page_of(runs)
    assert page.count("damaged: summary.json") == 8
    assert "<figure" not in page


def test_a_name_cannot_break_out_of_the_page(runs: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    for path in runs.rglob("summary.json"):
        document = json.loads(path.read_text())
        document["spec"]["model"] = evil
        path.write_text(json.dumps(document))
    assert evil not in page_of(runs)


def test_more_samples_make_no_larger_page(runs: Path) -> None:
    """Ten thousand samples are as many points as a few hundred."""
    sizes = []
    for count in (500, 10_000):
        for path in runs.rglob("samples.csv"):
            head, first = path.read_text().splitlines()[:2]
            start, source, node, *_ = first.split(",")
            rows = [
                f"{float(start) + 90 * k / count:.4f},{source},{node}"
                f",{123_457 * k * 500 // count},{k},0,0"
                for k in range(count)
            ]
            path.write_text("\n".join([head, *rows]) + "\n")
        sizes.append(len(page_of(runs)))
    assert sizes[1] == pytest.approx(sizes[0], rel=0.002)


def test_auxiliary_services_are_counted_apart_from_training(runs: Path) -> None:
    """Spark's master and driver are nodes without a rank; a launcher's control traffic is shown."""
    path = next(path for path in sorted(runs.rglob("summary.json")) if "allreduce-n3" in str(path))
    document = json.loads(path.read_text())
    own = {
        "node": "master",
        "rank": None,
        "role": "master",
        "train_sent_bytes": 12345,
        "train_received_bytes": 7,
    }
    document["bytes"]["nodes"] += [own, own | {"node": "driver", "role": "driver"}]
    document["control_traffic"] = {
        "message_bytes": 20.0,
        "sent_mean_bytes": 54321.0,
        "bytes_per_s": 100.0,
    }
    document["spec"]["launcher"] = "spark"
    path.write_text(json.dumps(document))
    page = page_of(runs)
    traffic = page.partition('id="traffic"')[2].partition('id="links"')[0]
    assert re.search(r"launcher spark.*?24\.7 kB.*?54\.3 kB", traffic, re.S)


def test_watching_follows_a_running_run(runs: Path) -> None:
    """A run without a summary is shown as far as its events go, and again when it has ended."""
    summaries = sorted(runs.rglob("summary.json"))
    run = next(path.parent for path in summaries if "allreduce-n3" in str(path))
    ended = (run / "summary.json").read_text()
    (run / "summary.json").unlink()
    output = runs.parent / "out"
    command = [
        sys.executable,
        "-m",
        "analysis.network_report",
        str(runs),
        "--output",
        str(output),
        "--watch",
    ]
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL)
    try:
        assert eventually(lambda: status(output, run.name) == "running")
        (run / "summary.json").write_text(ended)
        assert eventually(lambda: status(output, run.name) == "completed")
        assert 'http-equiv="refresh"' in (output / "report.html").read_text()
    finally:
        process.send_signal(2)
        assert process.wait(300) == 130
    assert 'http-equiv="refresh"' not in (output / "report.html").read_text()


def status(output: Path, run: str) -> str | None:
    try:
        table = pd.read_csv(output / "tables" / "runs.csv")
    except (OSError, ValueError):
        return None
    return str(table[table["run"] == run]["status"].iloc[0])


def eventually(holds: Any, timeout_s: float = 300) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.2)
    return False
