"""The parameter server's run: the phases of workloads/training.py, and a reply in every round."""

import functools
from pathlib import Path

import torch
from torch import Tensor, nn

from cluster.spec.documents.events import End, Hello, Phase
from cluster.spec.experiment import Experiment
from cluster.spec.learning_rate import learning_rate
from workloads.comm.exchanger import averaging_round, make_buckets
from workloads.comm.flat import FlatModel
from workloads.comm.half import compressed, wire_bytes
from workloads.comm.peers import enter_phase
from workloads.comm.round import Round
from workloads.counters.interfaces import full_segment_bytes, network_id
from workloads.device import open_device
from workloads.event_log import EventLog
from workloads.launchers import join
from workloads.models.networks import model_of
from workloads.optimizers import make_optimizer
from workloads.strategies.parameter_server import serve


def run_server(spec: Experiment, rank: int, data_root: Path, log: EventLog) -> None:
    """Start from the same weights as the workers, and reply in each of their rounds."""
    log.boundary(Phase, phase="setup")
    torch.set_num_threads(1)
    device = open_device(spec.device).torch_device
    model = model_of(spec, data_root)
    server = Server(spec, model.to(device))
    log.write(
        Hello(
            node=log.node,
            rank=rank,
            role="server",
            workers=spec.workers,
            network=network_id(),
            segment_bytes=full_segment_bytes(),
        )
    )
    peers = join(spec, rank, wire_bytes(server.flat, spec.compress))
    index = 0
    for epoch in range(1, spec.epochs + 1):
        enter_phase(log, "train", epoch, peers)
        for index_in_epoch in range(spec.rounds_per_epoch):
            done = min((index_in_epoch + 1) * spec.local_steps, spec.steps_per_epoch)
            step = (epoch - 1) * spec.steps_per_epoch + done - 1
            server.optimizer.lr = learning_rate(spec, step)
            server.reply(Round(spec, rank, index))
            index += 1
        enter_phase(log, "evaluate", epoch, peers)
    enter_phase(log, "finish", None, peers)
    peers.leave()
    log.boundary(End)


class Server:
    """The model, its optimizer, and the buckets in which gradients arrive."""

    def __init__(self, spec: Experiment, model: nn.Module) -> None:
        self.spec = spec
        self.flat = FlatModel(model)
        self.optimizer = make_optimizer(spec, self.flat)
        self.buckets = make_buckets(self.flat, spec)

    def reply(self, round: Round) -> None:
        self.optimizer.begin()
        for bucket in self.buckets:
            update = None
            if self.spec.average == "gradients":
                update = functools.partial(self._update, bucket.part, bucket.start)
            exchange = compressed(functools.partial(serve, update=update), self.spec.compress)
            exchange(self.flat.parts[bucket.part].gradients[bucket.start : bucket.end], round)
        if self.spec.buffers == "average":
            for buffer in self.flat.buffers:
                serve(buffer, averaging_round(round), None)

    def _update(self, part: int, start: int, where: slice, gradients: Tensor) -> Tensor:
        in_part = slice(start + where.start, start + where.stop)
        return self.optimizer.update(part, in_part, gradients)
