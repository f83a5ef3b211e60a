"""The others through Horovod, on Gloo, or on NCCL where it was built for GPUs: no ssh and no mpirun.

Worker 0 keeps the meeting point, an HTTP server that lives as long as the run. Where somebody else has
done so before (horovod.spark.run), its variables are in the environment, and theirs are the ranks: ours are the
nodes' numbers, so a table translates.

Horovod's workers ask each other every millisecond what is ready, also when nothing is. That talk is no
training traffic: rest() measures one message of it, and analysis/summary/control_traffic.py books it apart.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import horovod.torch as hvd
import torch
from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer
from torch import Tensor, nn

from cluster.spec.experiment import Experiment
from cluster.spec.run_folder import node_name
from cluster.spec.schedules import groups
from workloads.comm.buckets import MIB
from workloads.comm.codecs import compressed
from workloads.comm.exchanger import Exchanger
from workloads.comm.flat import FlatModel
from workloads.comm.rendezvous import Preparation, await_rendezvous
from workloads.device.timing import open_device
from workloads.event_log import EventLog
from workloads.launchers import horovod_exchange
from workloads.launchers.horovod_optimizer import OptimizerExchanger
from workloads.optimizers import Optimizer

PATIENCE_S = 120
REST_S = 0.5
POLL_S = 0.02
"""How often the meeting point looks whether it shall close: as long as a run may wait for that."""


def join(spec: Experiment, rank: int, model_bytes: int) -> HorovodPeers:
    if spec.nodes == 1:
        return HorovodPeers(spec, rank)
    os.environ.setdefault("HOROVOD_GLOO_IFACE", "eth0")
    os.environ.setdefault("HOROVOD_GLOO_TIMEOUT_SECONDS", str(PATIENCE_S * spec.local_steps))
    os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
    if spec.bucket_mb is not None:
        os.environ["HOROVOD_FUSION_THRESHOLD"] = str(round(spec.bucket_mb * MIB))
    server = None
    if "HOROVOD_GLOO_RENDEZVOUS_PORT" not in os.environ:
        server = _open_rendezvous(spec.workers) if rank == 0 else None
        _go_to_rendezvous(spec.workers, rank)
    hvd.init()
    peers = HorovodPeers(spec, rank, server)
    peers.introduce()
    return peers


def _open_rendezvous(workers: int) -> RendezvousHTTPServer:
    address = ("", int(os.environ["MASTER_PORT"]))
    server = RendezvousHTTPServer(address, RendezvousHandler, 0)
    hosts = ",".join(f"{node_name(rank)}:1" for rank in range(workers))
    server.init(get_host_assignments(parse_hosts(hosts), workers))
    threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True).start()
    return server


def _go_to_rendezvous(workers: int, rank: int) -> None:
    """Wait until it is open, since Horovod itself gives up after a second; and say who we are."""
    await_rendezvous(PATIENCE_S)
    host, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    os.environ.update(
        HOROVOD_RANK=str(rank),
        HOROVOD_SIZE=str(workers),
        HOROVOD_LOCAL_RANK="0",
        HOROVOD_LOCAL_SIZE="1",
        HOROVOD_CROSS_RANK=str(rank),
        HOROVOD_CROSS_SIZE=str(workers),
        HOROVOD_HOSTNAME=node_name(rank),
        HOROVOD_GLOO_RENDEZVOUS_ADDR=socket.gethostbyname(host),  # it knows IPv4 only
        HOROVOD_GLOO_RENDEZVOUS_PORT=port,
        HOROVOD_CONTROLLER="gloo",
        HOROVOD_CPU_OPERATIONS="gloo",
    )


@dataclass
class HorovodPeers:
    """See workloads.meeting.Peers."""

    spec: Experiment
    rank: int
    server: RendezvousHTTPServer | None = None
    at: list[int] = field(default_factory=list)
    """Our rank -> Horovod's."""
    sets: dict[tuple[int, ...], Any] = field(default_factory=dict)
    """Groups that average by themselves -> their process set."""

    @property
    def workers(self) -> int:
        return self.spec.workers

    @property
    def order(self) -> list[int]:
        return [self.at.index(place) for place in range(len(self.at))]

    def introduce(self) -> None:
        """Learn who has which of Horovod's ranks, and found the groups that will meet."""
        own = torch.tensor([self.rank])
        everybody = hvd.allgather(own, name="introduction").tolist()
        self.at = [everybody.index(rank) for rank in range(self.workers)]
        for members in _groups_of(self.spec):
            self.sets[members] = hvd.add_process_set([self.at[rank] for rank in members])

    def barrier(self) -> None:
        if self.workers > 1:
            hvd.barrier()
            open_device(self.spec.device).settle()

    def all_reduce_sum(self, tensor: Tensor) -> None:
        if self.workers > 1:
            hvd.allreduce_(tensor, name=horovod_exchange.name("sum", tensor), op=hvd.Sum)

    def take_first(self, tensor: Tensor) -> None:
        if self.workers > 1:
            hvd.broadcast_(tensor, self.at[0], name=horovod_exchange.name("first", tensor))

    def prepare(self, model: nn.Module, flat: FlatModel, optimizer: Optimizer) -> Preparation:
        spec = self.spec
        plain = partial(horovod_exchange.EXCHANGES[spec.strategy], self)
        if spec.strategy == "allreduce" and spec.average == "gradients" and self.workers > 1:
            exchanger = OptimizerExchanger(model, flat, optimizer, spec, self, plain)
            return Preparation(model, exchanger, exchanger.update)
        exchange = compressed(plain, spec.compress)
        return Preparation(model, Exchanger(flat, spec, self, exchange, plain), optimizer.step)

    def rest(self, log: EventLog) -> None:
        """Exchange nothing for a while; what is counted meanwhile is talk."""
        if self.workers > 1:
            log.border("rest", began=True)
            time.sleep(REST_S)
            log.border("rest", began=False)
            self.barrier()

    def leave(self) -> None:
        if self.workers > 1:
            self.barrier()
            hvd.shutdown()
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()


def _groups_of(spec: Experiment) -> list[tuple[int, ...]]:
    """All that meet in this run, but the ones of everybody or nobody else; the same list everywhere."""
    if spec.passes is None or spec.schedule is None:
        return []
    meeting = {
        tuple(sorted(members))
        for index in range(spec.rounds)
        for members in groups(index, spec.workers, spec.passes, spec.schedule, spec.seed)
    }
    return sorted(members for members in meeting if 1 < len(members) < spec.workers)
