"""When each part of a step happened, and where in it the scheduled messages go. Pure.

An event has the time of its end, to 0.1 ms, and durations, to 1 µs. A step begins its duration
before its end, but not before the step before it has ended. The parts follow each other: data,
compute, exchange. (Where gradients are averaged the update comes last, but it is counted in
compute.)

Messages are not captured: they are those of the strategy's message schedule. A round cannot end
before the last worker has arrived, so its messages are placed in the exchange of the worker that
arrived last, in equal slots, one for each step of the schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from analysis.summary.recorded_run import RecordedRun
from analysis.summary.step_times import rounds_of
from cluster.spec.documents.events import Step
from cluster.spec.exchange.strategies import messages
from cluster.spec.schedules.messages import Message, each_message

MOST_MESSAGES = 20_000
"""Of a run: later rounds have no messages. A ring of 16 workers sends 480 a round."""


def microseconds(seconds: float) -> int:
    return round(1e6 * seconds)


class Part(NamedTuple):
    """What a worker did in a part of a step."""

    name: str
    begin_us: int
    end_us: int


@dataclass(frozen=True)
class TimedStep:
    step: Step
    begin_us: int
    """Unix time, microseconds."""
    end_us: int

    @property
    def parts(self) -> list[Part]:
        """The exchange comes last; a step that no round follows has none."""
        step, found, begin = self.step, [], self.begin_us
        durations = [("data", step.data_s), ("compute", step.compute_s)]
        if step.compute_s is None:
            durations[-1] = ("compute and exchange", step.step_s - step.data_s)
        for name, seconds in (*durations, ("exchange", step.exchange_s)):
            end = min(begin + microseconds(seconds or 0.0), self.end_us)  # roundings add up
            if end > begin:
                found.append(Part(name, begin, end))
            begin = end
        return found

    @property
    def exchange(self) -> Part | None:
        """None where it is hidden in compute."""
        return next((part for part in self.parts if part.name == "exchange"), None)


def timed_steps(steps: Sequence[Step]) -> list[TimedStep]:
    """One worker's."""
    found: list[TimedStep] = []
    for step in steps:
        duration = microseconds(step.step_s)
        earliest = found[-1].end_us if found else 0
        begin = max(microseconds(step.t) - duration, earliest)
        found.append(TimedStep(step, begin, begin + duration))
    return found


class PlacedMessage(NamedTuple):
    message: Message
    round: int
    """From 0."""
    begin_us: int
    """When its slot begins: the sender sends."""
    end_us: int
    """When its slot ends: the receiver has it."""


def placed_messages(
    run: RecordedRun, by_worker: Sequence[Sequence[TimedStep]]
) -> list[PlacedMessage]:
    """Of the first rounds, up to MOST_MESSAGES; none where no exchange was measured."""
    found: list[PlacedMessage] = []
    for index, steps in enumerate(zip(*by_worker, strict=False)):
        round_index = rounds_of(run.experiment, index)
        is_due = rounds_of(run.experiment, index + 1) > round_index
        exchanges = [step.exchange for step in steps]
        if not is_due or not any(exchanges):
            continue
        placed = list(_place_round(run, round_index, exchanges))
        if len(found) + len(placed) > MOST_MESSAGES:
            break
        found += placed
    return found


def _place_round(
    run: RecordedRun, index: int, exchanges: Sequence[Part | None]
) -> Iterator[PlacedMessage]:
    if run.hello is None or not run.has_schedule:
        return
    recorded = run.recorded_schedule
    if recorded is None:
        flows = messages(run.experiment.strategy, index, run.setting_in_order(run.hello))
    else:
        flows = recorded.messages(index)
    in_order = each_message(flows)
    for ranks in _groups(in_order):
        exchanged = [message for message in in_order if message.source in ranks]
        known = [part for rank, part in enumerate(exchanges) if part and rank in ranks]
        if not known:
            continue
        last = max(known, key=lambda part: part.begin_us)
        duration, slots = last.end_us - last.begin_us, exchanged[-1].step + 1
        for message in exchanged:
            begin, end = (
                last.begin_us + duration * step // slots
                for step in (message.step, message.step + 1)
            )
            yield PlacedMessage(message, index, begin, end)


def _groups(exchanged: Sequence[Message]) -> list[set[int]]:
    """Ranks that exchange with each other, directly or through others."""
    groups: list[set[int]] = []
    for message in exchanged:
        joined = {message.source, message.destination}
        joined = joined.union(*(group for group in groups if group & joined))
        groups = [*(group for group in groups if not group & joined), joined]
    return groups
