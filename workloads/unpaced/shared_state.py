"""A model that trains on while it is averaged with others."""

from collections.abc import Sequence

import torch
from torch import Tensor


class SharedState:
    """A worker's tensors, as others see them: of its last step's end, and averages since then."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = tensors
        self._base = [tensor.clone() for tensor in tensors]
        self._pending = [torch.zeros_like(tensor) for tensor in tensors]
        self._is_moved = False

    def snapshot(self, into: Sequence[Tensor]) -> None:
        for base, pending, copy in zip(self._base, self._pending, into, strict=True):
            torch.add(base, pending, out=copy)

    def move(self, own: Sequence[Tensor], other: Sequence[Tensor]) -> None:
        """Half-way from what this worker sent to what the other did."""
        for pending, mine, theirs in zip(self._pending, own, other, strict=True):
            pending.add_(theirs.sub_(mine).div_(2))
        self._is_moved = True

    def merge(self) -> None:
        """A step has ended: add the averages, and show the result to others."""
        for tensor, base, pending in zip(self._tensors, self._base, self._pending, strict=True):
            if self._is_moved:
                tensor.add_(pending)
                pending.zero_()
            base.copy_(tensor)
        self._is_moved = False
