"""One worker's exchanges: the model piece by piece, after backward or, with --overlap, during it."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from cluster.spec.experiment import Experiment
from workloads.comm.buckets import MIB, Bucket, bucket_count, cut
from workloads.comm.codecs import wire_bytes
from workloads.comm.flat import FlatModel
from workloads.comm.rendezvous import Peers
from workloads.device.timing import Mark, open_device
from workloads.strategies import Exchange, Round


def make_buckets(flat: FlatModel, spec: Experiment) -> list[Bucket]:
    """The pieces that all nodes of a run agree on."""
    size = None if spec.bucket_mb is None else round(spec.bucket_mb * MIB)
    if spec.overlap and size is None:
        sent = wire_bytes(flat, spec.compress)
        size = -(-wire_bytes(flat, "none") // bucket_count(sent, spec.workers, spec.slowest_mbit))
    offsets = [part.offsets for part in flat.parts]
    return cut(offsets, [part.parameters.element_size() for part in flat.parts], size)


class Exchanger:
    """See workloads.meeting.Exchanging.

    With --overlap a piece leaves as soon as backward has computed all of its gradients, by a thread
    of its own, while backward goes on. Pieces leave in the same order on every worker, whatever the
    order in which gradients appear: else two workers would wait for each other.
    """

    def __init__(
        self,
        flat: FlatModel,
        spec: Experiment,
        peers: Peers,
        exchange: Exchange,
        exchange_buffer: Exchange | None,
    ) -> None:
        """`exchange_buffer` is for buffers that are averaged; None where they are none of ours."""
        self.flat, self.spec, self.peers = flat, spec, peers
        self._device = open_device(spec.device)
        self._exchange, self._exchange_buffer = exchange, exchange_buffer
        self._buckets = make_buckets(flat, spec)
        tensors = [
            part.gradients if spec.average == "gradients" else part.parameters
            for part in flat.parts
        ]
        self._pieces = [tensors[b.part][b.start : b.end] for b in self._buckets]
        self._round: Round | None = None
        self._steps = 1
        self._missing: list[int] = []
        self._leaving: list[Future[None]] = []
        if spec.overlap:
            self._thread = ThreadPoolExecutor(1, "exchange")
            self._watch_gradients()

    def begin(self, index: int, steps: int) -> None:
        """Round `index` will exchange what `steps` backward passes have added up."""
        self._round, self._steps = Round(self.spec, self.peers.rank, index), steps
        self._missing = [len(bucket.tensors) for bucket in self._buckets]
        self._leaving = []

    def complete(self) -> None:
        """Exchange what has not left yet, wait for all, and look after the buffers."""
        round, self._round = self._round, None
        assert round is not None
        if self.spec.overlap:
            self._missing = [0] * len(self._buckets)  # some may have got no gradient
            self._send_ready(round)
            for piece in self._leaving:
                piece.result()
            self._device.rejoin()
        else:
            for index in range(len(self._pieces)):
                self._send(index, round)
        if self._exchange_buffer is not None:
            exchange_buffers(self.flat, round, self.peers, self._exchange_buffer)

    def _watch_gradients(self) -> None:
        for index, bucket in enumerate(self._buckets):
            for at in bucket.tensors:
                tensor = self.flat.parts[bucket.part].tensors[at]
                tensor.register_post_accumulate_grad_hook(
                    lambda _, index=index: self._has_gradient(index)
                )

    def _has_gradient(self, index: int) -> None:
        if self._round is not None:
            self._missing[index] -= 1
            self._send_ready(self._round)

    def _send_ready(self, round: Round) -> None:
        while len(self._leaving) < len(self._buckets) and not self._missing[len(self._leaving)]:
            ready = self._device.ready()
            self._leaving.append(
                self._thread.submit(self._send_aside, len(self._leaving), round, ready)
            )

    def _send_aside(self, index: int, round: Round, ready: Mark) -> None:
        with self._device.aside(ready):
            self._send(index, round)

    def _send(self, index: int, round: Round) -> None:
        piece = self._pieces[index]
        if self._steps > 1 and self.spec.average == "gradients":
            piece.div_(self._steps)
        self._exchange(piece, round)


def exchange_buffers(flat: FlatModel, round: Round, peers: Peers, exchange: Exchange) -> None:
    """As --buffers says, in full precision."""
    spec = round.experiment
    if spec.nodes == 1 or spec.buffers == "local":
        return
    for buffer in flat.buffers:
        if spec.buffers == "broadcast":
            peers.take_first(buffer)
        else:
            exchange(buffer, of_means(round))


def of_means(round: Round) -> Round:
    """The same round for statistics, which are averaged also where gradients are added up."""
    if round.experiment.reduce == "mean":
        return round
    return replace(round, experiment=replace(round.experiment, reduce="mean"))
