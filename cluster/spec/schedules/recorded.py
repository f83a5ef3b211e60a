"""A message schedule as data: what the `messages` of a user's own strategy returned on a node.

The host does not run it: a node calls it for every round of the run, and writes the result as an
event (cluster/spec/documents/events.py, `schedule`). Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from cluster.spec.documents.codec import Amount, Count, DocumentError
from cluster.spec.schedules.messages import Flow, Messages

MOST_STEPS = 100_000


class PlannedMessage(NamedTuple):
    """A message of a round: an array of four in JSON."""

    source: Count
    """Rank that sends."""
    destination: Count
    """Rank that receives."""
    bytes: Amount
    """Payload."""
    step: Count
    """It waits for all that reached its source in earlier steps."""


@dataclass(frozen=True)
class RecordedSchedule:
    """Round t has the messages `distinct[order[t % len(order)]]`."""

    distinct: tuple[Messages, ...]
    order: tuple[int, ...]

    @classmethod
    def of(
        cls, rounds: Sequence[Sequence[PlannedMessage]], order: Sequence[int], nodes: int
    ) -> RecordedSchedule:
        """DocumentError for ranks and rounds that there are not: nodes can write anything."""
        if not order or max(order) >= len(rounds):
            raise DocumentError("names a round that it does not have", "schedule.order")
        for message in (message for messages in rounds for message in messages):
            if max(message.source, message.destination) >= nodes:
                raise DocumentError(f"has a rank beyond {nodes - 1}", "schedule.rounds")
            if message.step >= MOST_STEPS:
                raise DocumentError(f"has step {message.step}", "schedule.rounds")
        return cls(tuple(_flows(messages) for messages in rounds), tuple(order))

    def messages(self, index: int) -> Messages:
        return self.distinct[self.order[index % len(self.order)]]

    def counted(self, rounds: int) -> Iterator[tuple[Messages, int]]:
        """The messages of rounds 0 to rounds-1, each distinct round once, and how often it is."""
        turns, rest = divmod(rounds, len(self.order))
        for place, messages in enumerate(self.distinct):
            times = turns * self.order.count(place) + self.order[:rest].count(place)
            if times:
                yield messages, times


def _flows(messages: Sequence[PlannedMessage]) -> Messages:
    """Messages of one size and step are one flow."""
    found: dict[tuple[float, int], list[PlannedMessage]] = {}
    for message in messages:
        found.setdefault((message.bytes, message.step), []).append(message)
    return tuple(
        Flow(
            tuple(message.source for message in same),
            tuple(message.destination for message in same),
            Fraction(size),
            step,
        )
        for (size, step), same in sorted(found.items(), key=lambda item: item[0][1])
    )
