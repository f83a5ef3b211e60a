"""The state of a worker: all that its next step depends on, as tensors by name.

Parameters, buffers, optimizer, residuals of codecs, anchors and momentum of the outer optimiser. At
the end of a round nothing else is remembered: gradients are zero, and data order, learning rate and
groups follow from the number of the step. The tensors are the worker's own and not copies: they can
be saved, sent, or overwritten by those of another worker or an earlier run.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from workloads.comm.flat import FlatModel
from workloads.comm.round import tensors_of
from workloads.optimizers import Optimizer

RANDOM = "random"
"""In a file: torch's random numbers, which a model of the user's own may draw."""


class StateError(Exception):
    """A state that is not this worker's; the message is for a person."""


def state_of(
    model: nn.Module, flat: FlatModel, optimizer: Optimizer, exchanger: object
) -> dict[str, Tensor]:
    """In the same order on all workers; `exchanger` is the one that was prepared for the run."""
    counters = [buffer for buffer in model.buffers() if not buffer.is_floating_point()]
    groups: dict[str, Mapping[str, Tensor]] = {
        "parameters": {str(at): part.parameters for at, part in enumerate(flat.parts)},
        "buffers": {str(at): buffer for at, buffer in enumerate(flat.buffers)},
        "counters": {str(at): counter for at, counter in enumerate(counters)},
        "optimizer": optimizer.tensors(),
        "exchange": tensors_of(exchanger),
    }
    return {f"{group}.{name}": t for group, found in groups.items() for name, t in found.items()}


def take_over(state: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    """Overwrite a worker's state; StateError where the other is of another composition."""
    names = set(state) ^ set(other)
    names |= {n for n in set(state) & set(other) if _form(state[n]) != _form(other[n])}
    if names:
        raise StateError(f"the state is that of another model or strategy: {min(names)} differs")
    for name, tensor in state.items():
        tensor.copy_(other[name])


def _form(tensor: Tensor) -> tuple[object, ...]:
    return tensor.shape, tensor.dtype


def save(path: Path, state: Mapping[str, Tensor]) -> None:
    torch.save({**state, RANDOM: torch.get_rng_state()}, path)


def load(path: Path, state: Mapping[str, Tensor]) -> None:
    """Go on from a saved state; StateError for what is none, or none of this worker."""
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        random = saved.pop(RANDOM)
        torch.set_rng_state(random)
    except FileNotFoundError:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise StateError(f"{path.name} holds no saved state: {reason}") from None
    take_over(state, saved)
