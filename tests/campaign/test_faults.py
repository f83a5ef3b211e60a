"""Faults of real nodes: a few in every call of ./test.sh, all of them with ./test.sh --soak."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cluster.engine import EngineUnavailable
from cluster.host import cgroups
from tests import laws
from tests.campaign import faults
from tests.campaign.nodes import NetnsNodes, kill_reference
from tests.measuring import SILENCE_S, await_steps, finish, one, start

SOME = [
    faults.Try("netns", "stop_training", "allreduce", 1),
    faults.Try("netns", "stop_node", "local-sgd", 2),
    faults.Try("netns", "set_link_down", "pairwise", 3),
    faults.Try("netns", "drop_packets", "gather-scatter", 4),
    faults.Try("docker", "pause", "parameter-server", 5),
    faults.Try("docker", "drop_packets", "allreduce", 6),
]


@pytest.fixture(autouse=True)
def _limits() -> None:
    try:
        cgroups.check("memory")
    except EngineUnavailable as error:
        pytest.skip(str(error))


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
    "engine", ["netns", pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.soak])]
)
def test_a_link_reference_that_dies_is_named(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if engine == "docker":
        request.getfixturevalue("docker")
    links = ("--link", "100kbit", "--workers", "2", "--epochs", "1")
    process = start("--engine", engine, *links, "--output", str(tmp_path))
    kill_reference(engine, process.pid, tmp_path)
    measured = finish(process)
    assert measured.code == 1
    assert "link reference" in measured.summaries[0]["error"]


@pytest.mark.soak
@pytest.mark.docker
@pytest.mark.usefixtures("docker")
@pytest.mark.timeout(7200)
def test_every_fault_is_named_within_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        cases = faults.tries(list(faults.ENGINES), list(faults.FAULTS), count=10, seed=1)
        outcomes = faults.conduct(cases, at_once=2)
        print(faults.table(outcomes))
    assert [outcome for outcome in outcomes if outcome.miss] == []
