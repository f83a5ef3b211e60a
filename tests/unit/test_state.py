"""A worker whose state is taken over by a new one goes on bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cluster.spec.experiment import Experiment
from tests.loopback import on_workers
from workloads import state
from workloads.comm.flat import FlatModel
from workloads.comm.peers import Preparation
from workloads.launchers.torch_peers import TorchPeers
from workloads.optimizers import Optimizer, make_optimizer

HERE = "tests.unit.test_state"
WORKERS = 3
COMPOSITIONS: dict[str, dict[str, Any]] = {
    "allreduce": {"strategy": "allreduce", "momentum": 0.9},
    "adamw": {"strategy": "allreduce", "optimizer": "adamw", "lr": 0.01},
    "lars": {"strategy": "ring", "optimizer": "lars"},
    "buckets": {"strategy": "allreduce", "bucket_mb": 0.0, "local_steps": 2},
    "two phases": {"strategy": "allreduce", "compress": "2bit"},
    "top-k": {"strategy": "allgather", "compress": "topk:0.1", "error_feedback": 0.9},
    "star": {"strategy": "gather-scatter", "compress": "int4"},
    "random places": {"strategy": "ring", "compress": "randk:0.1"},
    "powersgd": {"strategy": "allreduce", "compress": "powersgd:1"},
    "sparta": {"strategy": "allreduce", "average": "parameters", "compress": "randk:0.1"},
    "diloco": {"strategy": "local-sgd", "local_steps": 2, "outer": "nesterov:0.7:0.9"},
    "sparseloco": {"strategy": "local-sgd", "local_steps": 2, "compress": "topk:0.1"},
    "streaming": {
        "strategy": "local-sgd",
        "local_steps": 2,
        "stream": "3:1:0.5",
        "outer": "nesterov:0.7:0.9",
        "compress": "int4",
        "train_size": WORKERS * 64 * 6,  # an epoch ends where the run is cut
    },
    "sgp": {"strategy": "sgp", "momentum": 0.9},
    "noloco": {"strategy": "pairwise", "schedule": "random", "outer": "nesterov:0.7:0.3"},
}
STEPS, CUT = 12, 6


class Worker:
    """A small network with batch norm, trained on batches that follow from rank and step."""

    def __init__(self, spec: Experiment, rank: int) -> None:
        torch.manual_seed(spec.seed)
        self.spec, self.rank = spec, rank
        self.model = nn.Sequential(
            nn.Linear(12, 40), nn.BatchNorm1d(40), nn.ReLU(), nn.Linear(40, 6)
        )
        self.flat = FlatModel(self.model)
        self.optimizer: Optimizer = make_optimizer(spec, self.flat)
        peers = TorchPeers(spec, rank, None)
        self.prepared: Preparation = peers.prepare(self.model, self.flat, self.optimizer)

    @property
    def state(self) -> dict[str, Tensor]:
        exchanger = self.prepared.exchanger
        return state.state_of(self.model, self.flat, self.optimizer, exchanger)

    def train(self, first: int, last: int) -> None:
        """As workloads/training.py does; steps are numbered from 0 and go on in the next epoch."""
        exchanger, every = self.prepared.exchanger, self.spec.local_steps
        for step in range(first, last):
            epoch, index = divmod(step, self.spec.steps_per_epoch)
            is_last = index + 1 == self.spec.steps_per_epoch
            due = (index + 1) % every == 0 or is_last
            if due:
                number = epoch * self.spec.rounds_per_epoch + index // every
                exchanger.begin_round(number, index % every + 1)
            loss_of(self.model, step, self.rank).backward()
            if self.spec.average == "parameters":
                self.optimizer.step()
            if due:
                exchanger.finish_round()
                if self.spec.average == "gradients":
                    self.prepared.update()
            elif self.prepared.after_local_step is not None:
                self.prepared.after_local_step()


def loss_of(model: nn.Module, step: int, rank: int) -> Tensor:
    seeded = torch.Generator().manual_seed(100 * step + rank)
    inputs, labels = torch.randn(8, 12, generator=seeded), torch.arange(8) % 6
    return nn.functional.cross_entropy(model(inputs), labels)


def _spec(options: dict[str, Any]) -> Experiment:
    return Experiment(**{"workers": WORKERS, "train_size": 60_000, "lr_rule": "none", **options})


def interrupted(rank: int, workers: int) -> dict[str, tuple[dict[str, Tensor], ...]]:
    """The final state of the worker that trained on, and of the one that took over."""
    found: dict[str, tuple[dict[str, Tensor], ...]] = {}
    for name, options in COMPOSITIONS.items():
        whole, later = Worker(_spec(options), rank), Worker(_spec(options), rank)
        whole.train(0, CUT)
        middle = {key: tensor.clone() for key, tensor in whole.state.items()}
        whole.train(CUT, STEPS)
        state.take_over(later.state, middle)
        later.train(CUT, STEPS)
        found[name] = (middle, whole.state, later.state)
    return found


def test_every_composition_goes_on_bit_for_bit(tmp_path: Path) -> None:
    for found in on_workers(f"{HERE}:interrupted", WORKERS, tmp_path):
        assert set(found) == set(COMPOSITIONS)
        for name, (middle, whole, later) in found.items():
            assert whole.keys() == later.keys(), name
            assert all(torch.equal(whole[key], later[key]) for key in whole), name
            assert not torch.equal(middle["parameters.0"], whole["parameters.0"]), name
            memory = [key for key in whole if key.startswith("exchange.")]
            spec = _spec(COMPOSITIONS[name])
            remembers = spec.outer != "none" or spec.error_feedback is not None
            assert bool(memory) == (remembers or spec.strategy == "sgp"), name


def test_a_state_file_gives_back_the_worker_and_its_random_numbers(tmp_path: Path) -> None:
    spec = Experiment(workers=1, optimizer="adamw")
    worker, other = Worker(spec, 0), Worker(spec, 0)
    worker.train(0, 3)
    state.save(tmp_path / "state.pt", worker.state)
    drawn = torch.rand(3)
    state.load(tmp_path / "state.pt", other.state)
    assert torch.equal(torch.rand(3), drawn)
    assert other.optimizer.updates == 3
    for one in (worker, other):
        one.train(3, 5)
    assert all(torch.equal(worker.state[key], other.state[key]) for key in worker.state)


def test_the_state_of_another_worker_is_refused(tmp_path: Path) -> None:
    worker, other = Worker(Experiment(workers=1), 0), Worker(Experiment(optimizer="adamw"), 0)
    state.save(tmp_path / "state.pt", worker.state)
    with pytest.raises(state.StateError, match="another model or strategy: optimizer"):
        state.load(tmp_path / "state.pt", other.state)
    (tmp_path / "state.pt").write_bytes(b"nothing")
    with pytest.raises(state.StateError, match="holds no saved state"):
        state.load(tmp_path / "state.pt", other.state)
