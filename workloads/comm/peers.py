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
from cluster.spec.experiment import Experiment
from workloads.comm.flat import FlatModel
from workloads.comm.pace import Pace
from workloads.event_log import EventLog
from workloads.optimizers import Optimizer

TIMEOUT_S = 120
"""A peer that is silent for this long in a step is an error. A dead peer is noticed at once when
its connections break; NCCL has none within a host, so there it takes this long, or until the
collector notices (cluster/gpu/collector.py)."""


class RoundExchanger(Protocol):
    def begin_round(self, index: int, steps: int) -> None:
        """Call before the last backward pass of a round of `steps` steps."""

    def finish_round(self) -> None:
        """Call after that backward pass; returns when everything is exchanged, or under way."""


@dataclass(frozen=True)
class Preparation:
    """What a training step needs, made for one strategy by one launcher."""

    model: nn.Module
    """Called instead of the model: the same one, or a wrapper that exchanges during backward."""
    exchanger: RoundExchanger
    update: Callable[[], None]
    """Applies the exchanged gradients and clears them."""
    after_local_step: Callable[[], None] | None = None
    """Called after a step that no round follows, where an exchange may still be under way."""
    hides_exchange: bool = False
    """The exchange happens inside backward: its time cannot be separated from compute time."""
    pace: Pace | None = None
    """Of workers that are not in step."""


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


def timeout_s(spec: Experiment, model_bytes: int) -> float:
    """A node that is silent for so long in an exchange is lost.

    Longer for rounds of many steps, and for slow links that carry a model for every node.
    """
    slowest = spec.slowest_mbit
    on_the_wire_s = 2 * spec.nodes * model_bytes * 8 / (slowest * 1e6) if slowest else 0.0
    return (TIMEOUT_S * spec.local_steps + on_the_wire_s) * spec.slowdown


def enter_phase(log: EventLog, phase: str, epoch: int | None, peers: Peers) -> None:
    """Pass a phase boundary: no bytes are in flight while the counters are read."""
    peers.barrier()
    log.boundary(Phase, phase=phase, epoch=epoch)
    peers.barrier()
