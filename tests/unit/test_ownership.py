"""Owners: a process is never taken for another, and what an ended one has on record is removed."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from cluster.host import leftovers, ownership
from cluster.host.ownership import (
    VARIABLE,
    Kind,
    Owner,
    all_belongings,
    record,
    scratch_folder,
    tied,
)
from tests.measuring import gone

pytestmark = pytest.mark.usefixtures("own_temporary_files")
OWNER = (
    "import os, cluster.host.ownership as o;"
    "o.record(o.Kind.SESSION, {!r}); print(o.Owner.current())"
)


def killed(session: Path) -> Owner:
    """An owner that ends without removing what it has on record."""
    code = OWNER.format(str(session)) + "; os._exit(1)"
    command = [sys.executable, "-uc", code]
    answer = subprocess.run(command, capture_output=True, text=True)
    owner = Owner.parse(answer.stdout.strip())
    assert owner is not None, answer.stderr
    return owner


def test_an_owner_is_read_as_it_was_written() -> None:
    assert Owner.parse(str(Owner.current())) == Owner.current()


@pytest.mark.parametrize("text", ["", "by-hand", "hosts-a1b2", "12:34:56", "12-34", "x-1-2-3-4"])
def test_other_text_is_no_owner(text: str) -> None:
    assert Owner.parse(text) is None


@pytest.mark.parametrize(
    ("change", "has_ended"),
    [
        ({}, False),
        ({"started": "1"}, True),  # its number belongs to another process by now
        ({"boot": "another"}, True),
        ({"namespace": "1", "started": "1"}, False),  # in another container
        ({"machine": "another", "started": "1"}, False),
        ({"machine": "another", "boot": "another"}, False),
        ({"machine": ""}, False),
    ],
)
def test_an_owner_has_ended_only_if_this_process_can_know(
    change: dict[str, Any], has_ended: bool
) -> None:
    assert dataclasses.replace(Owner.current(), **change).has_ended() == has_ended


def test_a_measure_removes_its_own_record_when_it_ends(tmp_path: Path) -> None:
    code = OWNER.format(str(tmp_path)) + "; print(len(list(o.all_belongings())))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.stdout.split()[-1] == "1", answer.stderr
    assert list(all_belongings()) == []


def test_what_a_killed_measure_left_is_removed_and_told_but_nothing_of_a_live_one(
    tmp_path: Path,
) -> None:
    session, empty = tmp_path / "session", tmp_path / "empty"
    session.mkdir()
    empty.mkdir()
    owner = killed(session)
    killed(empty)
    nodes = session / ".nodes-001" / "node0"
    nodes.mkdir(parents=True)
    half_written = session / f".summary.json.{owner.process}"
    for file in (half_written, session / "summary.json", session / f".spec.json.{os.getpid()}"):
        file.write_text("{}")
    orphan = subprocess.Popen(["sleep", "600"], env={**os.environ, VARIABLE: str(owner)})
    own = subprocess.Popen(["sleep", "600"], env={**os.environ, VARIABLE: str(Owner.current())})
    record(Kind.SESSION, str(session))
    said: list[str] = []
    leftovers.remove_leftovers(said.append)
    assert orphan.wait(60) < 0
    assert own.poll() is None
    own.kill()
    own.wait()
    assert sorted(file.name for file in session.iterdir()) == [
        f".spec.json.{os.getpid()}",
        "summary.json",
    ]
    assert not empty.exists()
    assert [left.folder for left in all_belongings()] == [scratch_folder()]
    assert len(said) == 2
    for text in (
        str(owner.process),
        f"process {orphan.pid}",
        str(half_written),
        str(empty),
        nodes.parent.name,
    ):
        assert any(text in line for line in said), text
    said.clear()
    leftovers.remove_leftovers(said.append)
    assert said == []


def test_a_folder_that_is_not_ours_is_not_believed(tmp_path: Path) -> None:
    """Everybody can write among temporary files."""
    owner = dataclasses.replace(Owner.current(), started="1")
    (tmp_path / "elsewhere").mkdir()
    link = Path(tempfile.gettempdir(), f"{ownership.PREFIX}{owner}")
    link.symlink_to(tmp_path / "elsewhere")
    assert list(all_belongings()) == []


def test_a_command_ends_with_the_process_that_started_it() -> None:
    """Killed, so that it cannot end the command itself."""
    code = (
        "import subprocess, os, signal, sys; from cluster.host.ownership import tied;"
        "sleep = subprocess.Popen(tied(['sleep', '600']), stdout=subprocess.DEVNULL);"
        "print(sleep.pid, flush=True);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    answer = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert answer.returncode < 0
    assert gone(Path(f"/proc/{int(answer.stdout)}").exists)


def test_a_command_whose_starter_has_ended_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The starter was killed between its fork and the tie: the command has another parent."""
    made = tmp_path / "made"
    assert subprocess.run(tied(["touch", str(made)])).returncode == 0
    assert made.exists()
    made.unlink()
    with monkeypatch.context() as changed:
        changed.setattr(os, "getpid", lambda: 1)
        command = tied(["touch", str(made)])
    assert subprocess.run(command).returncode != 0
    assert not made.exists()
