"""Workers that torchrun starts on hosts of their own: what they refuse, and what they write."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from analysis.summary import command as summarise_folder
from analysis.summary.node_log import NodeLog
from cluster import measure
from cluster.spec.documents.events import End, Epoch, Failure, Hello
from cluster.spec.documents.records import Counters, Sample
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.experiment import Experiment
from tests.measuring import PROJECT
from workloads.launchers.torch_peers import find_interface
from workloads.worker import Settings, find_mistake

SPEC = Experiment(workers=1, strategy="single", model="synthetic:4k", epochs=1, engine="existing")


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    """The command line's signal handlers are put away afterwards."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "run").create()
    run.spec.write_text(json.dumps(SPEC.to_json()))
    return run


def settings(folder: RunFolder) -> Settings:
    return Settings(0, (folder,), True, folder.path / "nowhere", unattended=True)


def mistake(folder: RunFolder, **environment: str) -> str | None:
    return find_mistake(folder, settings(folder), environment)


def test_one_process_on_each_of_as_many_hosts_as_nodes_is_right(folder: RunFolder) -> None:
    assert mistake(folder) is None
    assert mistake(folder, WORLD_SIZE="1", LOCAL_WORLD_SIZE="1") is None


def test_several_processes_on_a_host_cannot_be_told_apart(folder: RunFolder) -> None:
    line = mistake(folder, WORLD_SIZE="1", LOCAL_WORLD_SIZE="2")
    assert line is not None
    assert "2 processes on this host" in line
    assert "--nproc-per-node 1" in line


@pytest.mark.parametrize("world", ["2", "0", "256"])
def test_another_number_of_hosts_than_the_run_has_nodes_is_refused(
    world: str, folder: RunFolder
) -> None:
    line = mistake(folder, WORLD_SIZE=world)
    assert line is not None
    assert f"WORLD_SIZE is {world}, but the run in {folder.path} has 1 nodes" in line


def test_a_host_without_the_folder_the_data_or_room_for_its_events_says_so(
    folder: RunFolder,
) -> None:
    folder.spec.write_text(json.dumps(SPEC.to_json() | {"workers": 0}))
    assert "workers must be between" in str(mistake(folder))
    folder.spec.unlink()
    assert "is not on this host: copy the prepared folder" in str(mistake(folder))
    folder.spec.write_text(json.dumps(Experiment(workers=1, strategy="single").to_json()))
    assert "python3 -m workloads.data fetch mnist" in str(mistake(folder))
    folder.events(0).write_text("")
    assert "exists already: prepare a new folder" in str(mistake(folder))


