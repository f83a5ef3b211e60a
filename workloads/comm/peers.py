"""What every launcher provides to a worker: its peers, and how it exchanges with them.

Bytes are booked to phases. At a phase boundary all nodes pass a barrier, read their counters, and
pass a second barrier, so no exchange of one phase is counted in another. The barriers themselves
are a few hundred bytes, booked to the phase that begins.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from cluster.spec.documents.events import Phase
from workloads.comm.flat import FlatModel
from workloads.event_log import EventLog
from workloads.optimizers import Optimizer


class RoundExchanger(Protocol):
    def begin_round(self, index: int, steps: int) -> None:
        """Call before the last backward pass of a round of `steps` steps."""

    def finish_round(self) -> None:
        """Call after that backward pass; returns when everything is exchanged."""


@dataclass(frozen=True)
class Preparation:
    """What a training step needs, made for one strategy by one launcher."""

    model: nn.Module
    """Called instead of the model: the same one, or a wrapper that exchanges during backward."""
    exchanger: RoundExchanger
    update: Callable[[], None]
    """Applies the exchanged gradients and clears them."""
    hides_exchange: bool = False
    """The exchange happens inside backward: its time cannot be separated from compute time."""


class Peers(Protocol):
    """The other nodes, as seen by one node. With a single node every call returns at once."""

    @property
    def rank(self) -> int: ...

    @property
    def workers(self) -> int: ...

    @property
    def order(self) -> list[int] | None:
        """Our ranks in the order of the library's ranks, where they differ: its rings follow it."""

    def barrier(self) -> None:
        """Wait until all nodes are here."""

    def all_reduce_sum(self, tensor: Tensor) -> None:
        """Replace the tensor by its sum over all workers."""

    def broadcast_from_first(self, tensor: Tensor) -> None:
        """Replace the tensor by worker 0's."""

    def prepare(self, model: nn.Module, flat: FlatModel, optimizer: Optimizer) -> Preparation: ...

    def measure_idle(self, log: EventLog) -> None:
        """Measure control traffic while idle, for launchers that have any."""

    def leave(self) -> None:
        """Close the connections, all nodes together; no Preparation may be referenced any more."""


def enter_phase(log: EventLog, phase: str, epoch: int | None, peers: Peers) -> None:
    """Pass a phase boundary: no bytes are in flight while the counters are read."""
    peers.barrier()
    log.boundary(Phase, phase=phase, epoch=epoch)
    peers.barrier()
