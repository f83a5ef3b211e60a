"""Layer sizes of real networks for synthetic models: numbers in each tensor, in forward order.

Computed from the published architectures; the totals equal those of torchvision's resnet50 and
vgg16 and of transformers' BertModel (bert-base-cased) and GPT2Model.
"""

from collections.abc import Callable


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
