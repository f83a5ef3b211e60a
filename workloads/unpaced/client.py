"""A worker of async-server and quorum: it pushes to the server, and gets the model and new steps.

async-server pushes the mean gradient of its steps; quorum trains locally and pushes the change of
its parameters since it got them. The server's side is in serving.py, and its rules beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist

from cluster.spec.documents.events import Exchanges
from cluster.spec.documents.membership import Place
from cluster.spec.experiment import Experiment
from cluster.spec.schedules.unpaced import Kind
from workloads.comm.flat import FlatModel
from workloads.comm.pace import FreeBatches, Turn
from workloads.data.batches import Batch, Shard
from workloads.part import Part
from workloads.unpaced.addresses import Addresses
from workloads.unpaced.pace import Record


def open_exchanger(
    spec: Experiment, rank: int, flat: FlatModel, addresses: Addresses
) -> ServedExchanger:
    return ServedExchanger(spec, rank, flat, addresses)


class ServedExchanger:
    """Implements UnpacedExchanger."""

    def __init__(self, spec: Experiment, rank: int, flat: FlatModel, addresses: Addresses) -> None:
        self.spec, self.rank = spec, rank
        self.rounds = 0
        self._server = spec.workers
        self._connection = addresses.connect(self._server)
        self._addresses = addresses
        self._batches, self._record = FreeBatches(), Record()
        self._granted, self._trained = range(0), 0
        self._model = [part.parameters for part in flat.parts]
        self._model += flat.buffers if spec.buffers == "average" else []
        self._pushes_gradients = spec.average == "gradients"
        self._gradients = [part.gradients for part in flat.parts]
        self._base = [] if self._pushes_gradients else [t.clone() for t in self._model]

    def begin(self, part: Part) -> None:
        self._batches.begin(part)
        self._note_model()

    def batches(self, shard: Shard, epoch: int) -> Iterator[Batch]:
        return self._batches.of(shard, epoch)

    def turns(self, place: Place) -> Iterator[Turn]:
        """As many steps as the server grants at a time; the last of them ends a round."""
        _, count, first, _ = self._connection.ask(Kind.BEGIN, self.rank, place.epoch)
        self._record.controls[self._server] += 1
        self._granted = range(first, first + count)
        if not self._granted:
            self._connection.ask(Kind.PULL)
            self._connection.receive_body(self._model)
            self._note_model()
        while self._granted:
            for number in self._granted:
                at, is_last = (number - 1) // self.spec.workers, number == self._granted[-1]
                samples = self._batches.take(number, self.spec.batch_size)
                yield Turn(at, samples, is_last, number)

    def begin_round(self, index: int, steps: int) -> None:
        self._trained = steps

    def finish_round(self) -> None:
        """Returns with the server's model and the next steps."""
        if self._pushes_gradients:
            outgoing = self._gradients
            for gradients in outgoing:
                gradients.div_(self._trained)
        else:
            outgoing = self._base
            for base, tensor in zip(outgoing, self._model, strict=True):
                torch.sub(tensor, base, out=base)
        self._connection.send(Kind.PUSH, self._trained, body=outgoing)
        _, count, first, staleness = self._connection.receive_header()
        self._connection.receive_body(self._model)
        self._granted = range(first, first + count)
        self._record.steps += self._trained
        self._record.exchanges[self._server] += 1
        self._record.note_round(staleness)
        for gradients in self._gradients if self._pushes_gradients else ():
            gradients.zero_()
        self._note_model()

    def _note_model(self) -> None:
        """What the server's model is, where changes of it are pushed."""
        for base, tensor in zip(self._base, self._model, strict=False):
            base.copy_(tensor)

    def settle(self, epoch: int) -> Exchanges:
        found, self._record = self._record, Record()
        self.rounds += found.rounds
        return found.event(epoch)

    def close(self) -> None:
        dist.barrier()
        self._connection.close()
        self._addresses.listener.close()
