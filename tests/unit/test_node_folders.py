"""A node writes through names of its own: whatever it does to them, the host's files stay."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.engine import EngineUnavailable
from cluster.host.node_folders import NodeFolders
from cluster.observe.node_watch import RunFailed
from cluster.spec.documents.node_files import NODE_FOLDER
from cluster.spec.documents.run_folder import RunFolder, new_session
from cluster.spec.experiment import Experiment

EXPERIMENT = Experiment(workers=2)


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return new_session(tmp_path)


def make_run(session: Path, name: str = "001-allreduce-n2-s1") -> RunFolder:
    return RunFolder(session / name).create()


def make_folders(run: RunFolder) -> NodeFolders:
    return NodeFolders(run, EXPERIMENT.event_writers, lambda rank: None)


def link_to_another(path: Path) -> None:
    path.symlink_to(path.parents[1] / "node0" / "events.jsonl")


@pytest.mark.parametrize("put", [os.mkfifo, Path.mkdir, link_to_another])
def test_what_a_node_puts_in_place_of_its_file_is_not_what_the_host_opens(
    put: Callable[[Path], None], session: Path
) -> None:
    first, second = make_run(session), make_run(session, "002-allreduce-n2-s2")
    with make_folders(first) as folders:
        with folders.of_run(first, EXPERIMENT):
            own = first.files_of("node1").to_write({NODE_FOLDER: str(folders.folder / "node1")})
            own.events.write_text("an event\n")
            assert first.events(1).read_text() == "an event\n"
            own.events.unlink()
            put(own.events)
            assert stat.S_ISREG(first.events(1).lstat().st_mode)
        failing = pytest.raises(RunFailed, match=r"^node1 ") if put is Path.mkdir else None
        with failing or contextlib.nullcontext(), folders.of_run(second, EXPERIMENT):
            assert second.events(1).read_text() == ""
    assert [path.name for path in session.iterdir() if path.name.startswith(".")] == []
    assert first.events(1).read_text() == "an event\n"


def test_a_run_leaves_events_and_logs_and_what_was_written(session: Path) -> None:
    run = make_run(session)
    with make_folders(run) as folders:
        with folders.of_run(run, EXPERIMENT):
            (folders.folder / "node0" / "consensus.pt").write_text("weights")
            assert not (folders.folder / "node1" / "consensus.pt").exists()
            assert not run.timeline.exists()
        assert all(not any(folder.iterdir()) for folder in folders.folder.glob("node*"))
    written = {str(p.relative_to(run.path)) for p in run.path.rglob("*") if p.is_file()}
    logs = {f"logs/node{rank}.log" for rank in range(2)}
    assert written == {"events/node0.jsonl", "events/node1.jsonl", "model/consensus.pt"} | logs


def test_a_file_belongs_to_the_node_during_its_run_and_then_to_us(session: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    run = make_run(session)
    with NodeFolders(run, ("node0", "node1"), lambda rank: 70_000 + rank) as folders:
        with folders.of_run(run, EXPERIMENT):
            assert [run.events(rank).stat().st_uid for rank in range(2)] == [70_000, 70_001]
            assert (folders.folder / "node1").stat().st_uid == 0
        assert run.events(1).stat().st_uid == 0


def test_a_file_system_without_hard_links_is_named_at_once(
    session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(session)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(EngineUnavailable, match="without hard links"), make_folders(run):
        pass
    assert list(session.iterdir()) == [run.path]


def test_folders_of_any_depth_are_removed_also_closed_ones(session: Path) -> None:
    run = make_run(session)
    with make_folders(run) as folders:
        own = os.open(folders.folder / "node1", os.O_RDONLY)
        for _ in range(3000):
            os.mkdir("deeper", dir_fd=own)
            inner = os.open("deeper", os.O_RDONLY, dir_fd=own)
            os.fchmod(own, 0)
            os.close(own)
            own = inner
        os.close(own)
    assert list(session.iterdir()) == [run.path]
