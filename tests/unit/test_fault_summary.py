"""What faults cost, from events whose answer is known by construction."""

from __future__ import annotations

import pytest

from analysis.summary.faults import describe
from analysis.summary.node_log import NodeLog
from cluster.spec.documents.event import Event
from cluster.spec.documents.events import Phase, Step
from cluster.spec.documents.fault_events import FaultBegun, FaultOver, Member, Noticed
from cluster.spec.documents.records import Counters
from cluster.spec.experiment import Experiment

T = 1000.0
FREEZE = Experiment(workers=3, fault="2:freeze@4s/3s", dilation=2.0, batch_size=10)


def made(number: int, end_s: float, begin_s: float | None = None) -> Step:
    begin_s = end_s - 1 if begin_s is None else begin_s
    return Step(
        t=T + end_s,
        epoch=1,
        step=number,
        step_s=end_s - begin_s,
        data_s=0.0,
        compute_s=0.5,
        exchange_s=0.5,
    )


def log(*steps: Step, more: tuple[Event, ...] = ()) -> NodeLog:
    begin = Phase(t=T, phase="train", epoch=1, counters=Counters())
    return NodeLog([begin, *sorted((*steps, *more), key=lambda event: event.t)])


def begun(t: float, node: str = "node2", **options: object) -> FaultBegun:
    fault = "2:freeze@4s/3s"
    return FaultBegun(t=T + t, number=0, fault=fault, node=node, **options)  # type: ignore[arg-type]


def frozen_run() -> list[NodeLog]:
    """Steps of a second; step 5 lasts from 4 to 11, since node2 stands still from 4.5 to 10.5."""
    ends = [1.0, 2.0, 3.0, 4.0, 11.0, 12.0, 13.0, 14.0]
    begins = [0.0, *ends]
    steps = [made(n, end, begins[n - 1]) for n, end in enumerate(ends, start=1)]
    return [log(*steps) for _ in range(3)]


def test_times_are_emulated_and_from_the_fault_on() -> None:
    host = [begun(4.5), Noticed(t=T + 6.5, node="node2", why=""), _over(10.5)]
    found = describe(FREEZE, frozen_run(), host)
    assert found is not None
    (outcome,) = found.faults
    assert outcome.began_s == 2.25
    assert outcome.noticed_s == 1.0
    assert outcome.over_s == 3.0
    assert outcome.resumed_s == 3.75  # step 6, begun at 11, ends at 12
    assert outcome.back_s == 3.25  # step 5 ends at 11
    assert found.train_s == 7.0
    assert found.undisturbed_step_s == 0.5
    assert found.committed_steps == 8
    assert found.goodput == pytest.approx(8 / 14)
    assert (found.participation, found.repeated_steps, found.generations) == (1.0, 0, 1)


def _over(t: float) -> FaultOver:
    return FaultOver(t=T + t, number=0, node="node2")


def test_a_killed_worker_takes_no_part_and_steps_are_made_again() -> None:
    """node2 dies in step 4; node0 was one step ahead and goes back to step 4."""
    kill = Experiment(workers=3, fault="2:kill@step4", batch_size=10)
    member = Member(t=T + 6, generation=1, from_step=4, recovered_bytes=0)
    ahead = log(*(made(n, n) for n in range(1, 5)), *_later(), more=(member,))
    behind = log(*(made(n, n) for n in range(1, 4)), *_later(), more=(member,))
    dead = log(*(made(n, n) for n in range(1, 4)))
    host = [FaultBegun(t=T + 3.5, number=0, fault="2:kill@step4", node="node2", step=4)]
    found = describe(kill, [ahead, behind, dead], host)
    assert found is not None
    assert (found.repeated_steps, found.repeated_samples, found.generations) == (1, 10, 2)
    assert found.committed_steps == 6
    assert found.participation == pytest.approx((3 * 3 + 3 * 2) / 18)
    assert found.participation_least == pytest.approx(2 / 3)
    (outcome,) = found.faults
    assert outcome.back_s is None
    assert outcome.resumed_s == 3.5


def _later() -> list[Step]:
    return [made(n, n + 3) for n in range(4, 7)]


def test_bytes_of_those_that_came_back_are_added_up() -> None:
    members = [Member(t=T + t, generation=t, from_step=1, recovered_bytes=700) for t in (1, 2)]
    run = [log(made(1, 5), more=tuple(members)), log(made(1, 5))]
    found = describe(Experiment(workers=2, fault="1:freeze@1s/1s"), run, [])
    assert found is not None
    assert found.recovered_bytes == 1400


def test_faults_that_the_run_did_not_reach_are_listed() -> None:
    found = describe(FREEZE, frozen_run(), [])
    assert found is not None
    assert found.never == ["2:freeze@4s/3s"]


def test_a_run_without_faults_has_no_such_part() -> None:
    assert describe(Experiment(workers=3), frozen_run(), []) is None
    assert describe(FREEZE, [NodeLog([])] * 3, []) is None
