"""Which steps and scores count where the members of a run changed."""

from __future__ import annotations

from analysis.summary.generations import Stretch, counted, stretches
from analysis.summary.node_log import NodeLog
from cluster.spec.documents.events import Epoch, Step
from cluster.spec.documents.fault_events import Member
from cluster.spec.documents.membership import Generation, Place

GENERATIONS = [
    Generation(number=0, members=[0, 1, 2]),
    Generation(
        number=1,
        members=[0, 1],
        start=Place(generation=1, epoch=2, step=3, round=3),
        done={0: 1, 1: 1, 2: 1},
    ),
]


def step(number: int, epoch: int) -> Step:
    return Step(step=number, epoch=epoch, step_s=1, data_s=0, compute_s=1, exchange_s=0)


def member(generation: int) -> Member:
    return Member(generation=generation, from_step=1)


def test_a_step_that_was_made_again_counts_once_and_so_does_an_epoch() -> None:
    made_again = step(4, 2)
    ahead = NodeLog(
        [
            *(member(0), step(1, 1), step(2, 1), Epoch(epoch=1, accuracy=0.5)),
            *(step(3, 2), step(4, 2), member(1), made_again, step(5, 2)),
            *(Epoch(epoch=2, accuracy=0.6), Epoch(epoch=2, accuracy=0.7)),
        ]
    )
    found = counted(ahead, 0, GENERATIONS)
    assert [each.step for each in found.steps] == [1, 2, 3, 4, 5]
    assert found.steps[3] is made_again
    assert [each.accuracy for each in found.epochs] == [0.5, 0.7]
    lost = NodeLog([member(0), step(1, 1), step(2, 1), step(3, 2), step(4, 2)])
    assert [each.step for each in counted(lost, 2, GENERATIONS).steps] == [1, 2, 3]


def test_rounds_are_those_of_each_generation() -> None:
    assert stretches(GENERATIONS, 10, workers=3) == [Stretch(3, 3), Stretch(2, 7)]
