"""Faults of real nodes: a few in every call of ./test.sh, all of them with ./test.sh --soak."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cluster.containers.pause import pause
from cluster.namespaces.cluster import START_TIMEOUT_S
from tests import laws
from tests.campaign import faults
from tests.campaign.nodes import NetnsNodes, await_container, await_process
from tests.measuring import SILENCE_S, await_steps, finish, one, start

SOME = [
    faults.Try("netns", "stop_training", "allreduce", 1),
    faults.Try("netns", "stop_node", "local-sgd", 2),
    faults.Try("netns", "set_link_down", "pairwise", 3),
    faults.Try("netns", "drop_packets", "gather-scatter", 4),
    faults.Try("docker", "pause", "parameter-server", 5),
    faults.Try("docker", "drop_packets", "allreduce", 6),
]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=pytest.mark.docker if case.engine == "docker" else ())
        for case in SOME
    ],
    ids=lambda case: f"{case.engine}-{case.way}",
)
def test_the_node_and_the_cause_are_named(
    case: faults.Try, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if case.engine == "docker":
        request.getfixturevalue("docker")
    assert faults.attempt(case, tmp_path, most_s=SILENCE_S).miss is None


def test_a_node_that_recovers_within_the_grace_goes_on(tmp_path: Path) -> None:
    """The whole run is exchanged, and no byte twice."""
    sizes = ("--workers", "3", "--epochs", "2", "--train-size", "6000", "--test-size", "500")
    process = start("--engine", "netns", *sizes, "--output", str(tmp_path))
    await_steps(tmp_path, 3)
    nodes = NetnsNodes(tmp_path)
    for begin, end in (
        (nodes.stop_training, nodes.resume_node),
        (nodes.set_link_down, nodes.set_link_up),
    ):
        begin(1)
        time.sleep(2.5)
        end(1)
    measured = finish(process)
    laws.summary_is_true(one(measured), "netns")
    assert "node1 is frozen (stopped)" in measured.stderr
    assert "node1's link is down" in measured.stderr


@pytest.mark.parametrize(
    ("process", "number", "named"),
    [
        ("node1-helper", signal.SIGSTOP, "node1's link helper is frozen (stopped)"),
        ("node1-helper", signal.SIGKILL, "node1's link helper was ended by SIGKILL"),
        ("link-reference", signal.SIGKILL, "the link reference was ended by SIGKILL"),
        pytest.param(
            *("supervisor", signal.SIGSTOP, "the supervisor of all nodes is frozen (stopped)"),
            marks=pytest.mark.soak,
        ),
    ],
)
def test_a_process_that_does_not_go_on_while_links_are_verified_is_named(
    process: str, number: signal.Signals, named: str, tmp_path: Path
) -> None:
    links = ("--link", "100kbit", "--workers", "2", "--epochs", "1")
    measure = start("--engine", "netns", *links, "--output", str(tmp_path))
    os.kill(await_process(measure.pid, process), number)
    failed_with(named, measure)


@pytest.mark.docker
@pytest.mark.usefixtures("docker")
@pytest.mark.parametrize(
    ("service", "act", "named"),
    [
        ("link1", "pause", "node1's link helper is frozen (paused)"),
        pytest.param(
            *("reference", "kill", "the link reference was ended by SIGKILL"),
            marks=pytest.mark.soak,
        ),
        pytest.param("node1", "kill", "node1 was ended by SIGKILL", marks=pytest.mark.soak),
    ],
)
def test_a_container_that_does_not_go_on_while_links_are_verified_is_named(
    service: str, act: str, named: str, tmp_path: Path
) -> None:
    """Compose itself waits for the helper, since node0 has no link."""
    links = ("--bottleneck", "1:100kbit", "--workers", "2", "--epochs", "1")
    measure = start("--engine", "docker", *links, "--output", str(tmp_path))
    container = await_container(tmp_path, service)
    if act == "pause":
        pause(container)
    else:
        container.kill()
    failed_with(named, measure)


def failed_with(named: str, measure: subprocess.Popen[str]) -> None:
    """Sooner than by any timeout of the engines: these are over a minute."""
    before = time.monotonic()
    measured = finish(measure)
    assert measured.code == 1
    assert named in measured.summaries[0]["error"]
    assert time.monotonic() - before < START_TIMEOUT_S / 2


@pytest.mark.soak
@pytest.mark.docker
@pytest.mark.usefixtures("docker")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("fault", faults.FAULTS)
def test_every_fault_is_named_within_seconds(
    fault: str, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    if fault == "memory":
        request.getfixturevalue("memory_limits")
    with capsys.disabled():
        cases = faults.tries(list(faults.ENGINES), [fault], count=10, seed=1)
        outcomes = faults.conduct(cases, at_once=2)
        print(faults.table(outcomes))
    assert [outcome for outcome in outcomes if outcome.miss] == []
