"""Exchanges with a memory: error feedback of codecs, outer optimiser (--outer), push-sum.

Formulas of the outer optimiser are in cluster/spec/exchange/outer.py. Without a lossy codec
parameters are exchanged, so that sgd:1 is local-sgd bit for bit; with one, outer deltas.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from cluster.spec.exchange.codecs import parse_codec
from cluster.spec.exchange.outer import Outer, parse_outer
from cluster.spec.experiment import Experiment
from workloads.comm.codecs.powersgd import PowerIteration
from workloads.comm.encoded_exchange import EncodedExchange, RandomlyChosen, SomeAveraged
from workloads.comm.encoded_server import PushedGradients
from workloads.comm.push_sum import PushSum
from workloads.comm.round import Exchange, Round, tensors_of


def stateful_exchange(
    exchange: Exchange, spec: Experiment, initial: Tensor, shapes: Sequence[Sequence[int]] = ()
) -> Exchange:
    """The exchange of one bucket, which begins with `initial`, as --compress and --outer say.

    `shapes` are those of its layers.
    """
    exchange, codec = encoded_exchange(exchange, spec, initial, shapes), parse_codec(spec.compress)
    if spec.strategy == "sgp":
        return PushSum(exchange, initial)
    outer, deltas = parse_outer(spec.outer), codec.lossy and not spec.averages_some
    return exchange if outer is None else OuterExchange(exchange, outer, deltas, initial)


def encoded_exchange(
    exchange: Exchange, spec: Experiment, initial: Tensor, shapes: Sequence[Sequence[int]] = ()
) -> Exchange:
    """Of a lossy codec, with the memory of its error feedback; any other is as it is."""
    codec = parse_codec(spec.compress)
    if not codec.lossy:
        return exchange
    if spec.averages_some:
        assert codec.share is not None
        return SomeAveraged(exchange, codec.share)
    decay = spec.error_feedback
    assert decay is not None
    if codec.rank is not None:
        return PowerIteration(exchange, codec.rank, decay, shapes, spec.seed)
    if codec.adds_up:
        assert codec.share is not None
        return RandomlyChosen(exchange, codec.share, decay, initial)
    if spec.strategy == "parameter-server":
        return PushedGradients(spec, initial)
    return EncodedExchange(spec, initial)


class OuterStep:
    """The anchor of some parameters, and the outer optimiser's step from it."""

    def __init__(self, outer: Outer, initial: Tensor) -> None:
        self._outer = outer
        self._anchor = initial.clone()
        self._velocity = torch.zeros_like(initial)

    def tensors(self) -> dict[str, Tensor]:
        return {"anchor": self._anchor, "velocity": self._velocity}

    def delta(self, flat: Tensor) -> Tensor:
        return flat - self._anchor

    def take(self, delta: Tensor) -> Tensor:
        """The new anchor, from the mean delta, which is used up."""
        self._velocity.mul_(self._outer.momentum).add_(delta)
        delta.add_(self._velocity, alpha=self._outer.momentum)
        return self._anchor.add_(delta, alpha=self._outer.lr)


class OuterExchange:
    """An exchange of parameters, followed by a step of the outer optimiser."""

    def __init__(self, exchange: Exchange, outer: Outer, deltas: bool, initial: Tensor) -> None:
        """`deltas`: the change since the last round is exchanged, not the parameters."""
        self._exchange, self._deltas = exchange, deltas
        self._takes_the_mean = outer.takes_the_mean
        self._step = OuterStep(outer, initial)

    def tensors(self) -> dict[str, Tensor]:
        return {**self._step.tensors(), **tensors_of(self._exchange)}

    def __call__(self, flat: Tensor, round: Round) -> None:
        if self._deltas:
            delta = self._step.delta(flat)
            self._exchange(delta, round)
        else:
            self._exchange(flat, round)
            if self._takes_the_mean:
                return
            delta = self._step.delta(flat)
        flat.copy_(self._step.take(delta))
