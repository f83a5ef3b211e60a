"""Slow is told, a deadlock of all is found, and neither is taken for the other."""

from __future__ import annotations

import pytest

from cluster.observe.liveness import Signs
from cluster.observe.stall import (
    DEADLOCK_S,
    LOOK_S,
    POLLING_DEADLOCK_S,
    SLOW_S,
    TIMES_LONGEST,
    StallWatch,
)
from cluster.spec.documents.events import Step
from cluster.spec.documents.heartbeat import Heartbeat
from cluster.spec.experiment import Experiment

NAMES = ["node0", "node1", "node2"]


def watched(model: str = "mnist-cnn", step_s: float = 0.1, launcher: str = "torch") -> StallWatch:
    experiment = Experiment(workers=3, model=model, launcher=launcher)
    stall = StallWatch(experiment, NAMES, 0.0)
    stall.note_event(Step(step_s=step_s, data_s=0, compute_s=0, exchange_s=0))
    return stall


def signs(cpu_s: dict[int, float]) -> dict[int, Signs]:
    """Nodes in step 6, in which they have used so much CPU time."""
    return {
        rank: Signs(Heartbeat(beat=1, cpu_s=used), phase="train", step=5)
        for rank, used in cpu_s.items()
    }


def test_the_node_that_computes_is_the_slow_one_and_is_named_once() -> None:
    stall, nodes = watched(), signs({0: 0.1, 1: 0.0, 2: 9.0})
    assert stall.tell_slow(nodes, SLOW_S - 1) is None
    text = stall.tell_slow(nodes, SLOW_S)
    assert text is not None
    assert "node2 is slow: computing in step 6" in text
    assert stall.tell_slow(nodes, SLOW_S + 1) is None


def test_without_anyone_who_computes_all_wait() -> None:
    text = watched().tell_slow(signs({0: 0.0, 1: 0.0, 2: 0.1}), SLOW_S)
    assert text is not None
    assert "node0, node1 and node2 are slow: waiting" in text


def test_a_step_that_usually_takes_long_is_not_slow() -> None:
    assert watched(step_s=60).tell_slow(signs({0: 0.0}), 4 * 60) is None


def looked(stall: StallWatch, seconds: float, cpu_share: float = 0.0, sent: float = 0.0) -> bool:
    """Whether it is a deadlock after so long with this use of CPU and network."""
    now, found = 0.0, None
    while now < seconds and not found:
        now += LOOK_S
        nodes = signs({rank: cpu_share * now if rank == 1 else 0.0 for rank in range(3)})
        found = stall.find_deadlock(nodes, {0: sent}, now)
    return found is not None


def test_a_deadlock_is_found_when_nobody_computes_or_sends() -> None:
    assert looked(watched(), DEADLOCK_S + 3 * LOOK_S)


@pytest.mark.parametrize("launcher", ["horovod", "spark"])
def test_where_waiting_nodes_poll_a_deadlock_is_found_by_its_missing_steps(launcher: str) -> None:
    polling = {"cpu_share": 0.5, "sent": 5e4}
    assert not looked(watched(launcher=launcher), POLLING_DEADLOCK_S - LOOK_S, **polling)
    assert looked(watched(launcher=launcher), POLLING_DEADLOCK_S, **polling)


@pytest.mark.parametrize(
    ("model", "step_s", "seconds", "cpu_share", "sent"),
    [
        ("mnist-cnn", 0.1, DEADLOCK_S - 1, 0.0, 0.0),
        ("mnist-cnn", 0.1, 10 * DEADLOCK_S, 0.2, 0.0),
        ("mnist-cnn", 0.1, 10 * DEADLOCK_S, 0.0, 1e4),
        ("mnist-cnn", 100.0, TIMES_LONGEST * 100 - 1, 0.0, 0.0),
        ("synthetic:4k:1:100s", 0.1, TIMES_LONGEST * 100 - 1, 0.0, 0.0),
    ],
)
def test_a_run_that_computes_sends_or_is_slow_by_its_nature_is_no_deadlock(
    model: str, step_s: float, seconds: float, cpu_share: float, sent: float
) -> None:
    assert not looked(watched(model, step_s), seconds, cpu_share, sent)


def test_a_node_without_a_heartbeat_is_not_known_to_wait() -> None:
    stall, nodes = watched(), {0: Signs(phase="train", step=5)}
    times = range(0, 10 * int(DEADLOCK_S), 2)
    assert not any(stall.find_deadlock(nodes, {}, float(now)) for now in times)
