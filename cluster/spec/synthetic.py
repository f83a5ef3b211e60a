"""Models with emulated compute: synthetic:SIZE[:LAYERS[:COMPUTE]] or synthetic:PROFILE[:COMPUTE].

    synthetic:4M            4,000,000 bytes in one layer, no compute
    synthetic:16M:64        in 64 layers
    synthetic:16M:64:1.5s   forward and backward together take 1.5 s, asleep
    synthetic:16M:64:0s+2s  forward takes no time, backward 2 s
    synthetic:gpt2:400ms    the layers of GPT-2; also resnet50, vgg16 and bert-base

A step takes no CPU time: two cores can emulate many fast accelerators. Only the network is real.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from cluster.spec.quantities import SIZES, meant, parse_time, size_bytes


def _dense(before: int, after: int) -> list[int]:
    return [before * after, after]


def _norm(channels: int) -> list[int]:
    return [channels, channels]


def _resnet50() -> list[int]:
    """Four stages of bottleneck blocks; a stage's first block widens the way around it, too."""
    sizes = [7 * 7 * 3 * 64, *_norm(64)]
    before = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            sizes += [before * width, *_norm(width), 9 * width * width, *_norm(width)]
            sizes += [width * 4 * width, *_norm(4 * width)]
            if block == 0:
                sizes += [before * 4 * width, *_norm(4 * width)]
            before = 4 * width
    return sizes + _dense(2048, 1000)


def _vgg16() -> list[int]:
    sizes, before = [], 3
    for channels in (64, 64, 128, 128, 256, 256, 256, *[512] * 6):
        sizes += [9 * before * channels, channels]
        before = channels
    return sizes + _dense(512 * 7 * 7, 4096) + _dense(4096, 4096) + _dense(4096, 1000)


def _bert_base() -> list[int]:
    hidden, inner = 768, 3072
    sizes = [28_996 * hidden, 512 * hidden, 2 * hidden, *_norm(hidden)]
    for _ in range(12):
        sizes += 4 * _dense(hidden, hidden) + _norm(hidden)
        sizes += _dense(hidden, inner) + _dense(inner, hidden) + _norm(hidden)
    return sizes + _dense(hidden, hidden)


def _gpt2() -> list[int]:
    hidden = 768
    sizes = [50_257 * hidden, 1_024 * hidden]
    for _ in range(12):
        sizes += _norm(hidden) + _dense(hidden, 3 * hidden) + _dense(hidden, hidden)
        sizes += _norm(hidden) + _dense(hidden, 4 * hidden) + _dense(4 * hidden, hidden)
    return sizes + _norm(hidden)


PROFILES: dict[str, Callable[[], list[int]]] = {
    "resnet50": _resnet50,
    "vgg16": _vgg16,
    "bert-base": _bert_base,
    "gpt2": _gpt2,
}
"""Network -> numbers in each tensor, in forward order, from its published architecture.

The totals equal those of torchvision's resnet50 and vgg16 and of transformers' BertModel
(bert-base-cased) and GPT2Model.
"""

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
            f"{meant(text, SIZES)}"
        )
    return size


def _compute(text: str) -> tuple[float, float]:
    """Seconds of forward and of backward."""
    forward, plus, backward = text.partition("+")
    if plus:
        return parse_time(forward, "compute"), parse_time(backward, "compute")
    seconds = parse_time(text, "compute")
    return (1 - BACKWARD_SHARE) * seconds, BACKWARD_SHARE * seconds
