"""While a run trains: which node has come last to exchanges for long, and why."""

from collections.abc import Mapping

from cluster.spec.arrivals import WORDS, Arrivals, arrivals
from cluster.spec.documents.events import Step
from cluster.spec.documents.run_folder import node_name

TOLD_AFTER = 40
"""Exchanges in a row; told again after ten times as many."""
MOST_OPEN = 64
"""Steps that not all workers have made yet."""


class LateWatch:
    """Takes steps as nodes tell of them."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._open: dict[int, dict[int, Step]] = {}
        self._before: Arrivals | None = None
        self._last: int | None = None
        self._causes: dict[str, int] = {}
        self._tell_at = TOLD_AFTER

    def note(self, rank: int, step: Step) -> str | None:
        """A line to tell, where there is one."""
        if rank >= self._workers or step.ready_t is None or step.of_all is not None:
            return None
        here = self._open.setdefault(step.step, {})
        here[rank] = step
        if len(here) < self._workers:
            while len(self._open) > MOST_OPEN:  # some are gone
                del self._open[min(self._open)]
            return None
        return self._close(self._open.pop(step.step))

    def _close(self, steps: Mapping[int, Step]) -> str | None:
        exchange = arrivals(steps, self._before)
        self._before = exchange
        if exchange is None or exchange.cause is None or exchange.last != self._last:
            late = exchange is not None and exchange.cause is not None
            self._last = exchange.last if exchange and late else None
            self._causes, self._tell_at = {}, TOLD_AFTER
        if exchange is None or exchange.cause is None:
            return None
        self._causes[exchange.cause] = self._causes.get(exchange.cause, 0) + 1
        count = sum(self._causes.values())
        if count < self._tell_at:
            return None
        self._tell_at *= 10
        cause = max(self._causes, key=lambda name: self._causes[name])
        return f"  {node_name(exchange.last)} has been last for {count} exchanges: {WORDS[cause]}"
