"""The parameter server's run: the phases of workloads/training.py, and a reply in every round."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from cluster.spec.documents.events import End, Hello, Phase
from cluster.spec.documents.node_files import NodeFiles
from cluster.spec.exchange.codecs import parse_codec
from cluster.spec.experiment import Experiment
from cluster.spec.learning_rate import learning_rate
from workloads.comm.encoded_server import PulledChanges
from workloads.comm.exchanger import averaging_round, make_buckets
from workloads.comm.flat import FlatModel
from workloads.comm.half import compressed, wire_bytes
from workloads.comm.peers import Peers, enter_phase, timeout_s
from workloads.comm.round import Round
from workloads.counters.interfaces import full_segment_bytes, network_id
from workloads.device import open_device
from workloads.event_log import EventLog
from workloads.launchers import join
from workloads.models.networks import model_of
from workloads.optimizers import make_optimizer
from workloads.part import Deck, Part
from workloads.state import load, save, state_of
from workloads.steady import compute_steadily
from workloads.strategies.parameter_server import serve
from workloads.unpaced.addresses import Addresses, meet
from workloads.unpaced.merging import Merging
from workloads.unpaced.serving import Service
from workloads.unpaced.updating import Updating


def set_up(
    spec: Experiment, rank: int, data_root: Path, log: EventLog, files: NodeFiles | None = None
) -> "Server":
    """Make the same model as the workers, and say hello."""
    log.boundary(Phase, phase="setup")
    compute_steadily()
    device = open_device(spec.device).torch_device
    model = model_of(spec, data_root)
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
    return Server(spec, rank, log, model.to(device), files)


class Server:
    """The model, its optimizer, and the buckets in which gradients arrive.

    Implements part.Participant. It reads no samples, but knows how many batches workers have.
    """

    def __init__(
        self,
        spec: Experiment,
        rank: int,
        log: EventLog,
        model: nn.Module,
        files: NodeFiles | None = None,
    ) -> None:
        self.spec, self.rank, self.log, self.files, self.model = spec, rank, log, files, model
        self.flat = FlatModel(model)
        self.optimizer = make_optimizer(spec, self.flat)
        self.buckets = make_buckets(self.flat, spec)
        self.encoded: PulledChanges | None = None
        if parse_codec(spec.compress).lossy:  # which takes a part in one piece
            parameters = [part.parameters for part in self.flat.parts]
            self.encoded = PulledChanges(spec.compress, parameters)

    @property
    def _model_bytes(self) -> int:
        return wire_bytes(self.flat, self.spec.compress)

    def rows(self, epoch: int) -> Sequence[Tensor]:
        """Of a worker, in their number only."""
        return [torch.empty(0)] * self.spec.steps_per_epoch

    def deck(self, epoch: int) -> Deck:
        """In its size only."""
        own = self.spec.steps_per_epoch * self.spec.batch_size
        samples = torch.arange(own * self.spec.workers)
        return samples, None if self.spec.partition == "iid" else samples // own

    def take_part(self, part: Part) -> None:
        spec = part.spec
        peers = join(spec, part.rank, self._model_bytes)
        patience_s = timeout_s(spec, self._model_bytes)
        addresses = meet(part.rank, patience_s) if spec.is_unpaced else None
        state = state_of(self.model, self.flat, self.optimizer, self.encoded)
        if spec.continues is not None and self.files is not None:
            load(self.files.state, state)
        part.begin(peers, state)
        if addresses is not None:
            self._serve_unpaced(part, peers, addresses)
        else:
            self._serve_in_step(part, peers)
        if spec.save_state and self.files is not None:
            save(self.files.state, state)
        peers.leave()
        self.log.boundary(End)

    def _serve_unpaced(self, part: Part, peers: Peers, addresses: Addresses) -> None:
        """Each worker in its own time, until the samples of an epoch are used up."""
        spec, log, place = part.spec, self.log, part.start

        def commit(numbers: Sequence[int]) -> None:
            nonlocal place
            place = replace(place, done=place.done + len(numbers))
            part.commit(place, numbers)

        service = self.open_service(addresses, spec, commit)
        for epoch in range(place.epoch, spec.epochs + 1):
            dealt = part.numbered(epoch)
            place = replace(place, epoch=epoch, done=0)
            enter_phase(log, "train", epoch, peers)
            service.run_epoch(epoch, None if dealt is None else dealt.numbers)
            enter_phase(log, "evaluate", epoch, peers)
        enter_phase(log, "finish", None, peers)
        service.close()

    def _serve_in_step(self, part: Part, peers: Peers) -> None:
        """Reply in each of the workers' rounds."""
        spec, log, place = part.spec, self.log, part.start
        for epoch in range(place.epoch, spec.epochs + 1):
            batches = len(part.rows(epoch))
            place = replace(place, epoch=epoch, done=0)
            enter_phase(log, "train", epoch, peers)
            while place.done < batches:
                steps = min(spec.local_steps - place.pending, batches - place.done)
                self.optimizer.lr = learning_rate(spec, spec.steps_before + place.step + steps - 1)
                self.reply(Round(spec, part.rank, spec.rounds_before + place.round))
                place = replace(
                    place,
                    done=place.done + steps,
                    step=place.step + steps,
                    round=place.round + 1,
                    pending=0,
                )
                part.commit(place)
            enter_phase(log, "evaluate", epoch, peers)
        enter_phase(log, "finish", None, peers)

    def reply(self, round: Round) -> None:
        self.optimizer.begin()
        for bucket in self.buckets:
            if self.encoded is not None:
                update_part = functools.partial(self._update, bucket.part, bucket.start)
                self.encoded.serve(bucket.part, round, update_part)
                continue
            update = None
            if self.spec.average == "gradients":
                update = functools.partial(self._update, bucket.part, bucket.start)
            exchange = compressed(functools.partial(serve, update=update), self.spec.compress)
            exchange(self.flat.parts[bucket.part].gradients[bucket.start : bucket.end], round)
        if self.spec.buffers == "average":
            for buffer in self.flat.buffers:
                serve(buffer, averaging_round(round), None)

    def open_service(
        self,
        addresses: Addresses,
        spec: Experiment,
        note_merged: Callable[[Sequence[int]], None] = lambda numbers: None,
    ) -> Service:
        """Of a strategy without a barrier, for the workers that there are."""
        model = [part.parameters for part in self.flat.parts]
        if spec.buffers == "average":
            model += self.flat.buffers
        if spec.quorum is not None:
            assert spec.grace is not None
            merging = Merging(model, spec.quorum, spec.grace)
            return Service(spec, addresses, model, merging, note_merged)
        update = functools.partial(self._update_whole, spec)
        rule = Updating(spec.workers, spec.staleness, update)
        return Service(spec, addresses, model, rule, note_merged)

    def _update_whole(self, spec: Experiment, gradients: list[Tensor], steps: int) -> None:
        """`steps` of all workers are in the model then.

        N gradients move the model as far as an update by their mean.
        """
        self.optimizer.lr = learning_rate(spec, (steps - 1) // spec.workers)
        self.optimizer.begin()
        for part, of_part in enumerate(gradients):
            self.optimizer.update(part, slice(None), of_part.div_(spec.workers))

    def _update(self, part: int, start: int, where: slice, gradients: Tensor) -> Tensor:
        in_part = slice(start + where.start, start + where.stop)
        return self.optimizer.update(part, in_part, gradients)
