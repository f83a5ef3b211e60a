"""Shards: equally large and disjoint, however large the label skew."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from analysis.summary.node_log import NodeLog
from analysis.summary.training import describe, label_skew
from cluster.spec.catalogue import parse_partition
from cluster.spec.documents.events import Hello, Step
from cluster.spec.documents.summary import EpochCourse, LearningRate, Shards
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment
from workloads.data import partition
from workloads.data.batches import Shard, augment, draw_augmentation
from workloads.data.samples import Rows, Samples
from workloads.data.sets import cifar10


def labelled(count: int = 3000) -> Tensor:
    return torch.randint(0, 10, (count,), generator=torch.Generator().manual_seed(1))


def label_counts(labels: Tensor, shards: list[Tensor]) -> list[list[int]]:
    return [labels[shard].bincount(minlength=10).tolist() for shard in shards]


@pytest.mark.parametrize("workers", [1, 2, 7, 10, 33])
@pytest.mark.parametrize(
    "how", ["iid", "label", "dirichlet:100", "dirichlet:0.1", "dirichlet:1e-4"]
)
def test_shards_are_equally_large_and_disjoint(how: str, workers: int) -> None:
    shards = partition.shards(labelled(), workers, how, seed=5)
    assert [len(shard) for shard in shards] == [3000 // workers] * workers
    assert len(set(torch.cat(shards).tolist())) == 3000 // workers * workers


def test_label_skew_grows_as_alpha_falls_and_is_largest_by_label() -> None:
    labels = labelled()
    ways = ["iid", "dirichlet:100", "dirichlet:1", "dirichlet:0.1", "label"]
    found = [label_skew(label_counts(labels, partition.shards(labels, 10, w, 2))) for w in ways]
    assert found == sorted(found)
    assert found[0] < 0.1
    assert found[-1] > 0.85


def test_a_partition_depends_on_the_seed_only() -> None:
    labels = labelled()
    torch.manual_seed(99)
    one, again, other = (partition.shards(labels, 4, "dirichlet:0.5", seed) for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("dirichlet:0", "above 0"),
        ("dirichlet:-1", "above 0"),
        ("dirichlet:inf", "above 0"),
        ("dirichlet:x", "there is: iid, label, dirichlet:ALPHA"),
        ("dirichlet", "there is"),
        ("even", "there is"),
    ],
)
def test_an_unknown_partition_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_partition(text)
    with pytest.raises(SpecError, match="partition"):
        Experiment(partition=text)


def samples(count: int = 600) -> Samples:
    labels = labelled(count).to(torch.uint8)
    numbers = torch.arange(count)
    rows = Rows(numbers[:250].view(-1, 1), numbers[250:].view(-1, 1))
    return Samples(rows, labels, rows, labels, lambda x: x.float())


def spec(**options: Any) -> Experiment:
    return Experiment(**{"workers": 3, "batch_size": 10, "train_size": 300, **options})


@pytest.mark.parametrize("how", ["iid", "label", "dirichlet:0.2"])
def test_workers_make_the_steps_of_the_spec_on_samples_of_their_own(how: str) -> None:
    data = samples()
    for epoch in (1, 2):
        taken: list[int] = []
        for rank in range(3):
            batches = list(Shard(spec(partition=how), rank, data).batches(epoch))
            assert len(batches) == spec().steps_per_epoch == 10
            for inputs, labels in batches:
                chosen = inputs.flatten().long()
                assert torch.equal(labels, data.train_labels[chosen].long())
                taken += chosen.tolist()
        assert len(taken) == len(set(taken)) == 300


@pytest.mark.parametrize("how", ["iid", "dirichlet:0.2"])
def test_a_fixed_shuffle_repeats_the_first_epoch(how: str) -> None:
    fixed = Shard(spec(partition=how, shuffle="fixed"), 1, samples())
    usual = Shard(spec(partition=how), 1, samples())
    assert torch.equal(fixed.rows(1), usual.rows(1))
    assert torch.equal(fixed.rows(1), fixed.rows(2))
    assert not torch.equal(usual.rows(1), usual.rows(2))


def test_skewed_shards_stay_with_their_worker_in_all_epochs() -> None:
    shard = Shard(spec(partition="label"), 0, samples())
    assert set(shard.rows(1).flatten().tolist()) == set(shard.rows(2).flatten().tolist())
    counts = shard.label_counts()
    assert counts is not None
    assert sum(counts) == 100
    assert sum(count > 0 for count in counts) <= 5


def test_rows_of_several_files_are_as_if_they_were_one() -> None:
    whole = torch.arange(60).view(20, 3)
    rows = Rows(whole[:7], whole[7:8], whole[8:])
    chosen = torch.tensor([19, 0, 7, 8, 6, 7])
    assert torch.equal(rows[chosen], whole[chosen])
    assert rows.width == 3


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_images_of_one_channel_or_three_are_augmented(name: str) -> None:
    shape = {"mnist": (28, 28), "cifar10": (3, 32, 32)}[name]
    pixels = torch.arange(600 * math.prod(shape)).to(torch.uint8).view(600, *shape)
    still = samples()._replace(train_inputs=Rows(pixels))
    model = "mnist-cnn" if name == "mnist" else "vgg11"
    usual = next(Shard(spec(model=model), 0, still).batches(1))
    changed = next(Shard(spec(model=model, augment=True), 0, still).batches(1))
    assert changed[0].shape == usual[0].shape == (10, *shape)
    assert torch.equal(changed[1], usual[1])
    assert not torch.equal(changed[0], usual[0])


def test_an_image_is_shifted_by_at_most_4_pixels_and_mirrored() -> None:
    images = torch.arange(1, 1 + 2 * 3 * 8 * 8).view(2, 3, 8, 8)
    still = torch.tensor([[4, 4, 0], [4, 4, 1]])
    assert torch.equal(augment(images, still)[0], images[0])
    assert torch.equal(augment(images, still)[1], images[1].flip(-1))
    down = augment(images, torch.tensor([[0, 4, 0], [8, 8, 0]]))
    assert torch.equal(down[0, :, 4:], images[0, :, :4])
    assert not down[0, :, :4].any()
    assert torch.equal(down[1, :, :4, :4], images[1, :, 4:, 4:])
    drawn = draw_augmentation(1000, seed=1, epoch=1)
    assert drawn.amin(0).tolist() == [0, 0, 0]
    assert drawn.amax(0).tolist() == [8, 8, 1]
    assert torch.equal(drawn, draw_augmentation(1000, 1, 1))
    assert not torch.equal(drawn, draw_augmentation(1000, 1, 2))


def test_cifar_records_become_labels_and_planes(tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(1)
    files = [*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"]
    records = {}
    for name in files:
        records[name] = torch.randint(0, 256, (4, 3073), generator=draw, dtype=torch.uint8)
        records[name][:, 0] %= 10
        (tmp_path / name).write_bytes(bytes(records[name].flatten().tolist()))
    data = cifar10.read(tmp_path)
    for number in range(20):
        record = records[files[number // 4]][number % 4]
        assert data.train_labels[number] == record[0]
        image = data.train_inputs[torch.tensor([number])]
        assert torch.equal(image[0], record[1:].view(3, 32, 32))
        ready = data.ready(image)
        assert ready[0, 2, 5, 7] == pytest.approx((int(image[0, 2, 5, 7]) / 255 - 0.4465) / 0.2616)
    assert torch.equal(data.test_labels, records["test_batch.bin"][:, 0])


def test_training_is_summarised_by_epoch() -> None:
    def log(rank: int) -> NodeLog:
        hello = Hello(rank=rank, parameters=7, labels=[20, 0] if rank else [10, 10])
        steps = [
            Step(
                epoch=1 + step // 2,
                step=1 + step,
                loss=1.0 + rank,
                correct=5,
                step_s=0.5,
                data_s=0.1,
                compute_s=0.3,
                exchange_s=0.1 if step < 3 else None,
            )
            for step in range(4)
        ]
        return NodeLog([hello, *steps])

    experiment = Experiment(
        workers=2, train_size=40, batch_size=10, epochs=3, lr=0.1, lr_rule="linear", warmup_epochs=1
    )
    training = describe(experiment, [log(0), log(1)])
    assert training.parameters == 7
    assert training.learning_rate == LearningRate(
        given=0.1, rule="linear", full=0.2, warmup_steps=2
    )
    assert training.shards == Shards(label_counts=[[10, 10], [20, 0]], label_skew=0.25)
    first, second = training.epochs
    assert first == EpochCourse(
        epoch=1,
        train_loss=1.5,
        train_accuracy=0.5,
        seconds=1.0,
        data_s=0.2,
        compute_s=0.6,
        exposed_communication_s=0.2,
    )
    assert second.exposed_communication_s is None
