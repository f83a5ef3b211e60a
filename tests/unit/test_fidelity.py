"""The verdict on a run's times, from waits for cores and readings of the host."""

from dataclasses import replace

import pytest

from analysis.summary.fidelity import CONTENDED_SHARE, judge, of_host, of_worker
from analysis.tables.noise import TIMES_AGREE
from cluster.observe.results_table import contention_note
from cluster.spec.documents.events import Step
from cluster.spec.documents.records import HostSample
from cluster.spec.documents.summary import (
    COARSE,
    CONTENDED,
    HELD,
    UNKNOWN,
    Fidelity,
    NodeFidelity,
    Summary,
)

QUIET = Fidelity(verdict=UNKNOWN, busy_share=0.5, steal_share=0.0)


def step(
    step_s: float, cpu_s: float | None, wait_s: float | None, throttled_s: float | None = None
) -> Step:
    return Step(
        t=0.0,
        step_s=step_s,
        data_s=0.0,
        compute_s=None,
        exchange_s=None,
        cpu_s=cpu_s,
        wait_s=wait_s,
        throttled_s=throttled_s,
    )


CASES: dict[str, tuple[Step, float | None, float | None, str]] = {
    "computes alone on its core": (step(0.1, 0.09, 0.001), 0.9890, 0.01, HELD),
    "shares its core with another": (step(0.2, 0.1, 0.1), 0.5, 0.5, CONTENDED),
    "sleeps, and waits half of the little it wants": (step(0.1, 0.001, 0.001), 0.5, 0.01, HELD),
    "just below": (step(0.1, 0.08, 0.014), 0.8511, 0.14, HELD),
    "just above": (step(0.1, 0.08, 0.016), 0.8333, 0.16, CONTENDED),
    "never wants CPU": (step(0.1, 0.0, 0.0), 1.0, 0.0, HELD),
    "the kernel does not count waits": (step(0.1, 0.09, None), None, None, UNKNOWN),
    "an old run": (step(0.1, None, None), None, None, UNKNOWN),
}


@pytest.mark.parametrize("name", CASES)
def test_a_nodes_waits_make_the_verdict(name: str) -> None:
    after, cpu_share, wait_share, verdict = CASES[name]
    warm_up = step(9.0, 1.0, 8.0)
    node = of_worker(3, [warm_up, *[after] * 5])
    assert (node.node, node.rank) == ("node3", 3)
    assert node.cpu_share == (None if cpu_share is None else pytest.approx(cpu_share, abs=1e-4))
    assert node.wait_share == (None if wait_share is None else pytest.approx(wait_share, abs=1e-4))
    assert judge([node], QUIET).verdict == verdict


LIMITED: dict[str, tuple[Step, float, float, str]] = {
    "stopped by its limit alone, as asked for": (step(0.4, 0.1, 0.3, 0.3), 1.0, 0.0, HELD),
    "waited in turn with others, and got its part": (step(0.4, 0.1, 0.3, 0.0), 1.0, 0.0, HELD),
    "got half of its part": (step(0.4, 0.05, 0.35, 0.1), 0.5, 0.5, CONTENDED),
    "got nine tenths of its part": (step(0.4, 0.09, 0.31, 0.3), 0.9, 0.1, CONTENDED),
    "got 96 % of its part": (step(0.4, 0.096, 0.304, 0.3), 0.96, 0.04, HELD),
    "computes little, at the full speed of a core": (step(0.4, 0.01, 0.0, 0.0), 1.0, 0.0, HELD),
    "computes much of a step at that speed": (step(0.4, 0.03, 0.0, 0.0), 1.0, 0.0, COARSE),
}


@pytest.mark.parametrize("name", LIMITED)
def test_a_node_with_a_quarter_of_a_core_is_entitled_to_that(name: str) -> None:
    after, cpu_share, wait_share, verdict = LIMITED[name]
    node = of_worker(0, [after] * 5, core=0.25)
    assert node.cpu_share == pytest.approx(cpu_share, abs=1e-4)
    assert node.wait_share == pytest.approx(wait_share, abs=1e-4)
    assert judge([node], QUIET, is_dilated=True).verdict == verdict
    undilated = HELD if wait_share < 0.15 and verdict == CONTENDED else verdict
    assert judge([node], QUIET).verdict == undilated


