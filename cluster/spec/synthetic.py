"""Models with emulated compute: synthetic:SIZE[:LAYERS[:COMPUTE]] or synthetic:PROFILE[:COMPUTE].

    synthetic:4M            4,000,000 bytes in one layer, no compute
    synthetic:16M:64        in 64 layers
    synthetic:16M:64:1.5s   forward and backward together take 1.5 s, asleep
    synthetic:16M:64:0s+2s  forward takes no time, backward 2 s
    synthetic:gpt2:400ms    the layers of GPT-2; also resnet50, vgg16 and bert-base

A step takes no CPU time, so two cores can emulate many nodes with fast accelerators; only the
network is real.
"""

import re
from dataclasses import dataclass

from cluster.spec.quantities import parse_time, size_bytes
from cluster.spec.synthetic_profiles import PROFILES

PREFIX = "synthetic:"
FORM = "synthetic:SIZE[:LAYERS[:COMPUTE]]"
PROFILE_FORM = f"synthetic:{'|'.join(PROFILES)}[:COMPUTE]"
BACKWARD_SHARE = 2 / 3
"""Backward computes gradients of inputs and of weights: twice the work of forward."""


@dataclass(frozen=True)
class Synthetic:
    size_bytes: int
    layers: int = 1
    forward_s: float = 0.0
    backward_s: float = 0.0
    profile: str | None = None

    @property
    def sizes(self) -> list[int]:
        """Numbers in each layer: a profile's, else all alike."""
        if self.profile is not None:
            return PROFILES[self.profile]()
        each, more = divmod(self.size_bytes // 4, self.layers)
        return [each + (k < more) for k in range(self.layers)]


def parse(text: str) -> Synthetic:
    """ValueError, in one line, for anything else."""
    size, *rest = text.removeprefix(PREFIX).split(":")
    if size in PROFILES:
        return _of_profile(size, rest)
    if len(rest) > 2:
        raise ValueError(f"expected {FORM} or {PROFILE_FORM}")
    layers = rest[0] if rest else "1"
    if not re.fullmatch(r"[0-9]{1,6}", layers) or int(layers) < 1:
        raise ValueError(f"layers must be a whole number from 1, not {layers!r}")
    model = Synthetic(_size(size), int(layers), *(_compute(rest[1]) if len(rest) == 2 else ()))
    if model.size_bytes < 4 * model.layers:
        raise ValueError(f"{model.layers} layers need at least {4 * model.layers} bytes")
    return model


def _of_profile(name: str, rest: list[str]) -> Synthetic:
    if len(rest) > 1:
        raise ValueError(f"expected {PROFILE_FORM}")
    sizes = PROFILES[name]()
    compute = _compute(rest[0]) if rest else (0.0, 0.0)
    return Synthetic(4 * sum(sizes), len(sizes), *compute, profile=name)


def _size(text: str) -> int:
    size = round(size_bytes(text))
    if not 4 <= size <= 10**11 or size % 4:
        raise ValueError(
            f"size must be a number of bytes, a multiple of 4, such as 250k, 16M or 1.5G"
            f" (powers of 1000), or one of {', '.join(PROFILES)}; not {text!r}"
        )
    return size


def _compute(text: str) -> tuple[float, float]:
    """Seconds of forward and of backward."""
    forward, plus, backward = text.partition("+")
    if plus:
        return parse_time(forward, "compute"), parse_time(backward, "compute")
    seconds = parse_time(text, "compute")
    return (1 - BACKWARD_SHARE) * seconds, BACKWARD_SHARE * seconds
