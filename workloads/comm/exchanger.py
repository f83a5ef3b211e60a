"""A worker's exchanges, bucket by bucket: after backward, or during it with --overlap."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import torch
from torch import Tensor

from cluster.spec.exchange.codecs import Codec, factored_bytes, parse_codec
from cluster.spec.exchange.stream import parse_stream
from cluster.spec.experiment import Experiment
from workloads.comm.buckets import MIB, Bucket, bucket_count, split_into_buckets
from workloads.comm.flat import FlatModel
from workloads.comm.half import wire_bytes
from workloads.comm.outer import stateful_exchange
from workloads.comm.peers import Peers
from workloads.comm.round import Exchange, Round, tensors_of
from workloads.device import Mark, open_device


def make_buckets(flat: FlatModel, spec: Experiment) -> list[Bucket]:
    """The buckets of a run, the same on all nodes."""
    size_bytes = None if spec.bucket_mb is None else round(spec.bucket_mb * MIB)
    if spec.overlap and size_bytes is None:
        count = bucket_count(wire_bytes(flat, spec.compress), spec.workers, spec.slowest_mbit)
        size_bytes = -(-wire_bytes(flat, "none") // count)
    offsets = [part.offsets for part in flat.parts]
    item_bytes = [part.parameters.element_size() for part in flat.parts]
    return split_into_buckets(offsets, item_bytes, size_bytes)


def bucket_bytes(flat: FlatModel, spec: Experiment) -> list[int]:
    """Of the buckets of a run as they are sent, or of its fragments, of which a round sends one.

    torch's DistributedDataParallel makes its own.
    """
    codec = parse_codec(spec.compress)
    if stream := parse_stream(spec.stream):
        fragments = flat.fragments(stream.fragments)
        return [sum(_sent_bytes(codec, piece) for piece in pieces) for pieces in fragments]
    buckets = ddp_buckets(flat, spec) if spec.strategy == "ddp" else make_buckets(flat, spec)
    if codec.rank:
        return [size for b in buckets for size in factored_bytes(_shapes(flat, b), codec.rank)]
    parts = [part.parameters for part in flat.parts]
    return [_sent_bytes(codec, parts[b.part][b.start : b.end]) for b in buckets]


def _sent_bytes(codec: Codec, tensor: Tensor) -> int:
    return tensor.nbytes if codec.name == "none" else codec.encoded_bytes(tensor.numel())


def _shapes(flat: FlatModel, bucket: Bucket) -> list[torch.Size]:
    return flat.parts[bucket.part].shapes[bucket.tensors.start : bucket.tensors.stop]


def ddp_buckets(flat: FlatModel, spec: Experiment) -> list[Bucket]:
    """As DistributedDataParallel makes them after its first step (torch 2.13)."""
    given = spec.bucket_mb
    limits = (MIB, 25 * MIB) if given is None else (round(given * MIB),)
    offsets = [part.offsets for part in flat.parts]
    item_bytes = [part.parameters.element_size() for part in flat.parts]
    return split_into_buckets(offsets, item_bytes, *limits)


class Exchanger:
    """Implements peers.RoundExchanger by a strategy's exchange function.

    With --overlap a separate thread exchanges each bucket as soon as backward has computed all of
    its gradients. Buckets are exchanged in the same order on every worker, whatever the order in
    which gradients appear; otherwise two workers could wait for each other.
    """

    def __init__(
        self,
        flat: FlatModel,
        spec: Experiment,
        peers: Peers,
        exchange: Exchange,
        exchange_buffer: Exchange | None,
    ) -> None:
        """`exchange_buffer` averages buffers; None where the wrapped model looks after them."""
        self.flat, self.spec, self.peers = flat, spec, peers
        self._device = open_device(spec.device)
        self._exchange_buffer = exchange_buffer
        self._buckets = make_buckets(flat, spec)
        tensors = [
            part.gradients if spec.average == "gradients" else part.parameters
            for part in flat.parts
        ]
        self._slices = [tensors[b.part][b.start : b.end] for b in self._buckets]
        self._exchanges = [exchange] * len(self._slices)
        if exchange_buffer is not None:  # a wrapped model has exchanged already
            self._exchanges = [
                stateful_exchange(exchange, spec, part, _shapes(flat, bucket))
                for part, bucket in zip(self._slices, self._buckets, strict=True)
            ]
        self._round: Round | None = None
        self._steps = 1
        self._missing_gradients: list[int] = []
        self._started: list[Future[None]] = []
        if spec.overlap:
            self._thread = ThreadPoolExecutor(1, "exchange")
            self._register_hooks()

    def tensors(self) -> dict[str, Tensor]:
        """What exchanges remember from round to round, by bucket."""
        found = enumerate(map(tensors_of, self._exchanges))
        return {f"{at}.{name}": tensor for at, of in found for name, tensor in of.items()}

    def begin_round(self, index: int, steps: int) -> None:
        """The next backward pass is the last of `steps` whose gradients round `index` exchanges."""
        self._round, self._steps = Round(self.spec, self.peers.rank, index), steps
        self._missing_gradients = [len(bucket.tensors) for bucket in self._buckets]
        self._started = []

    def finish_round(self) -> None:
        """Exchange the remaining buckets, wait for all of them, and exchange buffers."""
        round, self._round = self._round, None
        assert round is not None
        if self.spec.overlap:
            # Some parameters may have received no gradient.
            self._missing_gradients = [0] * len(self._buckets)
            self._start_complete_buckets(round)
            for bucket in self._started:
                bucket.result()
            self._device.join_side_stream()
        else:
            for index in range(len(self._slices)):
                self._exchange_bucket(index, round)
        if self._exchange_buffer is not None:
            exchange_buffers(self.flat, round, self.peers, self._exchange_buffer)

    def _register_hooks(self) -> None:
        for index, bucket in enumerate(self._buckets):
            for at in bucket.tensors:
                tensor = self.flat.parts[bucket.part].tensors[at]
                tensor.register_post_accumulate_grad_hook(
                    lambda _, index=index: self._gradient_computed(index)
                )

    def _gradient_computed(self, index: int) -> None:
        if self._round is not None:
            self._missing_gradients[index] -= 1
            self._start_complete_buckets(self._round)

    def _start_complete_buckets(self, round: Round) -> None:
        while (
            len(self._started) < len(self._buckets)
            and not self._missing_gradients[len(self._started)]
        ):
            computed = self._device.record_computed()
            index = len(self._started)
            self._started.append(self._thread.submit(self._in_side_stream, index, round, computed))

    def _in_side_stream(self, index: int, round: Round, computed: Mark) -> None:
        with self._device.side_stream(computed):
            self._exchange_bucket(index, round)

    def _exchange_bucket(self, index: int, round: Round) -> None:
        tensor = self._slices[index]
        if self._steps > 1 and self.spec.average == "gradients":
            tensor.div_(self._steps)
        self._exchanges[index](tensor, replace(round, part=index))


def exchange_buffers(flat: FlatModel, round: Round, peers: Peers, exchange: Exchange) -> None:
    """Broadcast or average buffers (--buffers), in full precision."""
    spec = round.experiment
    if spec.nodes == 1 or spec.buffers == "local":
        return
    for place, buffer in enumerate(flat.buffers, start=1):
        if spec.buffers == "broadcast":
            peers.broadcast_from_first(buffer)
        else:
            exchange(buffer, replace(averaging_round(round), part=-place))


def averaging_round(round: Round) -> Round:
    """The same round with a mean: buffers are averaged even where gradients are summed."""
    if round.experiment.reduce == "mean":
        return round
    return replace(round, experiment=replace(round.experiment, reduce="mean"))
