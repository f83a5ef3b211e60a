"""What the host sees of nodes -> membership.json."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.elastic.roll import Roll
from cluster.observe.liveness import GRACE_S, Condition, Finding
from cluster.observe.node_watch import RunFailed
from cluster.spec.documents.events import Failure, Held, Step
from cluster.spec.documents.fault_events import Member
from cluster.spec.documents.heartbeat import Heartbeat
from cluster.spec.documents.membership import Place
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.experiment import Experiment

KILLED = 137


def roll_of(tmp_path: Path, strategy: str = "allreduce") -> tuple[Roll, RunFolder]:
    folder = RunFolder(tmp_path / "run").create()
    return Roll(Experiment(strategy=strategy, workers=3, on_failure="continue"), folder), folder


def beat(exit_code: int | None, generation: int = 0) -> Heartbeat:
    return Heartbeat(beat=1, exit_code=exit_code, generation=generation)


def report(roll: Roll, *ranks: int, step: int = 7) -> None:
    number = roll.crew.present.number
    for rank in ranks:
        place = Place(generation=number, done=step, step=step, round=step)
        roll.note_event(rank, Held(generation=number, latest=place))


def test_a_process_that_a_signal_ended_is_lost_and_one_that_complains_is_not(
    tmp_path: Path,
) -> None:
    roll, folder = roll_of(tmp_path)
    roll.note_event(2, Failure(message="Connection closed by peer"))
    beats = {0: beat(None), 1: beat(KILLED), 2: beat(1)}
    assert roll.ends_of_members({}, beats) == {1: KILLED}
    assert roll.ends_of_members({}, {0: beat(1)}) == {0: 1}, "it ended without a word"
    assert roll.ends_of_members({}, {1: beat(KILLED, generation=5)}) == {}, "of another generation"
    roll.lose(1, "node1 was ended by SIGKILL", comes_back=False)
    assert roll.look([], 0.0) is None
    assert folder.read_membership().is_held
    report(roll, 0, 2)
    told = roll.look([], 0.0)
    assert told is not None
    assert "2 nodes go on after step 7 (generation 1)" in told
    written = folder.read_membership()
    assert (written.present.members, written.is_held) == ([0, 2], False)
    assert written.present.done == {0: 7, 1: 7, 2: 7}
    roll.close()
    assert folder.read_membership().is_over


def test_a_node_out_of_reach_is_dropped_after_the_grace_and_comes_back_by_itself(
    tmp_path: Path,
) -> None:
    roll, folder = roll_of(tmp_path)
    frozen = [Finding(Condition.FROZEN, (1,), "node1 is frozen", since=0.0)]
    roll.look(frozen, GRACE_S - 1)
    assert not folder.read_membership().is_held
    roll.look(frozen, GRACE_S)
    report(roll, 0, 2)
    roll.look(frozen, GRACE_S)
    assert folder.read_membership().present.members == [0, 2]
    roll.note_event(1, Held(generation=1))
    roll.look(frozen, GRACE_S + 1)
    assert not folder.read_membership().is_held, "it is still frozen"
    roll.look([], GRACE_S + 2)
    report(roll, 0, 2)
    roll.look([], GRACE_S + 2)
    present = folder.read_membership().present
    assert (present.members, present.joiners, present.donor) == ([0, 1, 2], [1], 0)


def test_of_a_lost_worker_of_pairwise_its_own_steps_count(tmp_path: Path) -> None:
    roll, folder = roll_of(tmp_path, "pairwise")
    roll.note_event(1, Member(generation=0, from_step=1))
    for number in range(1, 5):
        roll.note_event(
            1, Step(epoch=1, step=number, step_s=1, data_s=0, compute_s=1, exchange_s=0)
        )
    roll.lose(1, "node1 was ended by SIGKILL", comes_back=False)
    report(roll, 0, step=7)
    report(roll, 2, step=5)
    roll.look([], 0.0)
    present = folder.read_membership().present
    assert present.done == {0: 7, 1: 4, 2: 5}
    assert present.start.step == 7


def test_without_its_server_a_run_fails_with_the_cause(tmp_path: Path) -> None:
    roll, _ = roll_of(tmp_path, "parameter-server")
    roll.lose(3, "node3 was ended by SIGKILL", comes_back=False)
    with pytest.raises(RunFailed, match="node3 was ended by SIGKILL"):
        roll.look([], 0.0)
