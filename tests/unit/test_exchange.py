"""Models of odd tensors, exchanged by every strategy in every kind of bucket: the mean remains."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cluster.spec.exchange.strategies import STRATEGIES
from cluster.spec.experiment import Experiment
from cluster.spec.options import MOMENTUM
from tests.loopback import on_workers
from workloads import strategies
from workloads.comm.exchanger import Exchanger
from workloads.comm.flat import FlatModel
from workloads.comm.round import Round
from workloads.event_log import EventLog
from workloads.launchers.torch_peers import TorchPeers
from workloads.optimizers import Sgd
from workloads.server import Server
from workloads.strategies.parameter_server import serve

HERE = "tests.unit.test_exchange"
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12, torch.bfloat16: 1e-2}
GRADIENT_STRATEGIES = [
    name
    for name, facts in STRATEGIES.items()
    if "gradients" in facts.averages
    and name not in ("single", "ddp", "parameter-server")
    and not facts.unpaced
]
PIECES: list[dict[str, Any]] = [
    {},
    {"bucket_mb": 0.0},
    {"bucket_mb": 0.1},
    {"bucket_mb": 1000.0},
    {"overlap": True},
    {"overlap": True, "bucket_mb": 0.0},
    {"overlap": True, "local_steps": 2},
]


class Zoo(nn.Module):
    """Every odd kind of tensor; the gradient of each is what it is multiplied by."""

    def __init__(self) -> None:
        super().__init__()
        shapes: dict[str, tuple[int, ...]] = {
            "odd": (7, 3),
            "empty": (0,),
            "flat": (3, 0),
            "scalar": (),
            "one": (1,),
            "large": (50_001,),
        }
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.ones(shape)))
        self.long = nn.Parameter(torch.ones(11, dtype=torch.float64))
        self.short = nn.Parameter(torch.ones(13, dtype=torch.bfloat16))
        self.transposed = nn.Parameter(torch.arange(24.0).view(6, 4).t())
        self.frozen = nn.Parameter(torch.ones(5), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(9))

    def forward(self, rank: int, step: int) -> Tensor:
        return sum(
            (tensor * gradient_of(name, tensor, rank, step)).sum().float()
            for name, tensor in self.named_parameters()
            if name != "unused"
        )  # type: ignore[return-value]


def gradient_of(name: str, tensor: Tensor, rank: int, step: int) -> Tensor:
    return random_values(name, tensor.shape, rank, step).to(tensor.dtype)


@functools.cache
def random_values(name: str, shape: torch.Size, rank: int, step: int) -> Tensor:
    if name == "unused":
        return torch.zeros(shape)
    seed = 1000 * rank + 100 * step + len(name) + ord(name[0])
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def experiment(strategy: str, workers: int, **options: Any) -> Experiment:
    """An experiment of a model with buffers, and with a constant learning rate."""
    fixed: dict[str, Any] = {"model": "mnist-bn", "lr_rule": "none", "train_size": 60_000}
    if STRATEGIES[strategy].needs_sites and workers > 1:
        fixed["sites"] = f"a:{workers - 1},b:1"
    return Experiment(strategy=strategy, workers=workers, **fixed, **options)


def make_exchanger(model: nn.Module, spec: Experiment, rank: int) -> Exchanger:
    flat = FlatModel(model)
    exchanger = TorchPeers(spec, rank, None).prepare(model, flat, Sgd(flat, 0.1, 0)).exchanger
    assert isinstance(exchanger, Exchanger)
    return exchanger


def exchanged_gradients(rank: int, workers: int) -> dict[tuple[str, int], dict[str, Tensor]]:
    """The gradients after the second of two rounds, of every strategy and kind of bucket."""
    results = {}
    for strategy in GRADIENT_STRATEGIES:
        for kind, options in enumerate(PIECES):
            spec = experiment(strategy, workers, **options)
            model = Zoo()
            exchanger = make_exchanger(model, spec, rank)
            for index in range(2):
                for part in exchanger.flat.parts:
                    part.gradients.zero_()
                for step in range(spec.local_steps - 1):
                    model(rank, step).backward()
                exchanger.begin_round(index, spec.local_steps)
                model(rank, spec.local_steps - 1).backward()
                exchanger.finish_round()
            results[strategy, kind] = {
                name: tensor.grad.clone()
                for name, tensor in model.named_parameters()
                if tensor.grad is not None
            }
    return results


def trained_with_a_server(rank: int, nodes: int) -> dict[int, dict[str, Tensor]]:
    """Parameters after two rounds; the last rank is the server."""
    results = {}
    for kind, options in enumerate(PIECES):
        spec = experiment("parameter-server", nodes - 1, **options)
        if rank == spec.workers:
            server = Server(spec, rank, EventLog(None, "server"), Zoo())
            for index in range(2):
                server.reply(Round(spec, rank, index))
            continue
        model = Zoo()
        exchanger = make_exchanger(model, spec, rank)
        for index in range(2):
            for step in range(spec.local_steps - 1):
                model(rank, step).backward()
            exchanger.begin_round(index, spec.local_steps)
            model(rank, spec.local_steps - 1).backward()
            exchanger.finish_round()
            exchanger.flat.take_parameters_from_gradients()
        results[kind] = {name: p.detach().clone() for name, p in model.named_parameters()}
    return results


def added_up(rank: int, workers: int) -> dict[str, Tensor]:
    """--reduce sum, by every strategy that can."""
    results = {}
    for strategy in GRADIENT_STRATEGIES:
        spec = experiment(strategy, workers, reduce="sum")
        results[strategy] = torch.full((1000,), float(rank + 1))
        strategies.STRATEGIES[strategy].exchange(results[strategy], Round(spec, rank, 0))
    return results


def added_up_by_a_server(rank: int, nodes: int) -> dict[str, Tensor]:
    spec = experiment("parameter-server", nodes - 1, reduce="sum")
    flat = torch.full((1000,), float(rank + 1))
    if rank == spec.workers:
        serve(flat, Round(spec, rank, 0), None)
    else:
        strategies.STRATEGIES["parameter-server"].exchange(flat, Round(spec, rank, 0))
    return {"parameter-server": flat}


def buffers_after_a_round(rank: int, workers: int) -> dict[tuple[str, str], list[Tensor]]:
    results = {}
    for strategy in ("allreduce", "gather-scatter", "pairwise"):
        for buffers in ("broadcast", "average", "local"):
            passes: dict[str, Any] = {"passes": 1, "schedule": "ring"}
            options = passes if strategy == "pairwise" else {}
            reduce = (
                "mean" if strategy == "pairwise" else "sum"
            )  # of gradients: statistics are averaged
            spec = experiment(strategy, workers, buffers=buffers, reduce=reduce, **options)
            model = nn.Sequential(nn.BatchNorm1d(3), nn.BatchNorm1d(2, dtype=torch.float64))
            for buffer in model.buffers():
                buffer.fill_(rank)
            exchanger = make_exchanger(model, spec, rank)
            exchanger.begin_round(0, 1)
            exchanger.finish_round()
            results[strategy, buffers] = [b.clone() for b in model.buffers()]
    return results


def mean_gradients(tensors: Mapping[str, Tensor], workers: int, steps: int) -> dict[str, Tensor]:
    """Over all workers and steps, by name."""
    places = list(itertools.product(range(workers), range(steps)))
    return {
        name: torch.stack([gradient_of(name, tensor, *place) for place in places]).double().mean(0)
        for name, tensor in tensors.items()
    }


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 6])
def test_every_strategy_leaves_the_mean_of_odd_tensors(workers: int, tmp_path: Path) -> None:
    results = on_workers(f"{HERE}:exchanged_gradients", workers, tmp_path)
    tensors = dict(Zoo().named_parameters())
    means = {steps: mean_gradients(tensors, workers, steps) for steps in (1, 2)}
    for strategy, kind in results[0]:
        gradients = results[0][strategy, kind]
        assert set(gradients) == set(tensors) - {"frozen"}
        for name, got in gradients.items():
            mean = means[PIECES[kind].get("local_steps", 1)][name]
            near = TOLERANCE[got.dtype]
            assert torch.allclose(got.double(), mean, rtol=near, atol=near), (strategy, kind, name)
            for result in results:
                assert torch.equal(result[strategy, kind][name], got), (strategy, kind, name)


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_a_server_updates_by_the_mean_and_sends_the_model_to_all_workers(
    workers: int, tmp_path: Path
) -> None:
    results = on_workers(f"{HERE}:trained_with_a_server", workers + 1, tmp_path)[:-1]
    spec = Experiment()
    tensors = dict(Zoo().named_parameters())
    means = {steps: mean_gradients(tensors, workers, steps) for steps in (1, 2)}
    for kind, options in enumerate(PIECES):
        for name, start in tensors.items():
            got = results[0][kind][name]
            expected = start.double()
            if name != "frozen":
                mean = means[options.get("local_steps", 1)][name]
                # Two steps of SGD with momentum on the same gradient: 1 and 1 + momentum times it.
                expected = expected - spec.lr * (2 + MOMENTUM) * mean
            near = TOLERANCE[got.dtype]
            assert torch.allclose(got.double(), expected, rtol=near, atol=near), (kind, name)
            for result in results:
                assert torch.equal(result[kind][name], got), (kind, name)


@pytest.mark.parametrize(("function", "servers"), [("added_up", 0), ("added_up_by_a_server", 1)])
def test_reduce_sum_leaves_the_sum(function: str, servers: int, tmp_path: Path) -> None:
    for result in on_workers(f"{HERE}:{function}", 4 + servers, tmp_path):
        for strategy, got in result.items():
            assert torch.equal(got, torch.full((1000,), 10.0)), strategy


def test_buffers_are_broadcast_averaged_or_left(tmp_path: Path) -> None:
    results = on_workers(f"{HERE}:buffers_after_a_round", 4, tmp_path)
    for rank, result in enumerate(results):
        for (strategy, buffers), got in result.items():
            pair = (rank // 2) * 2 + 0.5  # round 0 of the ring: 0 1 | 2 3
            average = pair if strategy == "pairwise" else 1.5
            expected = {"broadcast": 0, "average": average, "local": rank}[buffers]
            for buffer in got:
                # Counters are not exchanged: every worker counts alike.
                value = expected if buffer.is_floating_point() else rank
                assert torch.all(buffer == value), (strategy, buffers, rank)


def test_parameters_gradients_and_buffers_of_a_flat_model_are_views_of_a_few_tensors() -> None:
    model = nn.Sequential(Zoo(), nn.BatchNorm1d(3))
    values = [p.detach().clone() for p in model.parameters()]
    flat = FlatModel(model)
    assert len(flat.parts) == 3  # float32, float64, bfloat16
    for parameter, value in zip(model.parameters(), values, strict=True):
        assert torch.equal(parameter, value)
    for tensor in flat.state:
        tensor.fill_(2)
    for name, parameter in model.named_parameters():
        assert torch.all(parameter == (1 if name.endswith("frozen") else 2)), name
    assert isinstance(model[1], nn.BatchNorm1d)
    assert torch.all(model[1].running_mean == 2)  # type: ignore[arg-type]
