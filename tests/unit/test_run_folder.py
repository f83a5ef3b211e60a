"""Run folders: what is read is whole, whatever was cut off or is being written."""

import itertools
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cluster.spec.documents.codec import DocumentError
from cluster.spec.documents.events import End, Epoch, Event, Hello
from cluster.spec.documents.records import Counters, Sample
from cluster.spec.documents.run_folder import (
    RunFolder,
    find_runs,
    new_session,
    node_name,
    write_json,
)
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "20260101-000000-abcd" / "001-allreduce-n4-s1").create()


# --- names ---------------------------------------------------------------------------------------


def test_a_run_knows_its_name_and_its_session(folder: RunFolder) -> None:
    assert folder.name == "001-allreduce-n4-s1"
    assert folder.session == "20260101-000000-abcd"


def test_rank_can_be_read_off_a_node_s_name_and_files(folder: RunFolder) -> None:
    assert node_name(3) == "node3"
    assert folder.events(3).name == "node3.jsonl"
    assert folder.log(3).name == "node3.log"


def test_nodes_write_only_to_folders_that_are_there_from_the_start(folder: RunFolder) -> None:
    """But for a program's working folder, which comes when the run has ended."""
    for name, path in vars(folder.files_of("node0")).items():
        if name == "work":
            continue
        assert path.parent in folder.node_folders()
        assert path.parent.is_dir()


def test_what_the_host_writes_is_out_of_the_nodes_folders(folder: RunFolder) -> None:
    """Nodes that no engine made write to those folders."""
    hosts = (folder.spec, folder.summary, folder.environment, folder.compose, folder.samples)
    for path in hosts:
        assert path.parent == folder.path
    assert len({path.name for path in hosts}) == len(hosts)


def test_a_run_folder_is_never_made_twice(folder: RunFolder) -> None:
    with pytest.raises(FileExistsError):
        folder.create()


# --- JSON ----------------------------------------------------------------------------------------


