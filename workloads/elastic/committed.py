"""A worker's state after its last completed steps, in memory that outlives the training process.

Three slots: the last completed step, the last one before the last round, and one to write to. A
slot is written first and named afterwards, by one small write that a signal cannot cut in two. So
whenever the training process is killed, two whole states are there, and the worker can go back to
before a round that others did not complete.
"""

import json
import mmap
import os
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from cluster.spec.documents.membership import Place
from workloads.state import StateError

SLOTS = 3
NONE = -1
NAMES = struct.Struct("<2q")
"""The numbers of the slots with the latest state, and with the one before the last round."""
PLACE = struct.Struct("<6q")
FIELDS = ("generation", "epoch", "done", "step", "round", "pending")
ALIGNED_BYTES = 64

State = Mapping[str, Tensor]
Layout = Sequence[Sequence[Any]]
OF_MEAN = "residual_of_mean"


class Committed:
    """Made before the fork; the training process writes, and those after it read."""

    def __init__(self) -> None:
        self._header = os.memfd_create("committed")
        self._slots = [os.memfd_create(f"slot{number}") for number in range(SLOTS)]
        self._layouts = [os.memfd_create(f"layout{number}") for number in range(SLOTS)]
        self._views: dict[int, dict[str, Tensor]] = {}
        self.clear()

    def clear(self) -> None:
        self._name(NONE, NONE)

    @property
    def latest(self) -> Place | None:
        return self._place(self._names()[0])

    @property
    def before(self) -> Place | None:
        """None before the first round since the state was got."""
        return self._place(self._names()[1])

    def tensor(self, name: str) -> Tensor | None:
        """One of the latest state; None where there is no such tensor."""
        slot = self._names()[0]
        return None if slot == NONE else self._read(slot).get(name)

    def begin(self, state: State, place: Place) -> None:
        """The state with which a generation begins."""
        slot = next(number for number in range(SLOTS) if number not in self._names())
        self._write(slot, state, place)
        self._name(slot, NONE)

    def commit(self, state: State, place: Place) -> None:
        """The state after a completed step."""
        latest, before = self._names()
        slot = next(number for number in range(SLOTS) if number not in (latest, before))
        last = self._place(latest)
        assert last is not None, "a generation begins with a state"
        self._write(slot, state, place)
        self._name(slot, before if place.round == last.round else latest)

    def restore(self, state: State, place: Place) -> None:
        """Overwrite a worker's state by the one of this place."""
        slot = next((slot for slot in self._names() if self._place(slot) == place), None)
        if slot is None:
            raise StateError(f"there is no state of step {place.step}")
        take_over(state, self._read(slot))

    def _names(self) -> tuple[int, int]:
        latest, before = NAMES.unpack(os.pread(self._header, NAMES.size, 0))
        return latest, before

    def _name(self, latest: int, before: int) -> None:
        os.pwrite(self._header, NAMES.pack(latest, before), 0)

    def _place(self, slot: int) -> Place | None:
        if slot == NONE:
            return None
        numbers = PLACE.unpack(os.pread(self._header, PLACE.size, NAMES.size + slot * PLACE.size))
        return Place(**dict(zip(FIELDS, numbers, strict=True)))

    def _write(self, slot: int, state: State, place: Place) -> None:
        if slot not in self._views:
            layout = layout_of(state)
            self._views[slot] = self._view(slot, layout)
            text = json.dumps(layout).encode()
            os.ftruncate(self._layouts[slot], len(text))
            os.pwrite(self._layouts[slot], text, 0)
        for kept, own in zip(self._views[slot].values(), state.values(), strict=True):
            kept.copy_(own)
        numbers = PLACE.pack(*(getattr(place, name) for name in FIELDS))
        os.pwrite(self._header, numbers, NAMES.size + slot * PLACE.size)

    def _read(self, slot: int) -> State:
        size = os.fstat(self._layouts[slot]).st_size
        return self._view(slot, json.loads(os.pread(self._layouts[slot], size, 0)))

    def _view(self, slot: int, layout: Layout) -> dict[str, Tensor]:
        """A slot's memory as tensors."""
        size = max(sum(map(_room, layout)), ALIGNED_BYTES)
        if os.fstat(self._slots[slot]).st_size < size:
            os.ftruncate(self._slots[slot], size)
        memory = mmap.mmap(self._slots[slot], size)
        return tensors_in(torch.frombuffer(memory, dtype=torch.uint8), layout)


def layout_of(state: State) -> Layout:
    """Name, type, shape and bytes of each tensor."""
    return [
        (name, str(t.dtype).removeprefix("torch."), list(t.shape), t.nbytes)
        for name, t in state.items()
    ]


def tensors_in(memory: Tensor, layout: Layout) -> dict[str, Tensor]:
    """The tensors that bytes hold, one behind the other, each at a multiple of ALIGNED_BYTES."""
    found, start = {}, 0
    for row in layout:
        name, kind, shape, size = row
        part = memory[start : start + size]
        found[name] = part.view(getattr(torch, kind)).view(shape)
        start += _room(row)
    return found


def layout_bytes(layout: Layout) -> int:
    return sum(map(_room, layout))


def _room(row: Sequence[Any]) -> int:
    return -(-int(row[3]) // ALIGNED_BYTES) * ALIGNED_BYTES


def take_over(state: State, other: State) -> None:
    """Overwrite a worker's state by another's, or by its own of another generation.

    The piece that a worker averages has another length among other workers: what a codec lost of
    its mean is forgotten then.
    """
    for name, tensor in state.items():
        found = other.get(name)
        if found is not None and found.shape == tensor.shape and found.dtype == tensor.dtype:
            tensor.copy_(found)
        elif name.endswith(OF_MEAN):
            tensor.zero_()
        else:
            raise StateError(f"the state is that of another model or strategy: {name} differs")
