"""The exchange of tensors that are encoded by a lossy codec, with error feedback.

Most encoded tensors cannot be added up, so a ring all-reduce cannot carry them. In two phases
everyone sends piece j to worker j, which decodes and averages, encodes the mean and sends it to
everyone: 2(N-1)/N M bytes. Two workers send each other everything, M, and encode once; allgather
does so with any number. In gather-scatter the root averages, encodes and sends back. What can be
added up (randk) goes by the strategy's own exchange.

Error feedback (Seide et al. 2014, Karimireddy et al. 2019): what encoding lost is added to the next
tensor, in both phases:

    x = input + DECAY residual,   sent = decode(encode(x)),   residual = x - sent

All workers, also the owner of a piece, use the decoded mean, so all end with identical bits.
"""

import torch
from torch import Tensor

from cluster.spec.exchange.codecs import parse_codec, takes_two_phases
from cluster.spec.experiment import Experiment
from workloads.comm.codecs import open_codec, randk
from workloads.comm.codecs.packing import require_finite
from workloads.comm.messages import sendrecv
from workloads.comm.ring import gather_round_the_ring
from workloads.comm.round import Exchange, Round


class Feedback:
    """Encodes a tensor in every round; `residual` is the memory of what that lost."""

    def __init__(self, codec: str, decay: float, residual: Tensor) -> None:
        self._codec, self._decay = open_codec(codec), decay
        self.residual = residual

    def encode(self, tensor: Tensor) -> Tensor:
        whole = torch.add(tensor, self.residual, alpha=self._decay, out=self.residual)
        encoded = self._codec.encode(whole)
        whole.sub_(self.decode(encoded, tensor.numel()))
        return encoded

    def decode(self, encoded: Tensor, elements: int) -> Tensor:
        return self._codec.decode(encoded, elements)


class EncodedExchange:
    """Implements round.Exchange for one bucket, a tensor like `like`."""

    def __init__(self, spec: Experiment, like: Tensor) -> None:
        codec, decay = spec.compress, spec.error_feedback
        assert decay is not None
        is_star = spec.strategy == "gather-scatter"
        in_phases = takes_two_phases(parse_codec(codec), spec.workers)
        by_ring = spec.strategy == "allgather" or not in_phases
        self._parts = 1 if by_ring or is_star else spec.workers
        self._residual = torch.zeros_like(like)
        pieces = torch.tensor_split(self._residual, self._parts)
        self._pieces = [Feedback(codec, decay, piece) for piece in pieces]
        encodes_mean = is_star or self._parts > 1
        self._residual_of_mean = torch.zeros_like(pieces[0] if encodes_mean else like[:0])
        """Of the piece that this worker averages: the first ones are the longest."""
        self._codec, self._decay = codec, decay

    def tensors(self) -> dict[str, Tensor]:
        return {"residual": self._residual, "residual_of_mean": self._residual_of_mean}

    def __call__(self, flat: Tensor, round: Round) -> None:
        workers = round.experiment.workers
        if workers == 1:
            return
        pieces = torch.tensor_split(flat, self._parts)
        encoded = [state.encode(p) for state, p in zip(self._pieces, pieces, strict=True)]
        if round.experiment.strategy == "gather-scatter":
            self._star(flat, encoded[0], round)
        elif self._parts == 1:
            self._gather(flat, encoded[0], round)
        else:
            self._two_phases(pieces, encoded, round)

    def _gather(self, flat: Tensor, encoded: Tensor, round: Round) -> None:
        """Everyone's codes to everyone."""
        gathered = encoded.new_empty(round.experiment.workers, encoded.numel())
        gather_round_the_ring(encoded, gathered, round.rank)
        flat.copy_(self._average(gathered, flat.numel(), round))

    def _star(self, flat: Tensor, encoded: Tensor, round: Round) -> None:
        """To worker 0, which sends the mean of all back."""
        leaves = range(1, round.experiment.workers)
        result = torch.empty_like(encoded)
        if round.rank:
            sendrecv([(encoded, 0)], [])
            sendrecv([], [(result, 0)])
        else:
            received = encoded.new_empty(len(leaves) + 1, encoded.numel())
            received[0] = encoded
            sendrecv([], [(received[leaf], leaf) for leaf in leaves])
            mean = self._average(received, flat.numel(), round)
            result = self._encode_mean(mean)
            sendrecv([(result, leaf) for leaf in leaves], [])
        flat.copy_(self._pieces[0].decode(result, flat.numel()))

    def _two_phases(self, pieces: tuple[Tensor, ...], encoded: list[Tensor], round: Round) -> None:
        own, others = round.rank, [rank for rank in range(len(pieces)) if rank != round.rank]
        received = encoded[own].new_empty(len(pieces), encoded[own].numel())
        received[own] = encoded[own]
        sendrecv([(encoded[to], to) for to in others], [(received[of], of) for of in others])
        mean = self._average(received, pieces[own].numel(), round)
        results = [torch.empty_like(piece) for piece in encoded]
        results[own] = self._encode_mean(mean)
        sendrecv([(results[own], to) for to in others], [(results[of], of) for of in others])
        for piece, result in zip(pieces, results, strict=True):
            piece.copy_(self._pieces[0].decode(result, piece.numel()))

    def _encode_mean(self, mean: Tensor) -> Tensor:
        residual = self._residual_of_mean[: mean.numel()]
        return Feedback(self._codec, self._decay, residual).encode(mean)

    def _average(self, encoded: Tensor, elements: int, round: Round) -> Tensor:
        """In rank order, so that the bits do not depend on who computes it."""
        state = self._pieces[0]
        total = state.decode(encoded[0], elements).clone()
        for codes in encoded[1:]:
            total.add_(state.decode(codes, elements))
        return total.div_(round.divisor)


class RandomlyChosen:
    """Implements round.Exchange for one bucket: a strategy's exchange of numbers at some places."""

    def __init__(self, exchange: Exchange, share: float, decay: float, like: Tensor) -> None:
        self._exchange, self._share, self._decay = exchange, share, decay
        self.residual = torch.zeros_like(like, dtype=torch.float32)

    def tensors(self) -> dict[str, Tensor]:
        return {"residual": self.residual}

    def __call__(self, flat: Tensor, round: Round) -> None:
        if round.alone:
            return
        whole = torch.add(flat.float(), self.residual, alpha=self._decay, out=self.residual)
        require_finite(whole)
        places = _places(flat, self._share, round)
        chosen = whole[places]
        whole.index_fill_(0, places, 0.0)
        self._exchange(chosen, round)
        flat.zero_().index_copy_(0, places, chosen.to(flat.dtype))


class SomeAveraged:
    """Implements round.Exchange: parameters at some places are averaged, all others stay."""

    def __init__(self, exchange: Exchange, share: float) -> None:
        self._exchange, self._share = exchange, share

    def __call__(self, flat: Tensor, round: Round) -> None:
        if round.alone:
            return
        places = _places(flat, self._share, round)
        chosen = flat[places].float()
        self._exchange(chosen, round)
        flat.index_copy_(0, places, chosen.to(flat.dtype))


def _places(flat: Tensor, share: float, round: Round) -> Tensor:
    seed = (round.experiment.seed, round.index, round.part)
    return randk.places(flat.numel(), share, seed, flat.device)
