"""Mutated run folders through the report, its tables and analysis.summary: damage is listed.

The short form is one report of some dozen folders; `./test.sh --soak` makes a thousand.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.summary.command import main as summarise
from analysis.tables.load import load_runs
from cluster.spec.documents.codec import LARGEST
from cluster.spec.documents.run_folder import RunFolder, find_runs
from tests.campaign.fuzz import mutated_file
from tests.peak_memory import peak_bytes

PROJECT = Path(__file__).resolve().parents[2]
DATA = PROJECT / "tests" / "data"
SOURCES = [run for name in ("runs", "label-skew", "schema1") for run in find_runs(DATA / name)]
SOUND = DATA / "session"
"""Runs of every report that nobody damaged."""
PATIENCE_S = 300
"""After this a report is taken to hang; a usual one takes seconds."""
MOST_BYTES = 500e6


def into_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def into_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def into_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


ODD: tuple[Callable[[Path], None], ...] = (into_fifo, into_link, into_folder, Path.unlink)


LIMITS: dict[type, tuple[float, ...]] = {
    int: (0, 1, 255, 2**53, LARGEST),
    float: (0.0, 1e-49, 1e-9, 1e9, 1e49),
}
"""Numbers that documents may hold, and that a section may stumble over."""


def stretched(rng: random.Random, text: str) -> str:
    """A JSON document with one to six of its numbers at a limit."""
    document = json.loads(text)
    found = list(_numbers(document))
    for parent, key in rng.choices(found, k=rng.randint(1, 6)):
        parent[key] = rng.choice(LIMITS[type(parent[key])])
    return json.dumps(document)


def _numbers(value: Any) -> Iterator[tuple[Any, Any]]:
    """The place of every number: an object or a list, and its key."""
    places = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in places:
        if type(inner) in LIMITS:
            yield value, key
        elif isinstance(inner, dict | list):
            yield from _numbers(inner)


def mutated_run(rng: random.Random, source: RunFolder, target: Path) -> None:
    """A copy of a run with extreme numbers, or in which one to three files were damaged."""
    shutil.copytree(source.path, target)
    if rng.random() < 0.3:
        summary = target / "summary.json"
        summary.write_text(stretched(rng, summary.read_text()))
        return
    files = sorted(path for path in target.rglob("*") if path.is_file())
    likely = [path for path in files if path.suffix == ".json"] * 2
    for path in {rng.choice(files + likely) for _ in range(rng.randint(1, 3))}:
        if rng.random() < 0.1:
            rng.choice(ODD)(path)
        else:
            path.write_bytes(mutated_file(rng, path.name, path.read_bytes()))


@dataclass(frozen=True)
class Reported:
    statuses: Counter[str]
    seconds: float
    peak_bytes: int


def report(session: Path, output: Path) -> Reported:
    """The report of a folder, made by a process of its own: no error, no hang."""
    command = [sys.executable, "-m", "analysis.network_report", str(session), str(SOUND)]
    began = time.monotonic()
    with subprocess.Popen(
        [*command, "--output", str(output)],
        cwd=PROJECT,
        stdout=subprocess.DEVNULL,
        stderr=(output.parent / "stderr").open("w"),
    ) as process:
        used = _await(process)
    assert process.returncode == 0, (output.parent / "stderr").read_text()
    assert (output.parent / "stderr").read_text() == ""
    table = pd.read_csv(output / "tables" / "runs.csv")
    sound = table[table["session"] == "20261116-015441-1bc7"]
    assert {"completed"} == set(sound["status"])
    damaged = table[table["status"] == "damaged"]
    assert damaged["error"].notna().all()
    return Reported(Counter(table["status"]), time.monotonic() - began, used)


def _await(process: subprocess.Popen[bytes]) -> int:
    """Its peak memory."""
    deadline = time.monotonic() + PATIENCE_S
    peak = 0
    while True:
        if process.poll() is not None:
            return peak
        peak = max(peak, peak_bytes(process.pid))
        if time.monotonic() > deadline:
            process.kill()
            raise AssertionError(f"no report after {PATIENCE_S} s")
        time.sleep(0.05)


def campaign(seed: int, runs: int, folder: Path) -> Reported:
    rng = random.Random(seed)
    session = folder / "session"
    for number in range(runs):
        mutated_run(rng, rng.choice(SOURCES), session / f"{number:03}-seed{seed}")
    found = report(session, folder / "report")
    assert sum(found.statuses.values()) == runs + len(find_runs(SOUND))
    assert found.peak_bytes < MOST_BYTES
    for run in find_runs(session):
        with contextlib.suppress(OSError):
            run.summary.unlink()  # as of a run that goes on, and on hosts of one's own
        assert load_runs([run], live=True).table.loc[1, "run"] == run.name
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            assert summarise([str(run.path)]) in (0, 1, 2)
    return found


def test_damaged_run_folders_are_listed_and_the_others_shown(tmp_path: Path) -> None:
    found = campaign(1, 40, tmp_path)
    assert found.statuses["damaged"] >= 10
    assert found.statuses["completed"] >= 5


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_thousand_damaged_run_folders(tmp_path: Path) -> None:
    statuses: Counter[str] = Counter()
    seconds, peak_bytes = 0.0, 0
    for seed in range(100, 120):
        found = campaign(seed, 50, tmp_path / str(seed))
        shutil.rmtree(tmp_path / str(seed))
        statuses += found.statuses
        seconds, peak_bytes = seconds + found.seconds, max(peak_bytes, found.peak_bytes)
    print(f"1000 run folders: {dict(statuses)}, {seconds:.0f} s, peak {peak_bytes / 1e6:.0f} MB")
