"""Who has ended and who has failed, by the events that nodes write."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.observe.node_watch import NodeWatch
from cluster.spec.documents.events import End, Event, Failure, Notice
from cluster.spec.documents.records import Counters

END = End(counters=Counters())
FAILURE = Failure(message="out of memory")


def write(path: Path, *events: Event) -> None:
    with path.open("a") as file:
        file.writelines(event.line() for event in events)


@pytest.fixture
def files(tmp_path: Path) -> dict[int, Path]:
    """Not written yet: a node begins its file when it starts."""
    return {rank: tmp_path / f"node{rank}.jsonl" for rank in range(3)}


def test_nodes_remain_until_they_write_their_end(files: dict[int, Path]) -> None:
    nodes = NodeWatch(files)
    assert nodes.read() == []
    write(files[1], Notice(text="half"), END)
    assert [(rank, event.kind) for rank, event in nodes.read()] == [(1, "notice"), (1, "end")]
    assert nodes.remaining == [0, 2]
    assert nodes.read() == []
    for rank in (0, 2):
        write(files[rank], END)
    nodes.read()
    assert nodes.remaining == []


def test_a_failure_is_kept_with_its_message(files: dict[int, Path]) -> None:
    nodes = NodeWatch(files)
    write(files[2], FAILURE)
    nodes.read()
    assert {rank: failure.message for rank, failure in nodes.failures.items()} == {
        2: FAILURE.message
    }
    assert nodes.remaining == [0, 1, 2]
