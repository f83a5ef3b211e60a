"""How the nodes of a run meet, wait for each other and part, whatever library runs them.

Bytes are booked to phases. At a border all nodes wait for each other, read their own counters, and
wait again, so no exchange of one phase is counted in another. The waiting itself is a few hundred bytes
per border, booked to the phase it opens.
"""

from __future__ import annotations

import importlib
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from cluster.spec.experiment import Experiment
from cluster.spec.launchers import LAUNCHERS
from workloads.comm.flat import FlatModel
from workloads.event_log import EventLog
from workloads.optimizers import Optimizer

TRY_S = 5.0
PAUSES_S = (0.01, 0.25)
"""Between two tries, at first and at most: what a try sends is booked to the phase of setting up."""


class Exchanging(Protocol):
    """Call begin() before the backward pass that ends a round, and complete() when all is computed."""

    def begin(self, index: int, steps: int) -> None: ...

    def complete(self) -> None: ...


@dataclass(frozen=True)
class Preparation:
    """What a training step needs, made for one strategy by one launcher."""

    model: nn.Module
    """To call instead of the model; the same one unless it exchanges by itself."""
    exchanger: Exchanging
    update: Callable[[], None]
    """Apply the exchanged gradients and clear them."""
    hides_exchange: bool = False
    """It happens inside backward, and its time cannot be told from that of the computation."""


class Peers(Protocol):
    """The other nodes, as one of them sees them. With nobody else every call returns at once."""

    @property
    def rank(self) -> int: ...

    @property
    def workers(self) -> int: ...

    @property
    def order(self) -> list[int] | None:
        """Ours in the order of a library's own ranks, where it has them: its rings follow that."""

    def barrier(self) -> None:
        """Until all nodes are here."""

    def all_reduce_sum(self, tensor: Tensor) -> None:
        """In place, over all workers."""

    def take_first(self, tensor: Tensor) -> None:
        """Replace it by worker 0's."""

    def prepare(self, model: nn.Module, flat: FlatModel, optimizer: Optimizer) -> Preparation: ...

    def rest(self, log: EventLog) -> None:
        """Where a launcher talks even when nothing is exchanged: measure what it says."""

    def leave(self) -> None:
        """All together. Nothing else may hold on to the preparation by then."""


def join(spec: Experiment, rank: int, model_bytes: int) -> Peers:
    module = importlib.import_module(LAUNCHERS[spec.launcher].peers)
    peers: Peers = module.join(spec, rank, model_bytes)
    return peers


def await_rendezvous(patience_s: float) -> None:
    """Until node 0 listens; where, comes from the environment, as torchrun has it."""
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    began = time.monotonic()
    pause, longest = PAUSES_S
    while True:
        try:
            socket.create_connection((host, port), timeout=TRY_S).close()
            return
        except (OSError, UnicodeError) as error:  # the second for a name that cannot be one
            waited = time.monotonic() - began
            if waited > patience_s:
                raise TimeoutError(
                    f"no meeting point at {host}:{port} after {waited:.0f} s: {error}"
                ) from None
            time.sleep(pause)
            pause = min(1.5 * pause, longest)


def enter(log: EventLog, phase: str, epoch: int | None, peers: Peers) -> None:
    """A border: nobody's bytes are in flight while the counters are read."""
    peers.barrier()
    log.border("phase", phase=phase, epoch=epoch)
    peers.barrier()
