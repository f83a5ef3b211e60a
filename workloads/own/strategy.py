"""A strategy of the user's own: a file with exchange(tensor, round), and perhaps messages().

    exchange(tensor, round)     replaces a flat tensor, in place, by its mean over the workers; it
                                has round.rank, round.workers, round.index (from 0) and
                                round.memory, a dictionary that lasts for the run
    messages(round, setting)    the messages of round.index between all workers, as tuples (source,
                                destination, bytes[, step]); setting.workers, setting.model_bytes

docs/your-own-strategy.md has examples.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from reprlib import repr as short
from typing import Any

from torch import Tensor

from cluster.spec import own_code
from cluster.spec.documents.events import Schedule
from cluster.spec.experiment import Experiment
from cluster.spec.schedules.messages import Setting
from cluster.spec.schedules.recorded import MOST_STEPS, PlannedMessage
from workloads.comm.flat import FlatModel
from workloads.comm.round import Round
from workloads.own.loading import OwnCodeError, load, module_of

MOST_RECORDED = 20_000
"""Messages of the distinct rounds of a run, and rounds until they repeat."""


@dataclass(frozen=True, slots=True)
class OwnRound:
    """A round, as messages() sees it: all workers."""

    index: int
    workers: int


@dataclass(frozen=True, slots=True)
class WorkerRound(OwnRound):
    """A round, as exchange() sees it: one worker."""

    rank: int
    memory: dict[Any, Any] = field(default_factory=dict)


class OwnExchange:
    """Implements workloads.comm.round.Exchange. Each part of the model has a memory of its own."""

    def __init__(self, exchange: Callable[[Tensor, WorkerRound], object], file: str) -> None:
        self._exchange, self._file = exchange, file
        self._memories: dict[int, dict[Any, Any]] = {}

    def __call__(self, flat: Tensor, round: Round) -> None:
        memory = self._memories.setdefault(round.part, {})
        workers = round.experiment.workers
        returned = self._exchange(flat, WorkerRound(round.index, workers, round.rank, memory))
        if returned is not None:
            raise OwnCodeError(
                f"{self._file}: exchange returned {type(returned).__name__}: it must change the"
                " given tensor in place, such as tensor.copy_(mean), and return nothing"
            )


def open_exchange(spec: Experiment) -> OwnExchange:
    return OwnExchange(load(spec, "strategy"), spec.strategy)


def own_schedule(spec: Experiment, flat: FlatModel, model_bytes: int) -> Schedule | None:
    """What messages() says of every round of the run; None where the file has none.

    Averaged buffers are exchanged with the model.
    """
    averaged = flat.buffers if spec.buffers == "average" else []
    exchanged_bytes = model_bytes + sum(buffer.nbytes for buffer in averaged)
    function = getattr(module_of(spec, "strategy"), own_code.MESSAGES, None)
    if function is None:
        return None
    setting = Setting(workers=spec.workers, model_bytes=exchanged_bytes)
    return record(function, setting, spec.rounds, spec.strategy)


def record(
    function: Callable[[OwnRound, Setting], Any], setting: Setting, rounds: int, file: str
) -> Schedule | None:
    """The distinct rounds and their order, up to where it repeats; None where that is too much."""
    places: dict[tuple[PlannedMessage, ...], int] = {}
    order: list[int] = []
    for index in range(rounds):
        messages = planned(function(OwnRound(index, setting.workers), setting), setting, file)
        order.append(places.setdefault(messages, len(places)))
    order = order[: _period(order)]
    if sum(map(len, places)) > MOST_RECORDED or len(order) > MOST_RECORDED:
        print(f"{file}: messages() gives more than {MOST_RECORDED:,} messages: not recorded")
        return None
    return Schedule(rounds=[list(messages) for messages in places], order=order)


def planned(returned: Any, setting: Setting, file: str) -> tuple[PlannedMessage, ...]:
    """What messages() returned for a round, checked; those of no bytes are left out."""
    if not isinstance(returned, Iterable):
        raise OwnCodeError(
            f"{file}: messages() must return a list of (source, destination, bytes[, step]),"
            f" not {short(returned)}"
        )
    found = tuple(_message(entry, setting.workers, file) for entry in returned)
    return tuple(message for message in found if message.bytes)


def _message(entry: Any, workers: int, file: str) -> PlannedMessage:
    try:
        source, destination, size, *rest = entry
        step = rest[0] if rest else 0
        whole = all(value == int(value) for value in (source, destination, step))
        ranks = (int(source), int(destination))
        between = max(ranks) < workers and min(ranks) >= 0 and ranks[0] != ranks[1]
        in_order = len(rest) < 2 and 0 <= step < MOST_STEPS
        if whole and between and in_order and math.isfinite(size) and size >= 0:
            exact = int(size) if size == int(size) else float(size)
            return PlannedMessage(*ranks, exact, int(step))
    except (TypeError, ValueError, OverflowError):
        pass
    raise OwnCodeError(
        f"{file}: a message is (source, destination, bytes[, step]) with two different ranks from 0"
        f" to {workers - 1}, not {short(entry)}"
    )


def _period(order: list[int]) -> int:
    """The least number of rounds after which they come again."""
    for period in range(1, min(len(order), MOST_RECORDED) + 1):
        if all(a == b for a, b in zip(order, order[period:], strict=False)):
            return period
    return len(order) or 1
