"""The others through torch.distributed: on Gloo, or on NCCL between GPUs."""

from __future__ import annotations

import datetime
import os
import socket
from dataclasses import dataclass

import psutil
import torch.distributed as dist
from torch import Tensor, nn

from cluster.spec.experiment import Experiment
from workloads.comm.codecs import compressed
from workloads.comm.exchanger import Exchanger
from workloads.comm.flat import FlatModel
from workloads.comm.messages import group_messages
from workloads.comm.rendezvous import Preparation, await_rendezvous
from workloads.device.timing import open_device
from workloads.event_log import EventLog
from workloads.optimizers import Optimizer
from workloads.strategies import STRATEGIES

PATIENCE_S = 120
"""A peer that is silent for this long in a step is an error. One that died is noticed at once where a connection to it
breaks; inside a host, NCCL has none: there it is this long, or until the collector sees it (cluster/gpu/collector.py)."""


def join(spec: Experiment, rank: int, model_bytes: int) -> TorchPeers:
    """Meet them; the address of node 0 comes from the environment, as torchrun has it."""
    if spec.nodes == 1:
        return TorchPeers(spec, rank, None)
    if interface := find_interface(os.environ["MASTER_ADDR"]):
        for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(name, interface)
    group_messages(spec.backend == "nccl")
    patience_s = _patience_s(spec, model_bytes)
    if rank:
        await_rendezvous(patience_s)  # torch would try again only after half a second
    dist.init_process_group(
        spec.backend,
        init_method="env://",
        rank=rank,
        world_size=spec.nodes,
        timeout=datetime.timedelta(seconds=patience_s),
        **open_device(spec.device).join_options(),
    )
    group = dist.new_group(range(spec.workers)) if spec.nodes > spec.workers else None
    return TorchPeers(spec, rank, group)


def find_interface(master: str) -> str | None:
    """Through which we reach the others: eth0, as every node of ours has it, else the way to node 0.

    Gloo by itself takes the address of the host's own name, which often is one of loopback.
    """
    addresses = psutil.net_if_addrs()
    if "eth0" in addresses:
        return "eth0"
    try:
        family, _, _, _, at = socket.getaddrinfo(master, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as trial:
            trial.connect(at)  # sends nothing
            own = trial.getsockname()[0]
    except OSError:
        return None
    return next(
        (name for name, of_one in addresses.items() if any(a.address == own for a in of_one)), None
    )


def _patience_s(spec: Experiment, model_bytes: int) -> float:
    """More where a round has many steps, or where a slow link has to carry a model to and from everybody."""
    slowest = spec.slowest_mbit
    on_the_wire_s = 2 * spec.nodes * model_bytes * 8 / (slowest * 1e6) if slowest else 0.0
    return PATIENCE_S * spec.local_steps + on_the_wire_s


@dataclass(frozen=True)
class TorchPeers:
    """See workloads.meeting.Peers."""

    spec: Experiment
    rank: int
    group: dist.ProcessGroup | None
    """Of the workers, where there are other nodes too."""

    @property
    def workers(self) -> int:
        return self.spec.workers

    @property
    def order(self) -> None:
        """Its ranks are ours."""

    def barrier(self) -> None:
        if self.spec.nodes > 1:
            dist.barrier()
            open_device(self.spec.device).settle()

    def all_reduce_sum(self, tensor: Tensor) -> None:
        if self.workers > 1:
            dist.all_reduce(tensor, group=self.group)

    def take_first(self, tensor: Tensor) -> None:
        if self.workers > 1:
            dist.broadcast(tensor, 0, group=self.group)

    def prepare(self, model: nn.Module, flat: FlatModel, optimizer: Optimizer) -> Preparation:
        spec, strategy = self.spec, STRATEGIES[self.spec.strategy]
        wraps = strategy.wrap is not None
        exchange = strategy.exchange if wraps else compressed(strategy.exchange, spec.compress)
        exchange_buffer = None if wraps else strategy.exchange
        return Preparation(
            strategy.wrap(model, spec) if strategy.wrap else model,
            Exchanger(flat, spec, self, exchange, exchange_buffer),
            flat.adopt if strategy.server_updates else optimizer.step,
            hides_exchange=wraps,
        )

    def rest(self, log: EventLog) -> None:
        """Gloo is silent when nothing is exchanged."""

    def leave(self) -> None:
        if self.spec.nodes > 1:
            dist.barrier()
            dist.destroy_process_group()
