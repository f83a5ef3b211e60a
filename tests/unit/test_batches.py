"""Batches: shards are disjoint, and together equal the batches of one large worker."""

import struct
import warnings
from collections import Counter
from pathlib import Path

import pytest
import torch

from workloads.data import batches
from workloads.data.batches import epoch_order, shard, train_batches
from workloads.data.dataset import DataError
from workloads.data.prepare import prepare
from workloads.data.samples import Rows, Samples
from workloads.data.sets import DATASETS
from workloads.data.sets.mnist import read_idx

PINNED = [2466, 23328, 20094, 50894, 22545]
ODD = [(600, 1, 64), (600, 6, 10), (601, 6, 10), (997, 7, 3), (64, 64, 1), (1000, 128, 7)]


@pytest.fixture(scope="module")
def folder() -> Path:
    try:
        return prepare(DATASETS["mnist"])
    except DataError as error:
        pytest.skip(str(error))


def read_mnist(folder: Path) -> Samples:
    read = DATASETS["mnist"].read
    assert read is not None
    return read(folder)


@pytest.fixture(scope="module")
def mnist(folder: Path) -> Samples:
    return read_mnist(folder)


@pytest.mark.parametrize(("train_size", "workers", "batch_size"), ODD)
def test_in_each_step_n_workers_use_the_samples_of_one_worker_with_n_times_the_batch(
    train_size: int, workers: int, batch_size: int
) -> None:
    order = epoch_order(2000, train_size, seed=3, epoch=5)
    alone = shard(order, 0, 1, workers * batch_size)
    shards = [shard(order, rank, workers, batch_size) for rank in range(workers)]
    together = torch.cat(shards, dim=1)
    assert torch.equal(together.sort(dim=1).values, alone.sort(dim=1).values)


@pytest.mark.parametrize(("train_size", "workers", "batch_size"), ODD)
def test_a_worker_uses_every_nth_sample_of_the_common_order(
    train_size: int, workers: int, batch_size: int
) -> None:
    order = epoch_order(2000, train_size, seed=3, epoch=5)
    steps = train_size // (workers * batch_size)
    for rank in range(workers):
        rows = shard(order, rank, workers, batch_size)
        assert rows.shape == (steps, batch_size)
        assert torch.equal(rows.flatten(), order[rank::workers][: steps * batch_size])


@pytest.mark.parametrize(("train_size", "workers", "batch_size"), ODD)
def test_shards_never_overlap_and_leave_out_less_than_one_step(
    train_size: int, workers: int, batch_size: int
) -> None:
    order = epoch_order(2000, train_size, seed=3, epoch=5)
    taken = Counter(
        sample
        for rank in range(workers)
        for sample in shard(order, rank, workers, batch_size).flatten().tolist()
    )
    assert set(taken.values()) == {1}
    assert taken.keys() <= set(order.tolist())
    assert train_size - len(taken) < workers * batch_size


def test_every_epoch_is_a_new_shuffle_of_the_same_samples_and_every_worker_gets_the_same() -> None:
    orders = [epoch_order(1000, 500, seed, epoch) for seed in range(5) for epoch in range(5)]
    assert len({tuple(order.tolist()) for order in orders}) == 25
    assert len({frozenset(order.tolist()) for order in orders}) == 1
    torch.manual_seed(99)
    assert torch.equal(epoch_order(1000, 500, 0, 0), orders[0])


def test_the_order_does_not_change_between_versions() -> None:
    assert epoch_order(60_000, 6_000, seed=0, epoch=0)[:5].tolist() == PINNED


def test_smaller_subsets_are_parts_of_larger_ones_and_the_largest_is_everything() -> None:
    subsets = [set(epoch_order(1000, size, 1, 1).tolist()) for size in (1, 10, 500, 1000)]
    assert subsets[0] < subsets[1] < subsets[2] < subsets[3] == set(range(1000))


@pytest.mark.parametrize("size", [0, -1, 1001])
def test_a_train_size_that_is_not_there_is_refused(size: int) -> None:
    with pytest.raises(DataError, match=f"train_size is {size:,}, there are 1,000"):
        epoch_order(1000, size, 0, 0)


@pytest.mark.parametrize("rank", [-1, 4])
def test_a_rank_outside_the_cluster_is_refused(rank: int) -> None:
    with pytest.raises(DataError, match="ranks go from 0 to 3"):
        shard(torch.arange(100), rank, 4, 5)


