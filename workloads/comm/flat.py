"""Flat model: parameters, gradients and buffers in contiguous memory.

An exchange sends slices of a few large tensors, without packing and unpacking, and the optimizer
updates whole tensors. Tensors of different types cannot share memory: there is one part per type.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Part:
    """All trainable parameters of one type, and their gradients at the same offsets."""

    parameters: Tensor
    gradients: Tensor
    tensors: tuple[nn.Parameter, ...]

    @property
    def offsets(self) -> list[int]:
        """Start of each tensor, and the end of the last one."""
        offsets = [0]
        for tensor in self.tensors:
            offsets.append(offsets[-1] + tensor.numel())
        return offsets

    @property
    def shapes(self) -> list[torch.Size]:
        return [tensor.shape for tensor in self.tensors]


class FlatModel:
    """Owns the memory; the model's parameters, gradients and buffers become views into it.

    Frozen parameters are left alone. A parameter without a gradient in a step has a gradient of
    zero, because another worker may have one for it.
    """

    def __init__(self, model: nn.Module) -> None:
        trainable = [p for p in model.parameters() if p.requires_grad]
        self.parts = tuple(_flatten(tensors) for tensors in _by_type(trainable))
        self.buffers = _flatten_buffers(model)

    @property
    def state(self) -> list[Tensor]:
        """All tensors in which workers can differ."""
        return [part.parameters for part in self.parts] + self.buffers

    def fragments(self, count: int) -> list[list[Tensor]]:
        """Of each of so many equal pieces of the parameters, its piece of every part."""
        pieces = [part.parameters.tensor_split(count) for part in self.parts]
        return [list(of) for of in zip(*pieces, strict=True)]

    @property
    def parameter_count(self) -> int:
        return sum(part.parameters.numel() for part in self.parts)

    def take_parameters_from_gradients(self) -> None:
        """Use the tensors that a server returned in place of the gradients as the parameters."""
        for part in self.parts:
            part.parameters.copy_(part.gradients)
            part.gradients.zero_()

    def add_change_from_gradients(self) -> None:
        """Add what a server returned in place of the gradients to the parameters."""
        for part in self.parts:
            part.parameters.add_(part.gradients)
            part.gradients.zero_()


def _by_type(tensors: Iterable[nn.Parameter]) -> list[tuple[nn.Parameter, ...]]:
    found: dict[torch.dtype, list[nn.Parameter]] = {}
    for tensor in tensors:
        found.setdefault(tensor.dtype, []).append(tensor)
    return [tuple(group) for group in found.values()]


def _flatten(tensors: tuple[nn.Parameter, ...]) -> Part:
    parameters = torch.cat([p.detach().reshape(-1) for p in tensors])
    part = Part(parameters, torch.zeros_like(parameters), tensors)
    for tensor, start in zip(tensors, part.offsets, strict=False):
        end = start + tensor.numel()
        tensor.data = part.parameters[start:end].view(tensor.shape)
        tensor.grad = part.gradients[start:end].view(tensor.shape)
    return part


def _flatten_buffers(model: nn.Module) -> list[Tensor]:
    """One tensor per floating type; integer counters are equal on all workers and left out."""
    found: dict[torch.dtype, list[tuple[nn.Module, str, Tensor]]] = {}
    for module in model.modules():
        for name, buffer in module.named_buffers(recurse=False):
            if buffer.is_floating_point():
                found.setdefault(buffer.dtype, []).append((module, name, buffer))
    flats = []
    for places in found.values():
        flat = torch.cat([buffer.reshape(-1) for _, _, buffer in places])
        start = 0
        for module, name, buffer in places:
            end = start + buffer.numel()
            setattr(module, name, flat[start:end].view(buffer.shape))
            start = end
        flats.append(flat)
    return flats
