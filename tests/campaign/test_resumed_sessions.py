"""SIGKILL of a sweep and --resume: every run exactly once, all summaries valid, one report."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cluster.spec.documents.session_plan import COMPLETED, SessionFolder
from tests.measuring import COMMAND, PATIENCE_S, PROJECT, await_steps, gone, owned_processes

pytestmark = pytest.mark.usefixtures("own_temporary_files")
TINY = ("--train-size", "128", "--batch-size", "32", "--epochs", "1", "--test-size", "50")
ENGINE = ("--engine", "netns", "--workers", "2", "--quiet")
Stamps = dict[str, tuple[int, int]]


def begin(*flags: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*COMMAND, *flags], cwd=PROJECT, stderr=subprocess.PIPE, text=True)


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()
    assert gone(lambda: owned_processes(process.pid))


def await_session(output: Path) -> SessionFolder:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for plan in output.glob("*/session.json"):
            return SessionFolder(plan.parent)
        time.sleep(0.02)
    raise AssertionError("no session was begun")


def completed(session: SessionFolder) -> Stamps:
    """Which file each completed run's summary is: one that was written again is another."""
    runs = session.read_completed(session.read_plan())
    found = {run: session.run(run).summary.stat() for run in runs}
    return {run: (stat.st_ino, stat.st_mtime_ns) for run, stat in found.items()}


def finish(session: SessionFolder) -> str:
    resumed = begin("--resume", str(session.path))
    _, said = resumed.communicate(timeout=PATIENCE_S)
    assert resumed.returncode == 0, said
    return said


def check_complete(session: SessionFolder, kept: Stamps) -> None:
    """Every planned run, no other one, each done once; and the completed ones were kept."""
    plan = session.read_plan()
    names = [planned.run for planned in plan.runs]
    assert sorted(path.name for path in session.path.iterdir() if path.is_dir()) == sorted(
        [*names, "tables"]
    )
    assert set(session.read_states(plan).values()) == {COMPLETED}
    assert completed(session).items() >= kept.items()
    for planned in plan.runs:
        folder = session.run(planned.run)
        summary = folder.read_summary()
        assert summary.spec == folder.read_spec() == planned.spec
        experiment = folder.read_experiment()
        assert summary.steps == experiment.steps_per_epoch * experiment.epochs
        for rank in range(2):
            kinds = [event.kind for event in folder.read_events(rank)]
            assert (kinds.count("hello"), kinds.count("end")) == (1, 1)
    assert [path.name for path in session.path.glob("*.html")] == ["report.html"]
    page = (session.path / "report.html").read_text()
    assert all(name in page for name in names)


def test_a_killed_sweep_is_finished_and_a_live_or_complete_one_is_not_begun_again(
    tmp_path: Path,
) -> None:
    sweep = begin(*ENGINE, *TINY, "--repeat", "3", "--epochs", "20", "--output", str(tmp_path))
    session = await_session(tmp_path)
    await_steps(tmp_path, run="002-*")
    sweep.send_signal(signal.SIGSTOP)  # the session goes no further
    live = begin("--resume", str(session.path))
    said = live.communicate()[1]
    kill(sweep)
    assert live.returncode == 2
    assert f"still running (process {sweep.pid})" in said
    assert len(said.splitlines()) == 1
    kept = completed(session)
    assert len(kept) in (1, 2)
    assert f"{len(kept)} of 3 runs" in finish(session)
    check_complete(session, kept)
    kept = completed(session)
    assert "all 3 runs" in finish(session)
    assert completed(session) == kept


def test_an_interrupted_sweep_shows_what_is_complete_and_how_to_finish_it(tmp_path: Path) -> None:
    runs = tmp_path / "own.toml"
    runs.write_text("[[runs]]\nepochs = 1\n[[runs]]\nepochs = 900\n")
    flags = ("--preset", str(runs), "--train-size", "128", "--test-size", "50")
    sweep = begin(*ENGINE, *flags, "--output", str(tmp_path))
    session = await_session(tmp_path)
    await_steps(tmp_path, run="002-*")
    sweep.send_signal(signal.SIGINT)
    said = sweep.communicate(timeout=PATIENCE_S)[1]
    assert sweep.returncode == 130
    rows = [line.split() for line in said.splitlines() if line.strip().startswith("allreduce")]
    assert [row[-1] for row in rows] == ["completed", "interrupted"]
    assert f"--resume {session.path}" in said
    assert "001-allreduce-n2-s1" in (session.path / "report.html").read_text()


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
def test_a_sweep_of_12_runs_survives_five_kills_at_random_moments(
    seed: int, tmp_path: Path
) -> None:
    """Within 2 s after so many runs: on any machine, kills are spread over the session."""
    chance, kept = random.Random(seed), Stamps()
    sweep = begin(*ENGINE, *TINY, "--repeat", "12", "--output", str(tmp_path))
    session = await_session(tmp_path)
    for attempt in range(5):
        while sweep.poll() is None and len(completed(session)) < 2 * attempt:
            time.sleep(0.02)
        with contextlib.suppress(subprocess.TimeoutExpired):
            sweep.communicate(timeout=2 * chance.random())
        kill(sweep)
        now = completed(session)
        assert now.items() >= kept.items()
        print(f"kill {attempt + 1}: {len(now)} of 12 runs are completed")
        kept = now
        sweep = begin("--resume", str(session.path))
    assert sweep.wait(PATIENCE_S) == 0
    check_complete(session, kept)
