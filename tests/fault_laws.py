"""Laws of faults in every engine. Shared by tests/cluster and tests/docker."""

from __future__ import annotations

from pathlib import Path

from cluster.spec.documents.fault_events import FaultBegun, FaultOver
from cluster.spec.documents.run_folder import RunFolder, find_runs
from tests import laws
from tests.measuring import measure, one

SIZES = ("--workers", "3", "--epochs", "4", "--train-size", "3000", "--test-size", "200")
PASSING = "2:freeze@step10/1s,1:unplug@step20/1s,0:cpu=0.3@step30/1s,1:throttle=4mbit@step40/1s"


def faults_that_pass_change_no_byte(engine: str, output: Path) -> None:
    """Each happens at its step to its node and is undone; what is exchanged stays the same."""
    links = ("--link", "40mbit", "--dilation", "1")
    flags = ("--engine", engine, *SIZES, *links, "--fault", PASSING, "--output", str(output))
    summary = one(measure(*flags))
    laws.summary_is_true(summary, engine)
    events = folder(output).read_host_events()
    begun = {event.fault: event for event in events if isinstance(event, FaultBegun)}
    assert set(begun) == set(PASSING.split(","))
    for text, event in begun.items():
        assert event.failure is None
        assert event.node == f"node{text[0]}"
        assert f"@step{event.step}/" in text
    over = {event.number: event for event in events if isinstance(event, FaultOver)}
    assert all(over[event.number].t >= event.t + 1 for event in begun.values())


def a_kill_is_inside_its_exchange(engine: str, output: Path) -> None:
    """With --on-failure stop the run ends, names the node, and keeps what was done to it."""
    fault = ("--fault", "2:kill@exchange30")
    measured = measure("--engine", engine, *SIZES, *fault, "--output", str(output))
    assert measured.code == 1
    assert measured.summaries[0]["error"].startswith("node2 was ended by SIGKILL")
    run = folder(output)
    (begun,) = (event for event in run.read_host_events() if isinstance(event, FaultBegun))
    assert begun.exchange is not None
    assert begun.exchange >= 30
    steps = [event for event in run.read_events(2) if event.kind == "step"]
    assert len(steps) == begun.exchange - 1, "its exchange did not end"


def folder(output: Path) -> RunFolder:
    (run,) = find_runs(output)
    return run
