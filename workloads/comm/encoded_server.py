"""Lossy codecs with a parameter server: encoded gradients are pushed, encoded changes are pulled.

A worker encodes its gradients with error feedback. The server averages what it decodes, updates its
model by that, and encodes how far the model is from what all workers have, their copies:

    change = encode(model - copies),   copies <- copies + decode(change)

So what encoding a change loses is in the next one: nothing is forgotten, and there is no DECAY in
this direction. All workers add the same decoded change to equal parameters, and so does the server
to `copies`: they stay equal bit for bit.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cluster.spec.exchange.codecs import parse_codec
from cluster.spec.experiment import Experiment
from workloads.comm.codecs import open_codec
from workloads.comm.encoded_exchange import Feedback
from workloads.comm.messages import sendrecv
from workloads.comm.round import Round

Update = Callable[[slice, Tensor], Tensor]
"""Updates a slice of the model by its mean gradients, and returns the slice's new parameters."""


class PushedGradients:
    """Implements round.Exchange for the worker: gradients become the change of the parameters."""

    def __init__(self, spec: Experiment, like: Tensor) -> None:
        assert spec.error_feedback is not None
        self._feedback = Feedback(spec.compress, spec.error_feedback, torch.zeros_like(like))

    def tensors(self) -> dict[str, Tensor]:
        return {"residual": self._feedback.residual}

    def __call__(self, flat: Tensor, round: Round) -> None:
        server = round.experiment.workers
        encoded = self._feedback.encode(flat)
        change = torch.empty_like(encoded)
        sendrecv([(encoded, server)], [])
        sendrecv([], [(change, server)])
        flat.copy_(self._feedback.decode(change, flat.numel()))


class PulledChanges:
    """The server's side: of every tensor of parameters, what all workers have."""

    def __init__(self, codec: str, parameters: Sequence[Tensor]) -> None:
        self._codec, self._bytes = open_codec(codec), parse_codec(codec).encoded_bytes
        self._copies = [tensor.clone() for tensor in parameters]

    def tensors(self) -> dict[str, Tensor]:
        return {f"{at}.copies": tensor for at, tensor in enumerate(self._copies)}

    def serve(self, at: int, round: Round, update: Update) -> None:
        """Of the tensor in this place: receive gradients, update, and send the change."""
        copies, workers = self._copies[at], round.experiment.workers
        elements = copies.numel()
        received = torch.empty(workers, self._bytes(elements), dtype=torch.uint8)
        sendrecv([], [(received[rank], rank) for rank in range(workers)])
        total = self._codec.decode(received[0], elements).clone()
        for codes in received[1:]:
            total.add_(self._codec.decode(codes, elements))
        change = self._codec.encode(update(slice(0, elements), total.div_(round.divisor)) - copies)
        copies.add_(self._codec.decode(change, elements))
        sendrecv([(change, rank) for rank in range(workers)], [])
