"""Event logs are read in bounded pieces, whatever a node put there."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.observe.node_watch import NodeWatch, RunFailed
from cluster.spec.documents.codec import DocumentError
from cluster.spec.documents.event_reader import EventReader, most_bytes, read_events, read_lines
from cluster.spec.documents.events import Event, Failure, Hello, Notice
from cluster.spec.documents.node_files import plain_text, read_piece
from cluster.spec.documents.run_folder import find_runs

RECORDED = Path(__file__).parents[1] / "data" / "runs"
NOTICE = Notice(t=1.0, text="here")


def sparse(path: Path) -> None:
    """300 MB without the end of a line."""
    path.touch()
    os.truncate(path, 300_000_000)


def link_to_zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def garbage(path: Path) -> None:
    path.write_bytes(b"\x00\xff\xfe{" * 100 + b"\n")


def nested(path: Path) -> None:
    path.write_bytes(b"[" * 900_000 + b"\n")


def digits(path: Path) -> None:
    path.write_bytes(b'{"event":"hello","t":' + b"9" * 900_000 + b"}\n")


HOSTILE: list[Callable[[Path], None]] = [
    *(os.mkfifo, Path.mkdir, sparse, link_to_zeros, garbage, nested, digits),
]


@pytest.mark.parametrize("make", HOSTILE, ids=lambda make: make.__name__)
def test_what_is_no_event_log_is_refused_by_name_within_a_few_megabytes(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "node2.jsonl"
    make(path)
    tracemalloc.start()
    try:
        with pytest.raises(DocumentError, match=r"^node2\.jsonl") as refused:
            list(read_events(path))
        assert tracemalloc.get_traced_memory()[1] < 16e6
    finally:
        tracemalloc.stop()
    assert len(str(refused.value)) < 1000
    with pytest.raises(RunFailed, match=r"^node2 wrote no event log: node2\.jsonl"):
        NodeWatch({2: path}).read()


def test_a_device_is_no_regular_file() -> None:
    with pytest.raises(DocumentError, match="no regular file"):
        read_piece(Path("/dev/zero"), 0, 10)


def test_events_before_the_damage_are_given_first(tmp_path: Path) -> None:
    path = tmp_path / "node0.jsonl"
    path.write_bytes(NOTICE.line().encode() * 3 + b"{\n")
    found: list[Event] = []
    with pytest.raises(DocumentError):
        found.extend(read_events(path))
    assert found == [NOTICE] * 3


def test_a_growing_log_is_read_once_in_pieces_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "node0.jsonl"
    line = Notice(t=1.0, text="x" * 90_000).line().encode()
    reader = EventReader(path, most=100 * len(line))
    assert reader.read() == []
    path.write_bytes(line * 99 + b"{")
    counts = [len(reader.read()) for _ in range(15)]
    assert (sum(counts), counts[-1]) == (99, 0)
    assert max(counts) * len(line) < 2**21
    with path.open("r+b") as file:
        file.truncate(99 * len(line))
    with path.open("ab") as file:
        file.write(line * 2)
    with pytest.raises(DocumentError, match=f"more than {100 * len(line):,} bytes"):
        reader.read()


def test_empty_lines_end_nothing(tmp_path: Path) -> None:
    path = tmp_path / "node0.jsonl"
    path.write_bytes(b"\n" * 3_000_000 + NOTICE.line().encode())
    assert list(read_events(path)) == [NOTICE]
    assert sum(1 for _ in read_lines(path)) == 3_000_001


def test_every_recorded_event_log_is_far_below_its_bound() -> None:
    sizes = [
        (path.stat().st_size, most_bytes(run.read_experiment()) - (4 << 20))
        for run in find_runs(RECORDED)
        for path in run.path.glob("events/*.jsonl")
    ]
    assert sizes
    assert [size for size, without_base in sizes if size > (4 << 20) / 8 + without_base / 2] == []


@pytest.mark.parametrize(
    "hello", [Hello(rank=0), Hello(rank=1, node="node0"), Hello(rank=7, node="node1\x1b[2J")]
)
def test_a_node_that_claims_to_be_another_ends_the_run(hello: Hello, tmp_path: Path) -> None:
    path = tmp_path / "node1.jsonl"
    path.write_text(hello.line())
    with pytest.raises(RunFailed, match=r"^node1 claims to be") as failed:
        NodeWatch({1: path}).read()
    assert str(failed.value).isprintable()


def test_a_nodes_words_are_shown_as_one_printable_line(tmp_path: Path) -> None:
    path = tmp_path / "node0.jsonl"
    path.write_text(Failure(message="\x1b]0;title\x07" + "x\n" * 10_000).line())
    nodes = NodeWatch({0: path})
    nodes.read()
    assert nodes.failures[0].message.isprintable()
    assert len(nodes.failures[0].message) < 600
    assert plain_text("out of memory") == "out of memory"
