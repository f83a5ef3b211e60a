"""Frozen, unplugged, cut off, silent: told apart by heartbeats, events and the host's view."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cluster.observe.liveness import (
    ASK_S,
    GRACE_S,
    LOST_S,
    START_S,
    Condition,
    Liveness,
    find_cuts,
)
from cluster.spec.documents.events import Phase, Step
from cluster.spec.documents.heartbeat import RECORD_BYTES, Heartbeat, LinkState, read_heartbeat
from cluster.spec.documents.records import Counters

NAMES = ["node0", "node1", "node2"]
ALL = [0, 1, 2]
CUT = {"is_unanswered": True, "reached": 0, "unreachable": [0, 1]}
WITNESS = {"is_unanswered": True, "reached": 1, "unreachable": [2]}


def training(step: int = 40) -> Liveness:
    """Three nodes that have finished this step at time 0."""
    liveness = Liveness(NAMES, 3, 3, 0.0)
    for rank in ALL:
        liveness.note_event(rank, Phase(phase="train", counters=Counters()), 0.0)
        done = Step(step=step, step_s=0.1, data_s=0, compute_s=0, exchange_s=0)
        liveness.note_event(rank, done, 0.0)
    return liveness


def beat(liveness: Liveness, number: int, now: float, said: Mapping[int, Any]) -> None:
    """All nodes beat; `said` has what some of them say."""
    for rank in ALL:
        liveness.note_heartbeat(rank, Heartbeat(beat=number, **said.get(rank, {})), now)


@pytest.mark.parametrize(
    ("said", "condition", "words"),
    [
        ({1: {"is_stopped": True}}, Condition.FROZEN, "node1 is frozen (stopped) since step 41"),
        ({1: {"link": LinkState.DOWN}}, Condition.LINK_DOWN, "node1's link is down since step 41"),
        ({2: CUT, 0: WITNESS}, Condition.CUT_OFF, "node2 is cut off since step 41"),
        ({0: WITNESS}, Condition.CUT_OFF, "node2 is cut off since step 41"),
        ({2: CUT | {"link": LinkState.MISSING}, 0: WITNESS}, Condition.LINK_DOWN, "node2's link"),
    ],
)
def test_what_heartbeats_say_is_final_after_the_grace_and_not_before(
    said: dict[int, Any], condition: Condition, words: str
) -> None:
    liveness = training()
    beat(liveness, 1, 1.0, said)
    (finding,) = liveness.judge(ALL, {}, 1.0)
    assert finding.condition == condition
    assert finding.text.startswith(words)
    assert not finding.is_final(1.0 + GRACE_S - 0.1)
    beat(liveness, 2, 1.0 + GRACE_S, said)
    (finding,) = liveness.judge(ALL, {}, 1.0 + GRACE_S)
    assert finding.is_final(1.0 + GRACE_S)


def test_a_node_that_recovers_has_its_whole_grace_again() -> None:
    liveness = training()
    for number, (now, stopped) in enumerate([(1.0, True), (5.0, False), (7.0, True)], start=1):
        beat(liveness, number, now, {0: {"is_stopped": stopped}})
        findings = liveness.judge(ALL, {}, now)
        assert [finding.since for finding in findings] == ([now] if stopped else [])


def test_the_time_of_the_probe_counts_as_grace() -> None:
    liveness = training()
    beat(liveness, 1, 1.0, {0: {"is_unanswered": True}})
    assert liveness.judge(ALL, {}, 1.0) == []
    beat(liveness, 2, 4.0, {0: WITNESS})
    (finding,) = liveness.judge(ALL, {}, 4.0)
    assert finding.since == 1.0


def test_the_hosts_view_counts_unless_events_go_on() -> None:
    liveness = training()
    beat(liveness, 1, 0.0, {})
    assert liveness.silent(ASK_S / 2) == []
    assert liveness.silent(ASK_S) == ALL
    (finding,) = liveness.judge(ALL, {1: "paused"}, ASK_S)
    assert (finding.condition, finding.ranks) == (Condition.FROZEN, (1,))
    liveness.note_event(1, Step(step=41, step_s=0, data_s=0, compute_s=0, exchange_s=0), ASK_S)
    assert liveness.judge(ALL, {1: "paused"}, ASK_S) == []


def test_a_missing_heartbeat_alone_ends_a_run_only_after_long() -> None:
    liveness = training()
    beat(liveness, 1, 0.0, {})
    assert liveness.judge(ALL, {}, LOST_S - 0.1) == []
    findings = liveness.judge([1], {}, LOST_S)
    assert [(f.condition, f.ranks) for f in findings] == [(Condition.SILENT, (1,))]
    assert findings[0].is_final(LOST_S)


def test_a_node_that_never_had_a_heartbeat_is_not_missed() -> None:
    assert training().judge(ALL, {}, 10 * LOST_S) == []


def test_a_node_that_has_ended_is_not_judged() -> None:
    liveness = training()
    beat(liveness, 1, 1.0, {1: {"is_stopped": True}})
    assert liveness.judge([0, 2], {1: "paused"}, 10.0) == []


def test_a_node_that_is_stopped_before_its_first_heartbeat_is_found() -> None:
    liveness = Liveness(NAMES, 3, 3, 0.0)
    assert liveness.silent(START_S - 0.1) == []
    for rank in (0, 2):
        liveness.note_heartbeat(rank, Heartbeat(beat=1), START_S - 0.1)
    assert liveness.silent(START_S) == [1]
    (finding,) = liveness.judge(ALL, {1: "stopped"}, START_S)
    assert finding.text == "node1 is frozen (stopped) in phase setup"


def test_a_frozen_server_is_in_the_step_of_its_workers() -> None:
    liveness = Liveness([*NAMES, "node3"], 3, 4, 0.0)
    for rank in range(4):
        liveness.note_event(rank, Phase(phase="train", counters=Counters()), 0.0)
    liveness.note_event(1, Step(step=7, step_s=0.1, data_s=0, compute_s=0, exchange_s=0), 0.0)
    (finding,) = liveness.judge([0, 1, 2, 3], {3: "stopped"}, 10.0)
    assert finding.text == "node3 is frozen (stopped) since step 8"


def test_a_paused_auxiliary_service_is_found_without_a_heartbeat() -> None:
    liveness = Liveness([*NAMES, "driver"], 3, 3, 0.0)
    (finding,) = liveness.judge(ALL, {3: "paused"}, 10.0)
    assert finding.text == "driver is frozen (paused)"


@pytest.mark.parametrize(
    ("nodes", "reports", "cut"),
    [
        (4, {2: [0, 1, 3]}, [(2,)]),
        (4, {0: [2], 1: [2]}, [(2,)]),
        (4, {0: [2], 2: [0, 1, 3]}, [(2,)]),
        (4, {0: [2], 2: [0]}, [(0, 2)]),
        (2, {0: [1]}, [(0, 1)]),
        (3, {0: [1, 2], 1: [0, 2], 2: [0, 1]}, [(0, 1, 2)]),
        (4, {0: []}, []),
        (4, {}, []),
    ],
)
def test_probes_tell_who_is_cut_off(
    nodes: int, reports: dict[int, list[int]], cut: list[tuple[int, ...]]
) -> None:
    probed = {
        rank: Heartbeat(beat=1, reached=nodes - 1 - len(lost), unreachable=lost)
        for rank, lost in reports.items()
    }
    assert [ranks for ranks, _ in find_cuts(probed, nodes)] == cut


def test_a_heartbeat_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "node0.heartbeat"
    heartbeat = Heartbeat(beat=3, cpu_s=1.5, link=LinkState.DOWN, reached=0, unreachable=[1, 2])
    path.write_bytes(heartbeat.record())
    assert read_heartbeat(path) == heartbeat
    most = Heartbeat(beat=2**60, cpu_s=1e9 / 3, reached=10**4, unreachable=list(range(900, 964)))
    assert len(most.record()) == len(heartbeat.record()) == RECORD_BYTES


@pytest.mark.parametrize("content", [b"", b"\xff" * 2000, b"[" * 2000, b"{}", b'{"beat": -1}'])
def test_what_is_no_heartbeat_is_none(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "node0.heartbeat"
    path.write_bytes(content)
    assert read_heartbeat(path) is None