def test_one_contended_node_makes_a_contended_run() -> None:
    alone, crowded = ([step(0.1, 0.1, wait_s)] * 3 for wait_s in (0.0, 0.05))
    nodes = [of_worker(0, alone), of_worker(1, crowded)]
    found = judge(nodes, QUIET)
    assert (found.verdict, found.largest_wait_share) == (CONTENDED, 0.5)
    assert found.least_cpu_share == pytest.approx(2 / 3, abs=1e-4)
    assert judge(nodes[:1], QUIET).verdict == HELD


def test_a_worker_that_tells_nothing_leaves_a_quiet_run_unknown() -> None:
    silent, quiet = of_worker(0, []), of_worker(1, [step(0.1, 0.1, 0.0)] * 3)
    assert judge([silent, quiet], QUIET).verdict == UNKNOWN
    assert judge([], QUIET).verdict == UNKNOWN


@pytest.mark.parametrize(
    ("busy", "steal", "verdict"),
    [(0.5, 0.04, HELD), (0.5, 0.1, CONTENDED), (0.01, 0.01, HELD), (0.0, 0.0, HELD)],
)
def test_cpu_that_the_hypervisor_took_is_contention(
    busy: float, steal: float, verdict: str
) -> None:
    node = of_worker(0, [step(0.1, 0.1, 0.0)] * 3)
    host = Fidelity(verdict=UNKNOWN, busy_share=busy, steal_share=steal)
    assert judge([node], host).verdict == verdict


def test_a_node_that_waited_for_its_part_of_a_core_was_not_ahead() -> None:
    paced = replace(step(0.4, 0.03, 0.0, 0.0), paced_s=0.09)
    node = of_worker(0, [paced] * 5, core=0.25)
    assert (node.ahead_share, node.wait_share) == (0.0, 0.0)
    assert judge([node], QUIET).verdict == HELD


@pytest.mark.parametrize(
    ("others_share", "busy_share", "is_dilated", "verdict"),
    [
        (0.52, 0.99, False, CONTENDED),
        (0.52, 0.80, False, HELD),
        (0.04, 1.00, False, HELD),
        (0.52, 0.99, True, HELD),
    ],
)
def test_other_processes_on_busy_cores_are_contention_without_dilation(
    others_share: float, busy_share: float, is_dilated: bool, verdict: str
) -> None:
    node = NodeFidelity(node="node0", rank=0, wait_share=0.01, ahead_share=0.01)
    host = Fidelity(verdict=UNKNOWN, others_share=others_share, busy_share=busy_share)
    assert judge([node], host, is_dilated=is_dilated).verdict == verdict


def test_shares_of_the_host_are_those_of_the_train_phase() -> None:
    """Two cores; one is busy from 10 to 14, both from 14 to 16; training is from 12 to 16."""
    samples = [
        HostSample(t, 2, load, busy, steal, pressure)
        for t, load, busy, steal, pressure in (
            (10.0, 1.0, 100.0, 0.0, 50.0),
            (14.0, 2.0, 104.0, 0.0, 50.0),
            (16.0, 3.0, 108.0, 0.4, 51.0),
        )
    ]
    found = of_host(samples, [(12.0, 16.0)], steps_cpu_s=5.0)
    assert found == Fidelity(
        verdict=UNKNOWN,
        busy_share=0.75,  # 2 + 4 of 8 core seconds
        others_share=0.125,  # 1 of 8
        steal_share=0.05,
        pressure_share=0.25,
        load=2.5,
    )


@pytest.mark.parametrize("spans", [[], [(20.0, 21.0)]])
def test_a_train_phase_without_a_reading_has_no_shares(spans: list[tuple[float, float]]) -> None:
    samples = [HostSample(t, 2, None, t, 0.0, None) for t in (10.0, 11.0)]
    assert of_host(samples, spans, 0.0) == Fidelity(verdict=UNKNOWN)


def summary(run: str, verdict: str, wait_share: float | None) -> Summary:
    fidelity = Fidelity(verdict=verdict, largest_wait_share=wait_share)
    return Summary(session="s", run=run, status="completed", spec={}, fidelity=fidelity)


def test_contended_runs_are_noted_below_the_table() -> None:
    held = [summary("001-a", HELD, 0.01), summary("002-b", UNKNOWN, None)]
    assert contention_note(held) == ""
    note = contention_note([*held, summary("003-c", CONTENDED, 0.52)])
    assert "003-c" in note
    assert "001-a" not in note
    assert "52 %" in note
    assert "all runs" in contention_note([summary(run, CONTENDED, 0.3) for run in "ab"])


def test_the_threshold_is_what_the_report_does_not_tell_apart() -> None:
    assert CONTENDED_SHARE == TIMES_AGREE