def test_a_reader_sees_the_old_document_or_the_new_one_never_half(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    documents: list[dict[str, Any]] = [
        {"version": version, "filling": [version] * 5000} for version in range(2)
    ]
    write_json(path, documents[0])
    done = threading.Event()
    seen: list[int] = []

    def read() -> None:
        while not done.is_set():
            document = json.loads(path.read_text())
            assert document == documents[document["version"]]
            seen.append(document["version"])

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read)
        try:
            for turn in itertools.count():
                write_json(path, documents[turn % 2])
                if reader.done() or (turn > 40 and set(seen) == {0, 1}):
                    break
        finally:
            done.set()
        reader.result()
    assert [p.name for p in tmp_path.iterdir()] == ["summary.json"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_what_is_no_json_leaves_the_old_document_and_nothing_else(
    tmp_path: Path, value: object
) -> None:
    path = tmp_path / "summary.json"
    write_json(path, {"good": 1})
    with pytest.raises((ValueError, TypeError)):
        write_json(path, {"bad": value})
    assert json.loads(path.read_text()) == {"good": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["summary.json"]


def test_an_experiment_is_read_as_it_was_written(folder: RunFolder) -> None:
    experiment = Experiment(strategy="pairwise", workers=6, passes=2, schedule="grid", cpus=0.5)
    write_json(folder.spec, experiment.to_json())
    assert folder.read_experiment() == experiment


def test_a_spec_from_another_version_is_refused(folder: RunFolder) -> None:
    write_json(folder.spec, {**Experiment().to_json(), "schema": 3})
    with pytest.raises(SpecError, match="schema"):
        folder.read_experiment()


def test_a_summary_that_is_no_object_is_refused(folder: RunFolder) -> None:
    folder.summary.write_text("[1, 2]\n")
    with pytest.raises(DocumentError, match=r"summary\.json must be an object"):
        folder.read_summary()


# --- events and samples --------------------------------------------------------------------------

EVENTS: list[Event] = [
    Hello(t=1.0, rank=0),
    Epoch(t=2.0, epoch=1, loss=0.5),
    End(t=3.0, counters=Counters(1, 2, 3, 4)),
]
LINES = [event.line().encode() for event in EVENTS]


def test_events_are_read_in_order(folder: RunFolder) -> None:
    folder.events(0).write_bytes(b"".join(LINES))
    assert folder.read_events(0) == EVENTS


def test_a_last_event_that_was_cut_off_anywhere_is_left_out(folder: RunFolder) -> None:
    for kept in range(len(LINES[2])):
        folder.events(0).write_bytes(LINES[0] + LINES[1] + LINES[2][:kept])
        assert folder.read_events(0) == EVENTS[:2], LINES[2][:kept]


def test_events_that_were_never_written_are_none(folder: RunFolder) -> None:
    assert folder.read_events(5) == []
    folder.events(0).write_bytes(b"")
    assert folder.read_events(0) == []


def table(samples: list[Sample]) -> bytes:
    rows = [Sample.COLUMNS, *(sample.row() for sample in samples)]
    return b"".join(",".join(map(str, row)).encode() + b"\r\n" for row in rows)


SAMPLES = [
    Sample(1.0, "kernel", "node0", Counters(1000, 10, 2000, 20)),
    Sample(2.0, "kernel", "node0", Counters(123456, 1234, 234567, 2345)),
]


def test_samples_are_read_as_they_were_taken(folder: RunFolder) -> None:
    folder.samples.write_bytes(table(SAMPLES))
    assert list(folder.read_samples()) == SAMPLES


def test_samples_that_were_never_taken_are_none(folder: RunFolder) -> None:
    assert list(folder.read_samples()) == []
    folder.samples.write_bytes(b"")
    assert list(folder.read_samples()) == []


def test_a_last_sample_that_was_cut_off_anywhere_is_left_out(folder: RunFolder) -> None:
    """A cut-off counter would look like one that restarted."""
    whole, first = table(SAMPLES), table(SAMPLES[:1])
    for kept in range(len(first), len(whole) - len("\r\n")):
        folder.samples.write_bytes(whole[:kept])
        assert list(folder.read_samples()) == SAMPLES[:1], whole[len(first) : kept]


# --- sessions ------------------------------------------------------------------------------------


def test_two_sessions_that_begin_at_once_have_folders_of_their_own(tmp_path: Path) -> None:
    together = threading.Barrier(2)

    def begin() -> Path:
        together.wait()
        return new_session(tmp_path / "not" / "yet" / "there")

    with ThreadPoolExecutor(2) as pool:
        first, second = (future.result() for future in [pool.submit(begin) for _ in range(2)])
    assert first != second
    assert first.is_dir()
    assert second.is_dir()
    assert first.parent == second.parent == tmp_path / "not" / "yet" / "there"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two sessions with three runs, one without a summary, one without a spec; a bystander."""
    for session, run, file in [
        ("20260102-000000-0000", "001-b-s1", "summary.json"),
        ("20260101-000000-ffff", "002-a-s2", "spec.json"),
        ("20260101-000000-ffff", "001-a-s1", "spec.json"),
        ("20260101-000000-ffff", "001-a-s1", "summary.json"),
    ]:
        (tmp_path / "runs" / session / run).mkdir(parents=True, exist_ok=True)
        write_json(tmp_path / "runs" / session / run / file, {})
    (tmp_path / "runs" / "notes").mkdir()
    (tmp_path / "runs" / "notes" / "other.json").write_text("{}")
    return tmp_path / "runs"


def test_all_runs_are_found_once_in_order_of_time(runs: Path) -> None:
    found = [(run.session, run.name) for run in find_runs(runs)]
    assert found == [
        ("20260101-000000-ffff", "001-a-s1"),
        ("20260101-000000-ffff", "002-a-s2"),
        ("20260102-000000-0000", "001-b-s1"),
    ]


def test_runs_are_found_from_a_session_or_the_run_itself(runs: Path) -> None:
    session = runs / "20260101-000000-ffff"
    assert [run.path for run in find_runs(session)] == [session / "001-a-s1", session / "002-a-s2"]
    assert [run.path for run in find_runs(session / "002-a-s2")] == [session / "002-a-s2"]


def test_where_there_is_nothing_no_runs_are_found(tmp_path: Path) -> None:
    assert find_runs(tmp_path) == []
    assert find_runs(tmp_path / "missing") == []
