"""Push-sum: averaging by messages that are not answered (Kempe et al. 2003, Assran et al. 2019).

A worker holds w z and its weight w, which begins with 1. Both are sent in equal shares, and what
arrives is added:

    w z, w  <-  half of own (w z, w) + half of the sender's;   z = (w z) / w

The sums of w z and of w over the workers never change, so that z goes to the mean of the z, also
where some workers get more messages than others. In the graph of strategy sgp each gets one a
round, and weights stay 1 but for rounding.
"""

import torch
from torch import Tensor

from workloads.comm.messages import reused_buffer
from workloads.comm.round import Exchange, Round


class PushSum:
    """Implements round.Exchange for one bucket of parameters, z."""

    def __init__(self, exchange: Exchange, like: Tensor) -> None:
        self._exchange = exchange
        self.weight = torch.ones(1, dtype=like.dtype, device=like.device)

    def tensors(self) -> dict[str, Tensor]:
        return {"weight": self.weight}

    def __call__(self, flat: Tensor, round: Round) -> None:
        if round.alone:
            return
        held = reused_buffer("push-sum", flat.numel() + 1, flat.dtype, flat.device)
        torch.mul(flat, self.weight, out=held[:-1])
        held[-1:].copy_(self.weight)
        self._exchange(held, round)
        self.weight.copy_(held[-1:])
        torch.div(held[:-1], self.weight, out=flat)