def worker(folder: RunFolder, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {"RANK": "0", "GRADWIRE_RUNS": str(folder.path), "GRADWIRE_RECORD": "unattended"}
    return subprocess.run(
        [sys.executable, "-m", "workloads.worker"],
        cwd=PROJECT,
        env={**os.environ, **own, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_worker_alone_neither_waits_nor_stays_and_its_summary_is_made_afterwards(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder.path / "model").rmdir()  # as some ways of copying do
    done = worker(folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("node0 result ")
    assert folder.model.exists()
    assert summarise_folder.main([str(folder.path)]) == 0
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["strategy", "workers", "passes"]
    assert row.split()[:3] == ["single", "1", "-"]
    summary = folder.read_summary()
    assert (summary.status, summary.steps) == ("completed", SPEC.steps_per_epoch)
    assert summary.counters is not None
    assert summary.counters.kernel_bytes is None
    again = worker(folder)
    assert again.returncode == 2
    (line,) = again.stderr.splitlines()
    assert line.startswith("worker: ")
    assert "exists already" in line


def test_a_word_that_is_none_is_refused(folder: RunFolder) -> None:
    done = worker(folder, GRADWIRE_RECORD="yes")
    assert done.returncode != 0
    assert "GRADWIRE_RECORD is 0, 1 or unattended, not 'yes'" in done.stderr


# --- afterwards ----------------------------------------------------------------------------------


def complaint(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert summarise_folder.main([str(folder)]) == 2
    stdout, stderr = capsys.readouterr()
    assert stdout == ""
    (line,) = stderr.splitlines()
    assert line.startswith("summary: ")
    assert not (folder / "summary.json").exists()
    return line


def test_a_folder_that_is_not_complete_is_one_line(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "is no run folder" in complaint(folder.path.parent, capsys)
    assert "node0.jsonl is missing or empty: copy it" in complaint(folder.path, capsys)
    folder.events(0).write_text("{\n")
    assert "is damaged" in complaint(folder.path, capsys)
    folder.events(0).write_text('{"event":"hello","t":1,"rank":2}\n')
    assert "node0.jsonl is that of node2" in complaint(folder.path, capsys)


HEADER = ",".join(Sample.COLUMNS)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("spec.json", "[]", "spec.json: the spec must be an object"),
        ("spec.json", json.dumps(SPEC.to_json() | {"schema": True}), "spec.json: schema of"),
        ("links.json", '{"schema": 3, "links": []}', "links.json has schema 3"),
        ("links.json", "{}", "links.json has schema None"),
        ("links.json", "[]", "links.json must be an object"),
        ("links.json", "null", "links.json must be an object"),
        ("links.json", '{"schema": 2', "links.json is cut off"),
        ("links.json", '{"schema": 2, "links": 5}', "links.json: links must be a list"),
        ("links.json", '{"schema": 2, "links": [{"node": 1}]}', "links.json: links[0].node must"),
        ("samples.csv", f"{HEADER}\n1.5,kernel,node0,1,1,1,1\n2,3\n", "samples.csv: line 3: must"),
        ("samples.csv", f"{HEADER}\n1.5,kernel,node0,1,x,1,1\n", "samples.csv: line 2: invalid"),
        ("gpu_samples.csv", "t,node,gpu\n1.5,node0,first\n", "gpu_samples.csv: line 2: invalid"),
    ],
)
def test_a_damaged_file_is_one_line_that_names_it_and_the_place(
    folder: RunFolder, capsys: pytest.CaptureFixture[str], name: str, text: str, reason: str
) -> None:
    folder.events(0).write_text('{"event":"hello","t":1,"rank":0}\n')
    (folder.path / name).write_text(text)
    assert reason in complaint(folder.path, capsys)


def test_a_node_that_fell_silent_is_why_a_run_failed_and_else_the_first_complaint() -> None:
    fine = NodeLog([End(t=5.0, counters=Counters())])
    late = NodeLog([Failure(t=4.0, message="connection closed")])
    early = NodeLog([Failure(t=3.0, message="no such file")])
    silent = NodeLog([Epoch(t=2.0, epoch=1)])
    assert summarise_folder.find_error([fine, fine]) is None
    assert summarise_folder.find_error([fine, late, early]) == "node2 no such file"
    assert str(summarise_folder.find_error([late, silent])).startswith("node1 has no end")


def test_nodes_that_ran_on_one_host_are_found() -> None:
    """Each was started alone; bytes between them passed lo, which is not counted."""
    here, there, old = (NodeLog([Hello(rank=0, network=name)]) for name in ("a", "b", None))
    assert summarise_folder.find_shared_host([here, there, old, old]) is None
    line = str(summarise_folder.find_shared_host([there, here, here]))
    assert line.startswith("node1 and node2 ran on one host")


# --- before --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--workers 2,3", "prepare takes one run, and this makes 2"),
        (
            "--launcher horovod",
            "prepare is for torchrun and Kubernetes, that is --launcher torch, or for",
        ),
        ("--link 20mbit", "link does not apply to nodes that"),
        ("--total-memory 4g", "total-memory does not apply to nodes that"),
        ("--engine netns", "engine does not go with --prepare"),
        ("--workers 0", "workers must be between"),
    ],
)
def test_what_hosts_cannot_do_is_refused_and_nothing_is_written(
    flags: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert measure.main([*flags.split(), "--prepare", str(tmp_path / "run")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["file", "full", "file/below"])
def test_a_place_that_is_taken_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("precious")
    assert measure.main(["--workers", "2", "--prepare", str(tmp_path / name)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"prepare {tmp_path / name}" in line


def test_gloo_takes_eth0_where_there_is_one_and_else_the_way_to_node_0() -> None:
    expected = "eth0" if "eth0" in psutil.net_if_addrs() else "lo"
    assert find_interface("127.0.0.1") == expected


def test_without_an_eth0_the_way_to_node_0_is_found_by_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loopback = {"lo": psutil.net_if_addrs()["lo"]}
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: loopback)
    assert find_interface("127.0.0.1") == "lo"
    assert find_interface("no-such-host.invalid") is None
