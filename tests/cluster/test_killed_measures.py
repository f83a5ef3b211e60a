"""A measure on namespaces that is killed leaves no process, and the next one removes the rest."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.host import cgroups
from tests import laws
from tests.measuring import (
    COMMAND,
    PROJECT,
    await_steps,
    measure,
    one,
    owned_processes,
    record_of,
    start,
)

pytestmark = pytest.mark.usefixtures("own_temporary_files")
GONE_S = 5.0
"""Less than verifying a link of 100 kbit/s takes (9 s), and enough for a busy machine."""
SLOW_LINK = ("--workers", "2", "--link", "100kbit", "--straggler", "1:0.5")
LONG = ("--workers", "2", "--epochs", "500", "--straggler", "1:0.5")
SHORT = ("--workers", "2", *laws.SMALL, "--straggler", "1:0.5")


def has(name: str, count: int = 1) -> Callable[[int, Path], bool]:
    """Whether a measure has started this many processes with a command of that name."""
    return lambda measure, _: len(owned_processes(measure, name)) >= count


def is_training(_: int, output: Path) -> bool:
    return bool(await_steps(output))


MOMENTS: dict[str, tuple[tuple[str, ...], Callable[[int, Path], bool]]] = {
    "supervisor": (LONG, has("cluster.namespaces.supervisor")),
    "links": (SLOW_LINK, has("cluster.namespaces.supervisor", 5)),  # with a process per link
    "training": (LONG, is_training),
    "report": (SHORT, has("analysis.network_report")),
}


def kill_at(moment: str, output: Path) -> tuple[int, float]:
    """Kill a measure at that moment: its process, and the seconds until all it started are gone."""
    flags, has_come = MOMENTS[moment]
    process = subprocess.Popen(
        [*COMMAND, "--engine", "netns", *flags, "--quiet", "--output", str(output)],
        cwd=PROJECT,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None and not has_come(process.pid, output):
        time.sleep(0.01)
    assert process.poll() is None, f"it ended before the moment {moment}"
    started = owned_processes(process.pid)
    assert started
    process.kill()
    process.wait()
    began = time.monotonic()
    while owned_processes(process.pid) and time.monotonic() - began < 60:
        time.sleep(0.01)
    return process.pid, time.monotonic() - began


def groups_of(output: Path) -> list[Path]:
    names = [session.name for session in output.iterdir()]
    return [group for name in names for group in cgroups.ROOT.glob(f"**/gradwire-{name}-*")]


@pytest.mark.parametrize(
    "moment",
    [
        "links",
        *(pytest.param(name, marks=pytest.mark.soak) for name in MOMENTS if name != "links"),
    ],
)
def test_all_processes_are_gone_at_once_and_clean_removes_the_rest(
    moment: str, tmp_path: Path
) -> None:
    (tmp_path / "killed").mkdir()
    process, gone_s = kill_at(moment, tmp_path / "killed")
    assert gone_s < GONE_S
    assert groups_of(tmp_path / "killed") or moment == "report"
    (folder,) = record_of(process)
    cleaned = subprocess.run([*COMMAND, "--clean"], cwd=PROJECT, capture_output=True, text=True)
    assert cleaned.returncode == 0, cleaned.stderr
    assert folder.name in cleaned.stdout
    assert record_of(process) == []
    assert groups_of(tmp_path / "killed") == []


def test_the_next_measure_removes_what_was_left_but_nothing_of_a_live_one(tmp_path: Path) -> None:
    for name in ("live", "killed", "next"):
        (tmp_path / name).mkdir()
    live = start("--engine", "netns", *LONG, "--output", str(tmp_path / "live"))
    try:
        await_steps(tmp_path / "live")
        processes = owned_processes(live.pid)
        killed, gone_s = kill_at("training", tmp_path / "killed")
        assert gone_s < GONE_S
        measured = measure("--engine", "netns", *SHORT, "--output", str(tmp_path / "next"))
        one(measured)
        assert f"process {killed}" in measured.stderr
        assert record_of(killed) == []
        assert groups_of(tmp_path / "killed") == groups_of(tmp_path / "next") == []
        assert live.poll() is None
        assert owned_processes(live.pid) == processes
        assert len(record_of(live.pid)) == 1
        assert groups_of(tmp_path / "live")
    finally:
        live.terminate()
        live.communicate()
    assert live.returncode == 143
    assert record_of(live.pid) == groups_of(tmp_path / "live") == []
