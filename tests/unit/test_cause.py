"""The cause of a failed run, and the complaints of peers."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.observe.cause import Evidence, explain, shortened
from cluster.observe.liveness import Condition, Finding
from cluster.spec.documents.events import Failure

NAMES = ["node0", "node1", "node2"]
GLOO = (
    "RuntimeError: [/pytorch/gloo/pair.cc:538] Connection closed by peer [10.77.0.3]:41123. This is"
    " typically caused by a remote worker crashing."
)
COMPLAINTS = [
    GLOO,
    "RuntimeError: Timed out waiting 120000ms for recv operation to complete",
    "RuntimeError: [buffer.cc:72] Read error [10.77.0.3]:28417: Connection reset by peer",
    "DistNetworkError: The client socket has timed out",
    "HorovodInternalError: [pair.cc:589] Read error [10.77.0.3]: Connection reset by peer",
    "OSError: [Errno 113] No route to host",
]
FROZEN = Finding(Condition.FROZEN, (2,), "node2 is frozen (stopped) since step 41", 0.0)


def failures(**messages: str) -> dict[int, Failure]:
    return {int(name[4:]): Failure(t=1.0, message=text) for name, text in messages.items()}


def explained(**known: Any) -> tuple[int, str]:
    return explain(Evidence(NAMES, **known), None, lambda rank: "last words")


@pytest.mark.parametrize("complaint", COMPLAINTS)
@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"starved": frozenset({2}), "exits": {2: 137}}, "node2 ran out of memory"),
        ({"exits": {0: 1, 1: 1, 2: 137}}, "node2 was ended by SIGKILL"),
        ({"findings": [FROZEN]}, FROZEN.text),
        ({"exits": {2: 3}}, "node2 ended with code 3: last words"),
    ],
)
def test_a_complaint_follows_the_cause(known: dict[str, Any], words: str, complaint: str) -> None:
    rank, text = explained(failures=failures(node0=complaint, node1=complaint), **known)
    assert rank == 2
    assert text.startswith(words)
    cause, _, after = text.partition("; node0 and node1 then complained: ")
    assert shortened(complaint) not in cause
    assert after == shortened(complaint)


def test_an_error_of_its_own_comes_before_complaints_that_were_written_earlier() -> None:
    reported = failures(node0=GLOO) | {1: Failure(t=2.0, message="ValueError: bad shape")}
    rank, text = explained(failures=reported, exits={0: 1, 1: 1})
    assert (rank, text.partition(";")[0]) == (1, "node1 ValueError: bad shape")


def test_a_second_fault_is_told_after_the_first() -> None:
    rank, text = explained(exits={1: 137}, noticed=[FROZEN])
    assert rank == 1
    assert text == f"node1 was ended by SIGKILL; {FROZEN.text}, too"


def test_lack_of_memory_is_suspected_only_where_the_kernel_ended_something_for_it() -> None:
    assert "memory" not in explained(exits={1: 137})[1]
    assert "memory" in explained(exits={1: 137}, memory_kill=True)[1]


def test_a_complaint_is_its_first_sentence() -> None:
    said = "RuntimeError: Connection closed by peer [10.77.0.3]:41123"
    assert shortened(GLOO) == said


def test_complaints_alone_say_whom_they_point_to() -> None:
    reported = failures(node0=GLOO, node1=GLOO)
    evidence = Evidence(NAMES, failures=reported, addresses={"10.77.0.3": 2})
    assert not evidence.has_cause
    rank, text = explain(evidence, None, lambda rank: "")
    assert rank == 2
    assert text.endswith("point to node2")


def test_a_node_that_says_nothing_while_others_complain_is_where_to_look() -> None:
    said = "HorovodInternalError: Horovod has been shut down"
    rank, text = explained(failures=failures(node0=said, node1=said))
    assert rank == 2
    assert said in text
    assert "node2 said nothing" in text


def test_the_exit_that_a_spark_driver_tells_is_the_silent_node_s() -> None:
    """Horovod's driver knows the exit code, but numbers the nodes in its own way."""
    driver = "RuntimeError: Horovod detected that one or more processes exited with non-zero status"
    told = failures(node0="HorovodInternalError: shut down", node1="HorovodInternalError: x")
    told[3] = Failure(t=2.0, message=f"{driver}: Process name: 0 Exit code: 137")
    evidence = Evidence([*NAMES, "driver"], failures=told)
    rank, text = explain(evidence, None, lambda rank: "")
    assert rank == 2
    assert text.startswith("node2 was ended by SIGKILL")
