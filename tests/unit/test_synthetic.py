"""Synthetic models: their names, sizes and emulated compute times."""

from __future__ import annotations

import time

import pytest
import torch
from torch.nn import functional

from cluster.spec.synthetic import Synthetic, parse
from workloads.comm.flat import FlatModel
from workloads.models.networks import make_model


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("synthetic:4M", Synthetic(4_000_000)),
        ("synthetic:87360", Synthetic(87_360)),
        ("synthetic:1.5G:3", Synthetic(1_500_000_000, 3)),
        ("synthetic:16M:64:0s+2s", Synthetic(16_000_000, 64, 0.0, 2.0)),
        ("synthetic:250k:2:20ms+500us", Synthetic(250_000, 2, 0.02, 0.0005)),
    ],
)
def test_a_name_says_size_layers_and_times(text: str, expected: Synthetic) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("name", "tensors", "parameters"),
    [
        ("resnet50", 161, 25_557_032),
        ("vgg16", 32, 138_357_544),
        ("bert-base", 199, 108_310_272),
        ("gpt2", 148, 124_439_808),
    ],
)
def test_a_profile_is_as_large_as_the_network_it_is_named_after(
    name: str, tensors: int, parameters: int
) -> None:
    model = parse(f"synthetic:{name}:0s+2s")
    assert (model.layers, model.size_bytes) == (tensors, 4 * parameters)
    assert (len(model.sizes), sum(model.sizes)) == (tensors, parameters)
    assert (model.forward_s, model.backward_s) == (0.0, 2.0)
    assert parse(f"synthetic:{name}").backward_s == 0.0


def test_one_time_is_a_third_forward_and_two_thirds_backward() -> None:
    model = parse("synthetic:16M:64:3s")
    assert (model.forward_s, model.backward_s) == pytest.approx((1, 2))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "4m",
        "-4M",
        "4M:0",
        "4M:x",
        "4M:2:3",
        "4M:1:1s:2",
        "4:2",
        "5",
        "1e99G",
        "4M:1:-1s",
        "gpt2:5",
        "gpt2:1s:2",
        "gpt3",
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must|expected|need|not understood"):
        parse(f"synthetic:{text}")


def test_the_layers_hold_the_bytes_and_get_gradients() -> None:
    model = make_model("synthetic:1000:7", seed=1)
    flat = FlatModel(model)
    assert [len(weight) for weight in model.parameters()] == [36] * 5 + [35] * 2
    functional.cross_entropy(model(torch.zeros(8, 1, 1, 1)), torch.zeros(8).long()).backward()
    assert torch.all(flat.parts[0].gradients > 0)


def test_a_step_takes_the_time_it_says_and_no_processor() -> None:
    model = make_model("synthetic:4000:10:100ms+200ms", seed=1)
    FlatModel(model)
    labels = torch.zeros(8).long()
    functional.cross_entropy(torch.zeros(8, 2, requires_grad=True), labels).backward()  # warm up
    started, used = time.perf_counter(), time.process_time()
    outputs = model(torch.zeros(8, 1, 1, 1))
    forward = time.perf_counter()
    functional.cross_entropy(outputs, labels).backward()
    done = time.perf_counter()
    # Never less; how much more depends on how busy the machine is.
    assert forward - started >= 0.1
    assert done - started >= 0.3
    assert time.process_time() - used < 0.15
