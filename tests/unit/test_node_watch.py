"""Who has ended and who has failed, by the events that nodes write."""

from __future__ import annotations

import time
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
    nodes = NodeWatch(files, grace_s=0)
    assert nodes.read() == []
    write(files[1], Notice(text="half"), END)
    assert [(rank, event.kind) for rank, event in nodes.read()] == [(1, "notice"), (1, "end")]
    assert nodes.remaining == [0, 2]
    assert nodes.read() == []
    for rank in (0, 2):
        write(files[rank], END)
    nodes.read()
    assert nodes.remaining == []


def test_without_a_failure_or_a_lost_node_nothing_is_overdue(files: dict[int, Path]) -> None:
    nodes = NodeWatch(files, grace_s=0)
    write(files[0], END)
    nodes.read()
    assert not nodes.is_overdue(False)


def test_after_a_failure_the_others_have_the_grace_time(files: dict[int, Path]) -> None:
    patient, impatient = NodeWatch(files, grace_s=3600), NodeWatch(files, grace_s=0)
    write(files[2], FAILURE)
    for nodes in (patient, impatient):
        nodes.read()
        assert nodes.failures[2].message == FAILURE.message
        nodes.is_overdue(False)
    time.sleep(0.01)
    assert not patient.is_overdue(False)
    assert impatient.is_overdue(False)


def test_a_node_that_was_lost_once_stays_lost(files: dict[int, Path]) -> None:
    nodes = NodeWatch(files, grace_s=0)
    nodes.is_overdue(True)
    time.sleep(0.01)
    assert nodes.is_overdue(False)
