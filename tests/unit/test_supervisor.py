"""The protocol between the host and the supervisor of namespace nodes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from cluster.namespaces.protocol import Command, Kind, Message, SupervisorPlan
from cluster.namespaces.supervisor import LinkControl, answer
from cluster.spec.documents.links import LinkStatistics, MeasuredLink
from tests.measuring import PROJECT

PROGRAM = """
import subprocess
from cluster.namespaces.supervisor import LinkControl, send, watch
node = subprocess.Popen(["sh", "-c", "exit 3"])
from cluster.spec.documents.links import LinkStatistics
class Shaped(LinkControl):
    def statistics(self):
        return [LinkStatistics(node="node0", sent_drops=5)]
watch({node.pid: 7}, Shaped(None, []), send)
"""
STATISTICS = Message(Kind.STATISTICS, statistics=(LinkStatistics(node="node0", sent_drops=5),))
LINK = MeasuredLink(
    node="node1", target="5mbit", target_mbit=5, sent_mbit=4.9, received_mbit=5, error=-0.02
)
EXIT = Message(Kind.EXIT, rank=7, code=3)
PLAN = SupervisorPlan(
    nodes=2,
    entry="workloads.worker",
    imports=("torch._dynamo",),
    logs=("a", "b"),
    folders=("c", "d"),
    session="runs",
    data_folder="data",
    user_folders=("/lab",),
    first_user=None,
    cgroups={1: ["/sys/fs/cgroup/x/cgroup.procs"]},
    links={0: "20mbit"},
    sites={"a": (0,), "b": (1,)},
    between="a-b:5mbit",
    environment={"RANK": "0"},
    processes=512,
)


@pytest.fixture
def supervisor() -> Iterator[subprocess.Popen[str]]:
    """The supervisor's loop with one node, which ends with code 3 at once."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def answers(supervisor: subprocess.Popen[str], text: str) -> list[Message]:
    stdout, _ = supervisor.communicate(text, timeout=300)
    assert supervisor.returncode == 0
    return [message for line in stdout.splitlines() if (message := Message.parse(line)) != EXIT]


def test_every_command_is_answered_once(supervisor: subprocess.Popen[str]) -> None:
    assert answers(supervisor, f"{Command.STATISTICS}\n" * 2) == [STATISTICS] * 2


def test_what_is_no_command_is_refused_by_its_text(supervisor: subprocess.Popen[str]) -> None:
    unknown = ["stats", "", "STATISTICS", "statistics now", "change 1"]
    found = answers(supervisor, "\n".join([*unknown, Command.STATISTICS]) + "\n")
    assert found == [*(Message(Kind.REFUSED, complaint=line) for line in unknown), STATISTICS]


def test_a_node_that_a_signal_stopped_is_found_by_its_rank() -> None:
    shaped = LinkControl(PLAN, [])
    with subprocess.Popen(["sleep", "600"]) as node:
        nodes = {node.pid: 3}
        assert answer(Command.STOPPED, nodes, shaped).stopped == {}
        node.send_signal(signal.SIGSTOP)
        os.waitpid(node.pid, os.WUNTRACED)
        assert answer(Command.STOPPED, nodes, shaped).stopped == {3: "stopped"}
        node.kill()


def test_half_a_line_is_no_command_yet(supervisor: subprocess.Popen[str]) -> None:
    assert answers(supervisor, Command.STATISTICS[:4]) == []


def test_a_command_may_arrive_in_pieces(supervisor: subprocess.Popen[str]) -> None:
    assert supervisor.stdin is not None
    assert supervisor.stdout is not None
    assert Message.parse(supervisor.stdout.readline()) == EXIT  # it reads commands now
    for piece in ("stat", "istics\nsta"):
        supervisor.stdin.write(piece)
        supervisor.stdin.flush()
    assert Message.parse(supervisor.stdout.readline()) == STATISTICS


@pytest.mark.parametrize(
    "message",
    [
        Message(Kind.READY),
        Message(Kind.LINKS, (LINK,), "the link of node1 is slow"),
        Message(Kind.STOPPED, stopped={3: "stopped"}),
        EXIT,
    ],
)
def test_a_message_survives_its_line(message: Message) -> None:
    line = message.line()
    assert line.index("\n") == len(line) - 1
    assert Message.parse(line) == message


def test_a_plan_survives_json() -> None:
    assert SupervisorPlan.from_json(PLAN.to_json()) == PLAN
