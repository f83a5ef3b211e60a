"""What workers without a barrier have in common: their pace is that of granted steps."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from cluster.spec.documents.events import Exchanges
from cluster.spec.schedules.unpaced import Partner
from workloads.comm.pace import Pace
from workloads.comm.peers import RoundExchanger


class UnpacedExchanger(Pace, RoundExchanger, Protocol):
    """One object is both: an exchange says whether there is another step."""


@dataclass
class Record:
    """What a worker did in an epoch; fields as in the event."""

    steps: int = 0
    rounds: int = 0
    skipped: int = 0
    staleness_sum: int = 0
    staleness_max: int = 0
    exchanges: Counter[int] = field(default_factory=Counter)
    refused: Counter[int] = field(default_factory=Counter)
    controls: Counter[int] = field(default_factory=Counter)

    def note_round(self, staleness: int) -> None:
        self.rounds += 1
        self.staleness_sum += staleness
        self.staleness_max = max(self.staleness_max, staleness)

    def event(self, epoch: int) -> Exchanges:
        return Exchanges(
            epoch=epoch,
            steps=self.steps,
            rounds=self.rounds,
            skipped=self.skipped,
            staleness_sum=self.staleness_sum,
            staleness_max=self.staleness_max,
            partners=list(self._partners()),
        )

    def _partners(self) -> Iterator[Partner]:
        for rank in sorted({*self.exchanges, *self.refused, *self.controls}):
            counted = (self.exchanges[rank], self.refused[rank], self.controls[rank])
            yield Partner(rank, *counted)
