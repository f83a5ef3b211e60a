"""The exchange of tensors that are encoded by a lossy codec, with error feedback.

Encoded tensors cannot be added up, so a ring all-reduce cannot carry them. In two phases everyone
sends piece j to worker j, which decodes and averages, encodes the mean and sends it to everyone:
2(N-1)/N M bytes. Two workers send each other everything, M, and encode once.

Error feedback (Seide et al. 2014, Karimireddy et al. 2019): what encoding lost is added to the next
tensor, in both phases:

    x = input + DECAY residual,   sent = decode(encode(x)),   residual = x - sent

All workers, also the owner of a piece, use the decoded mean, so all end with identical bits.
"""

import torch
from torch import Tensor

from cluster.spec.codecs import parse_codec, takes_two_phases
from workloads.comm.codecs import open_codec
from workloads.comm.messages import sendrecv
from workloads.comm.round import Round
from workloads.strategies.allgather import gather_round_the_ring


class Feedback:
    """Encodes a tensor in every round, and keeps what that lost."""

    def __init__(self, codec: str, decay: float, like: Tensor) -> None:
        self._codec, self._decay = open_codec(codec), decay
        self.residual = torch.zeros_like(like)

    def encode(self, tensor: Tensor) -> Tensor:
        whole = torch.add(tensor, self.residual, alpha=self._decay)
        encoded = self._codec.encode(whole)
        self.residual = whole.sub_(self.decode(encoded, tensor.numel()))
        return encoded

    def decode(self, encoded: Tensor, elements: int) -> Tensor:
        return self._codec.decode(encoded, elements)


class EncodedExchange:
    """Implements round.Exchange for one bucket."""

    def __init__(self, codec: str, decay: float, like: Tensor) -> None:
        self._text, self._decay, self._like = codec, decay, like
        self._codec = parse_codec(codec)
        self._pieces: list[Feedback] = []
        self._mean: Feedback | None = None

    def __call__(self, flat: Tensor, round: Round) -> None:
        workers = round.experiment.workers
        if workers == 1:
            return
        parts = 1
        if takes_two_phases(self._codec, workers):
            parts = workers
        pieces = torch.tensor_split(flat, parts)
        if not self._pieces:
            self._pieces = [Feedback(self._text, self._decay, piece) for piece in pieces]
        encoded = [state.encode(p) for state, p in zip(self._pieces, pieces, strict=True)]
        if parts == 1:
            self._gather(flat, encoded[0], round)
        else:
            self._two_phases(pieces, encoded, round)

    def _gather(self, flat: Tensor, encoded: Tensor, round: Round) -> None:
        """Everyone's codes to everyone."""
        gathered = encoded.new_empty(round.experiment.workers, encoded.numel())
        gather_round_the_ring(encoded, gathered, round.rank)
        flat.copy_(self._average(gathered, flat.numel(), round))

    def _two_phases(self, pieces: tuple[Tensor, ...], encoded: list[Tensor], round: Round) -> None:
        own, others = round.rank, [rank for rank in range(len(pieces)) if rank != round.rank]
        received = encoded[own].new_empty(len(pieces), encoded[own].numel())
        received[own] = encoded[own]
        sendrecv([(encoded[to], to) for to in others], [(received[of], of) for of in others])
        mean = self._average(received, pieces[own].numel(), round)
        if self._mean is None:
            self._mean = Feedback(self._text, self._decay, mean)
        results = [torch.empty_like(piece) for piece in encoded]
        results[own] = self._mean.encode(mean)
        sendrecv([(results[own], to) for to in others], [(results[of], of) for of in others])
        for piece, result in zip(pieces, results, strict=True):
            piece.copy_(self._mean.decode(result, piece.numel()))

    def _average(self, encoded: Tensor, elements: int, round: Round) -> Tensor:
        """In rank order, so that the bits do not depend on who computes it."""
        state = self._pieces[0]
        total = state.decode(encoded[0], elements).clone()
        for codes in encoded[1:]:
            total.add_(state.decode(codes, elements))
        return total.div_(round.divisor)