@pytest.mark.parametrize(
    ("test_size", "workers", "batch_size"),
    [(10_000, 1, 500), (10_000, 6, 500), (1_001, 7, 13), (5, 8, 500), (1, 1, 1)],
)
def test_the_parts_of_the_test_set_cover_it_once_and_evenly(
    test_size: int, workers: int, batch_size: int
) -> None:
    # Each image carries its own number in its pixels, each label its number modulo 256.
    numbers = torch.arange(10_000)
    images = torch.zeros(10_000, 28, 28, dtype=torch.uint8)
    images[:, 0, 0], images[:, 0, 1] = numbers % 256, numbers // 256
    rows = Rows(images)
    marked = Samples(rows, numbers, rows, (numbers % 256).to(torch.uint8), lambda x: x.unsqueeze(1))
    parts: list[list[int]] = []
    for rank in range(workers):
        part: list[int] = []
        for inputs, labels in batches.test_batches(
            marked, rank=rank, workers=workers, test_size=test_size, batch_size=batch_size
        ):
            pixels = inputs.long()
            assert torch.equal(pixels[:, 0, 0, 0], labels)
            assert 0 < len(labels) <= batch_size
            part += (pixels[:, 0, 0, 0] + 256 * pixels[:, 0, 0, 1]).tolist()
        parts.append(part)
    found = {number for part in parts for number in part}
    assert sum(map(len, parts)) == len(found) == test_size
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("size", [500, 2_000, 6_000])
def test_fewer_test_samples_are_a_spread_that_contains_smaller_ones(size: int) -> None:
    """A tenth of the set has a tenth of the samples, within four standard deviations."""
    numbers = torch.arange(10_000)
    rows = Rows(numbers)
    data = Samples(rows, numbers, rows, numbers, lambda x: x)

    def chosen(test_size: int) -> set[int]:
        found = batches.test_batches(data, rank=0, workers=1, test_size=test_size)
        return {int(number) for _, labels in found for number in labels}

    tenths = [0] * 10
    for number in chosen(size):
        tenths[number // 1_000] += 1
    assert max(abs(count - size / 10) for count in tenths) < 4 * (size / 10) ** 0.5
    assert chosen(size // 2) < chosen(size)


def test_the_real_files_hold_the_well_known_numbers_of_each_digit(mnist: Samples) -> None:
    train = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    test = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert mnist.train_labels.bincount().tolist() == train
    assert mnist.test_labels.bincount().tolist() == test
    assert mnist.train_inputs.parts[0].shape == (60_000, 28, 28)
    assert mnist.test_inputs.parts[0].shape == (10_000, 28, 28)


def test_normalised_training_images_have_mean_0_and_deviation_1(mnist: Samples) -> None:
    inputs = mnist.ready(mnist.train_inputs.parts[0])
    assert inputs.shape == (60_000, 1, 28, 28)
    assert inputs.dtype == torch.float32
    assert float(inputs.mean()) == pytest.approx(0, abs=1e-3)
    assert float(inputs.std()) == pytest.approx(1, abs=1e-3)


def test_a_batch_pairs_images_with_their_labels(mnist: Samples) -> None:
    rows = shard(epoch_order(60_000, 600, 7, 2), 1, 3, 20)
    taken = list(train_batches(mnist, rows))
    assert len(taken) == len(rows) == 10
    for (inputs, labels), row in zip(taken, rows, strict=True):
        assert inputs.shape == (20, 1, 28, 28)
        assert (inputs.dtype, labels.dtype) == (torch.float32, torch.int64)
        assert torch.equal(inputs, mnist.ready(mnist.train_inputs[row]))
        assert labels.tolist() == mnist.train_labels[row].tolist()


def test_the_files_are_mapped_and_not_copied(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        images = read_mnist(folder).train_inputs.parts[0]
    assert int(images.sum(dtype=torch.int64)) > 0  # touches every page
    fields = memory_fields("train-images-idx3-ubyte")
    assert fields["Rss"] > 40_000
    assert fields["Anonymous"] == fields["Private_Dirty"] == 0


def memory_fields(mapped_name: str) -> dict[str, int]:
    """Of all mappings of a file in this process, in kB."""
    total: Counter[str] = Counter()
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            inside = line.endswith(mapped_name)
        elif inside and rest[-1] == "kB":
            total[first[:-1]] += int(rest[0])
    return total


@pytest.mark.parametrize(
    "content",
    [b"", b"\0\0\x08", struct.pack(">HBBI", 0, 8, 1, 5) + b"four", b"<html>Please log in</html>"],
)
def test_a_file_that_is_not_what_its_header_says_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "labels").write_bytes(content)
    with pytest.raises(DataError, match="labels"):
        read_idx(tmp_path / "labels")
