"""The heartbeat of real processes: stopped, busy, asked for their stacks."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from cluster.spec.documents.heartbeat import Heartbeat, read_heartbeat
from cluster.spec.documents.run_folder import RunFolder
from workloads.counters.reachability import lacks_answer, probe
from workloads.heartbeat import Pulse
from workloads.worker import _in_child

PATIENCE_S = 60
LOG = "from workloads.worker import log_to; log_to(path)"
HOLD_GIL = "import ctypes; ctypes.PyDLL(None).sleep(60)"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run").create()


@pytest.fixture
def start(folder: RunFolder) -> Iterator[Callable[[str], int]]:
    """Starts a node whose training process executes this program; the node's process."""
    started: list[int] = []

    def start_node(program: str) -> int:
        node = os.fork()
        if node == 0:
            os.setpgid(0, 0)
            os._exit(_in_child(partial(exec, f"{LOG}\n{program}", {"path": folder.log(0)}), pulse))
        started.append(node)
        return node

    pulse = partial(Pulse, folder, 0)
    yield start_node
    for node in started:
        os.killpg(node, signal.SIGKILL)
        os.waitpid(node, 0)


def awaited(folder: RunFolder, holds: Callable[[Heartbeat], bool]) -> Heartbeat:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        heartbeat = read_heartbeat(folder.heartbeat_of("node0"))
        if heartbeat is not None and holds(heartbeat):
            return heartbeat
        time.sleep(0.05)
    raise AssertionError(f"not within {PATIENCE_S} s: {heartbeat}")


def training_process(node: int) -> int:
    return int(Path(f"/proc/{node}/task/{node}/children").read_text().split()[0])


def test_a_process_that_holds_the_gil_has_a_heartbeat(
    start: Callable[[str], int], folder: RunFolder
) -> None:
    start(HOLD_GIL)
    assert not awaited(folder, lambda heartbeat: heartbeat.beat >= 3).is_stopped


def test_a_stopped_training_process_is_said_to_be_stopped_until_it_goes_on(
    start: Callable[[str], int], folder: RunFolder
) -> None:
    node = start("import time; time.sleep(60)")
    awaited(folder, lambda heartbeat: True)
    process = training_process(node)
    os.kill(process, signal.SIGSTOP)
    awaited(folder, lambda heartbeat: heartbeat.is_stopped)
    os.kill(process, signal.SIGCONT)
    awaited(folder, lambda heartbeat: not heartbeat.is_stopped)


def test_cpu_time_is_that_of_the_training_process(
    start: Callable[[str], int], folder: RunFolder
) -> None:
    start("while True: pass")
    awaited(folder, lambda heartbeat: heartbeat.cpu_s >= 0.5)


def test_stacks_are_written_on_request_while_the_gil_is_held(
    start: Callable[[str], int], folder: RunFolder
) -> None:
    start(f"def waits_here():\n    {HOLD_GIL}\nwaits_here()")
    awaited(folder, lambda heartbeat: True)
    folder.stack_request.touch()
    deadline = time.monotonic() + PATIENCE_S
    while "waits_here" not in folder.log(0).read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_probe_finds_hosts_whose_port_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = socket.create_server(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        closed.close()
        hosts = {0: "127.0.0.1", 1: "no-such-host.invalid"}
        assert probe(hosts, port) == {0}
        assert probe(hosts, server.getsockname()[1]) == {0}


@pytest.mark.parametrize(
    ("send_queue", "retransmissions", "found"),
    [("A0", "3", True), ("A0", "2", False), ("0", "9", False)],
)
def test_a_connection_without_an_answer_is_found_in_the_kernels_table(
    send_queue: str, retransmissions: str, found: bool
) -> None:
    line = (
        f"   1: 0100A84D:A3B2 0200A84D:C1D0 01 {send_queue:>08}:00000000 01:00000014"
        f" {retransmissions:>08}  1000        0 12345 2 0000000000000000 20 4 30 10 -1"
    )
    assert lacks_answer(line) is found
