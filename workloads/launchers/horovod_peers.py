"""Peers through Horovod, on Gloo or, built for GPUs, on NCCL; without ssh and mpirun.

Worker 0 runs the rendezvous, an HTTP server that lives as long as the run. horovod.spark.run
provides its own, with its variables in the environment and its own ranks; our rank is the node's
number, so a table maps one to the other.

Horovod negotiates tensor readiness every millisecond, even when idle. This control traffic is not
training traffic: measure_idle() samples it, and analysis/summary/control_traffic.py books it apart.
"""

import os
import socket
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import horovod.torch as hvd
import torch
from horovod.runner.http.http_server import RendezvousHTTPServer
from torch import Tensor, nn

from cluster.spec.documents.events import Idle
from cluster.spec.documents.run_folder import node_name
from cluster.spec.experiment import Experiment
from cluster.spec.schedules.pairwise import groups
from workloads.comm.buckets import MIB
from workloads.comm.exchanger import Exchanger
from workloads.comm.flat import FlatModel
from workloads.comm.half import compressed
from workloads.comm.peers import Preparation
from workloads.comm.rendezvous import await_rendezvous
from workloads.device import open_device
from workloads.event_log import EventLog
from workloads.launchers.horovod_exchange import EXCHANGES, tensor_name
from workloads.launchers.horovod_optimizer import OptimizerExchanger
from workloads.launchers.horovod_rendezvous import open_rendezvous
from workloads.optimizers import Optimizer

TIMEOUT_S = 120
CYCLE_MS = 1.0
"""Horovod's default: how often workers negotiate which tensors are ready."""
IDLE_S = 0.5


@dataclass
class HorovodPeers:
    """Implements workloads.comm.peers.Peers."""

    spec: Experiment
    rank: int
    server: RendezvousHTTPServer | None = None
    horovod_ranks: list[int] = field(default_factory=list)
    """Our rank -> Horovod's rank."""
    process_sets: dict[tuple[int, ...], Any] = field(default_factory=dict)
    """Ranks of a group -> its Horovod process set."""

    @property
    def workers(self) -> int:
        return self.spec.workers

    @property
    def order(self) -> list[int]:
        return [self.horovod_ranks.index(rank) for rank in range(len(self.horovod_ranks))]

    def learn_ranks(self) -> None:
        """Map our ranks to Horovod's, and create the process sets of all groups of the run."""
        own = torch.tensor([self.rank])
        ours = hvd.allgather(own, name="introduction").tolist()
        self.horovod_ranks = [ours.index(rank) for rank in range(self.workers)]
        for members in _groups_of(self.spec):
            horovod_members = [self.horovod_ranks[rank] for rank in members]
            self.process_sets[members] = hvd.add_process_set(horovod_members)

    def barrier(self) -> None:
        if self.workers > 1:
            hvd.barrier()
            open_device(self.spec.device).synchronize()

    def all_reduce_sum(self, tensor: Tensor) -> None:
        if self.workers > 1:
            hvd.allreduce_(tensor, name=tensor_name("sum", tensor), op=hvd.Sum)

    def broadcast_from_first(self, tensor: Tensor) -> None:
        if self.workers > 1:
            hvd.broadcast_(tensor, self.horovod_ranks[0], name=tensor_name("first", tensor))

    def prepare(self, model: nn.Module, flat: FlatModel, optimizer: Optimizer) -> Preparation:
        spec = self.spec
        plain = partial(EXCHANGES[spec.strategy], self)
        if spec.strategy == "allreduce" and spec.average == "gradients" and self.workers > 1:
            exchanger = OptimizerExchanger(model, flat, optimizer, spec, self, plain)
            return Preparation(model, exchanger, exchanger.update)
        exchange = compressed(plain, spec.compress)
        return Preparation(model, Exchanger(flat, spec, self, exchange, plain), optimizer.step)

    def measure_idle(self, log: EventLog) -> None:
        """Exchange nothing for a while: bytes counted meanwhile are control traffic."""
        if self.workers > 1:
            log.boundary(Idle, began=True)
            time.sleep(IDLE_S)
            log.boundary(Idle, began=False)
            self.barrier()

    def leave(self) -> None:
        if self.workers > 1:
            self.barrier()
            hvd.shutdown()
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()


def join(spec: Experiment, rank: int, model_bytes: int) -> HorovodPeers:
    if spec.nodes == 1:
        return HorovodPeers(spec, rank)
    os.environ.setdefault("HOROVOD_GLOO_IFACE", "eth0")
    timeout_s = round(TIMEOUT_S * spec.local_steps * spec.slowdown)
    os.environ.setdefault("HOROVOD_GLOO_TIMEOUT_SECONDS", str(timeout_s))
    os.environ.setdefault("HOROVOD_CYCLE_TIME", f"{CYCLE_MS * spec.slowdown:g}")
    os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
    if spec.bucket_mb is not None:
        os.environ["HOROVOD_FUSION_THRESHOLD"] = str(round(spec.bucket_mb * MIB))
    server = None
    if "HOROVOD_GLOO_RENDEZVOUS_PORT" not in os.environ:
        port = int(os.environ["MASTER_PORT"])
        server = open_rendezvous(port, [1] * spec.workers) if rank == 0 else None
        _join_rendezvous(spec.workers, rank)
    hvd.init()
    peers = HorovodPeers(spec, rank, server)
    peers.learn_ranks()
    return peers


def _join_rendezvous(workers: int, rank: int) -> None:
    """Wait for the rendezvous (Horovod gives up after a second), and set Horovod's variables."""
    await_rendezvous(TIMEOUT_S)
    host, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    os.environ.update(
        HOROVOD_RANK=str(rank),
        HOROVOD_SIZE=str(workers),
        HOROVOD_LOCAL_RANK="0",
        HOROVOD_LOCAL_SIZE="1",
        HOROVOD_CROSS_RANK=str(rank),
        HOROVOD_CROSS_SIZE=str(workers),
        HOROVOD_HOSTNAME=node_name(rank),
        HOROVOD_GLOO_RENDEZVOUS_ADDR=socket.gethostbyname(host),  # Horovod supports IPv4 only
        HOROVOD_GLOO_RENDEZVOUS_PORT=port,
        HOROVOD_CONTROLLER="gloo",
        HOROVOD_CPU_OPERATIONS="gloo",
    )


def _groups_of(spec: Experiment) -> list[tuple[int, ...]]:
    """All groups of the run between 2 and N-1 members, in the same order on every worker."""
    if spec.passes is None or spec.schedule is None:
        return []
    scheduled = {
        tuple(sorted(members))
        for index in range(spec.rounds)
        for members in groups(index, spec.workers, spec.passes, spec.schedule, spec.seed)
    }
    return sorted(members for members in scheduled if 1 < len(members) < spec.workers)
