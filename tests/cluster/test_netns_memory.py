"""Memory limits on real namespaces, by real control groups."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cluster.host import cgroups
from tests import laws
from tests.measuring import await_steps, finish, measure, one, start

pytestmark = pytest.mark.usefixtures("memory_limits")
NETNS = ("--engine", "netns", "--workers", "2")


def groups_of(output: Path) -> list[Path]:
    names = [session.name for session in output.iterdir()]
    return [g for name in names for g in cgroups.ROOT.glob(f"**/gradwire-{name}-*")]


def test_every_node_has_its_share_and_a_run_within_it_completes(tmp_path: Path) -> None:
    flags = (*NETNS, "--total-memory", "1g", "--straggler", "1:1")
    process = start(*flags, "--epochs", "200", "--output", str(tmp_path))
    await_steps(tmp_path)
    limited = {
        group.name: int(file.read_text())
        for top in groups_of(tmp_path)
        for group in top.iterdir()
        for file in (group / "memory.max", group / "memory.limit_in_bytes")
        if file.exists()
    }
    process.send_signal(signal.SIGINT)
    finish(process)
    assert groups_of(tmp_path) == []
    summary = one(measure(*flags, *laws.SMALL, "--output", str(tmp_path)))
    assert limited == {"node0": 2**29, "node1": 2**29}
    assert summary["spec"]["total_memory"] == "1g"
    laws.summary_is_true(summary, "netns")
    assert groups_of(tmp_path) == []


def test_a_node_that_exceeds_its_share_is_named_with_the_reason(tmp_path: Path) -> None:
    """200 MB of parameters, and 200 MB of gradients."""
    model = ("--model", "synthetic:200M", "--batch-size", "1", "--train-size", "20")
    flags = ("--total-memory", "512m", "--epochs", "1", *model, "--output", str(tmp_path))
    measured = measure(*NETNS, *flags)
    assert measured.code == 1
    (summary,) = measured.summaries
    assert summary["status"] == "failed"
    assert " ran out of memory: the kernel ended it at its limit of 256m" in summary["error"]
    assert groups_of(tmp_path) == []


def test_groups_are_removed_also_if_a_node_ends_late() -> None:
    groups = cgroups.create(f"test-{os.getpid()}", {}, {0: 2**28, 1: 2**28})
    program = "import sys; open(sys.argv[1], 'w').write('0'); print(flush=True); input()"
    command = [sys.executable, "-c", program, groups.joins[1][0]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as node:
        assert node.stdout is not None
        node.stdout.readline()
        end = threading.Timer(0.3, node.kill)
        end.start()
        groups.remove()
    assert [top for top in groups.tops if top.exists()] == []
