"""Peers through torch.distributed: on Gloo, or on NCCL between GPUs."""

import datetime
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

import psutil
import torch.distributed as dist
from torch import Tensor, nn

from cluster.spec.exchange.codecs import parse_codec
from cluster.spec.experiment import Experiment
from cluster.spec.own_code import is_own
from workloads.comm.exchanger import Exchanger
from workloads.comm.flat import FlatModel
from workloads.comm.half import compressed, wire_bytes
from workloads.comm.messages import group_messages
from workloads.comm.peers import Preparation, RoundExchanger, timeout_s
from workloads.comm.rendezvous import await_rendezvous
from workloads.comm.stream import StreamExchanger
from workloads.device import open_device
from workloads.event_log import EventLog
from workloads.optimizers import Optimizer
from workloads.strategies import strategy_of
from workloads.unpaced import open_exchanger
from workloads.unpaced.addresses import meet


@dataclass(frozen=True)
class TorchPeers:
    """Implements workloads.comm.peers.Peers."""

    spec: Experiment
    rank: int
    """torch's: the place in the ring of a worker (--ring-order)."""
    group: dist.ProcessGroup | None
    """The workers, where there are other nodes too."""

    @property
    def workers(self) -> int:
        return self.spec.workers

    @property
    def order(self) -> list[int] | None:
        return None if self.spec.ring is None else list(self.spec.ring)

    def barrier(self) -> None:
        if self.spec.nodes > 1:
            dist.barrier()
            open_device(self.spec.device).synchronize()

    def all_reduce_sum(self, tensor: Tensor) -> None:
        if self.workers > 1:
            dist.all_reduce(tensor, group=self.group)

    def broadcast_from_first(self, tensor: Tensor) -> None:
        if self.workers > 1:
            dist.broadcast(tensor, 0, group=self.group)

    def prepare(self, model: nn.Module, flat: FlatModel, optimizer: Optimizer) -> Preparation:
        if self.spec.is_unpaced:
            return self._prepare_unpaced(model, flat, optimizer)
        spec, strategy = self.spec, strategy_of(self.spec)
        wraps = strategy.wrap is not None
        exchange = strategy.exchange if wraps else compressed(strategy.exchange, spec.compress)
        exchanger: RoundExchanger
        after_local_step = None
        if spec.stream != "none":
            exchanger = streaming = StreamExchanger(flat, spec, self, exchange, strategy.exchange)
            after_local_step = streaming.after_local_step
        else:
            exchange_buffer = None if wraps else strategy.exchange
            exchanger = Exchanger(flat, spec, self, exchange, exchange_buffer)
        return Preparation(
            strategy.wrap(model, spec) if strategy.wrap else model,
            exchanger,
            self._update_by_server(flat) if strategy.server_updates else optimizer.step,
            after_local_step=after_local_step,
            hides_exchange=wraps,
        )

    def _update_by_server(self, flat: FlatModel) -> Callable[[], None]:
        """It returns new parameters, or with a lossy codec their change."""
        is_lossy = parse_codec(self.spec.compress).lossy
        return flat.add_change_from_gradients if is_lossy else flat.take_parameters_from_gradients

    def _prepare_unpaced(
        self, model: nn.Module, flat: FlatModel, optimizer: Optimizer
    ) -> Preparation:
        addresses = meet(self.rank, timeout_s(self.spec, wire_bytes(flat, self.spec.compress)))
        exchanger = open_exchanger(self.spec, self.rank, flat, addresses)
        update = optimizer.step if self.spec.average == "parameters" else _updated_already
        return Preparation(model, exchanger, update, pace=exchanger)

    def measure_idle(self, log: EventLog) -> None:
        """No-op: Gloo and NCCL send nothing while idle."""

    def leave(self) -> None:
        if dist.is_initialized():
            dist.barrier()
            dist.destroy_process_group()


def _updated_already() -> None:
    """No-op: the server has sent new parameters."""


def join(spec: Experiment, rank: int, model_bytes: int) -> TorchPeers:
    """Connect to all nodes; node 0's address is in the environment, as torchrun sets it."""
    rank = rank if spec.ring is None else spec.ring.index(rank)  # node 0 is the first of both
    if spec.nodes == 1 and not is_own(spec.strategy):  # one's own code may call torch.distributed
        return TorchPeers(spec, rank, None)
    if interface := find_interface(os.environ["MASTER_ADDR"]):
        for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(name, interface)
    group_messages(spec.backend == "nccl")
    patience_s = timeout_s(spec, model_bytes)
    if rank:
        await_rendezvous(patience_s)  # torch would retry only after half a second
    dist.init_process_group(
        spec.backend,
        init_method="env://",
        rank=rank,
        world_size=spec.nodes,
        timeout=datetime.timedelta(seconds=patience_s),
        **open_device(spec.device).process_group_options(),
    )
    group = dist.new_group(range(spec.workers)) if spec.nodes > spec.workers else None
    return TorchPeers(spec, rank, group)


def find_interface(master: str) -> str | None:
    """The interface to the other nodes: eth0, as on every emulated node, else the route to node 0.

    Gloo by default takes the address of the host's own name, which is often a loopback address.
    """
    addresses = psutil.net_if_addrs()
    if "eth0" in addresses:
        return "eth0"
    try:
        family, _, _, _, address = socket.getaddrinfo(master, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as trial:
            trial.connect(address)  # UDP: sends nothing
            own = trial.getsockname()[0]
    except OSError:
        return None
    return next(
        (name for name, found in addresses.items() if any(a.address == own for a in found)), None
    )
