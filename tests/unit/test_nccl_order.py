"""NCCL's order of messages: grouped messages never deadlock.

Gloo sends without waiting for the receiver, so it cannot show a deadlock. Here workers are threads,
and messages are delivered as by NCCL: a worker has one group in progress; a message is delivered
when both ends are in groups in progress; the next group begins when the last one is delivered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from cluster.spec.experiment import Experiment
from cluster.spec.schedules.pairwise import groups
from tests.unit.test_strategies import values
from workloads.comm import messages
from workloads.comm.half import compressed
from workloads.comm.round import Round
from workloads.strategies import STRATEGIES
from workloads.strategies.parameter_server import serve

PATIENCE_S = 60.0
SIZES = (7, 1_000_003)  # one group, and several


class Deadlock(Exception):
    pass


@dataclass(eq=False)
class Half:
    """One end of a message."""

    kind: str
    tensor: Tensor
    peer: int
    delivered: bool = False


class Network:
    """All workers' groups in progress."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.in_progress: dict[int, list[Half]] = {}
        self.own = threading.local()

    def sendrecv(self, group: Sequence[Half]) -> list[Any]:
        rank = self.own.rank
        with self.changed:
            assert rank not in self.in_progress
            self.in_progress[rank] = list(group)
            self._deliver()
            if not self.changed.wait_for(lambda: all(h.delivered for h in group), PATIENCE_S):
                raise Deadlock(f"worker {rank} is in a deadlock")
            del self.in_progress[rank]
        return []

    def _deliver(self) -> None:
        for rank, group in self.in_progress.items():
            for half in group:
                if half.kind == "send" and not half.delivered:
                    theirs = self.in_progress.get(half.peer, [])
                    ends = [h for h in theirs if (h.kind, h.peer) == ("receive", rank)]
                    other = next((h for h in ends if not h.delivered), None)
                    if other is not None:
                        other.tensor.copy_(half.tensor)
                        half.delivered = other.delivered = True
        self.changed.notify_all()


class OfEachThread(dict[Any, Any]):
    """Reused buffers belong to a process, and here workers are threads."""

    def __contains__(self, key: object) -> bool:
        return super().__contains__((threading.get_ident(), key))

    def __getitem__(self, key: object) -> Any:
        return super().__getitem__((threading.get_ident(), key))

    def __setitem__(self, key: object, value: object) -> None:
        super().__setitem__((threading.get_ident(), key), value)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    made = Network()
    library = SimpleNamespace(
        isend="send", irecv="receive", P2POp=Half, batch_isend_irecv=made.sendrecv
    )
    monkeypatch.setattr(messages, "dist", library)
    monkeypatch.setattr(messages, "_buffers", OfEachThread())
    monkeypatch.setattr(messages, "_grouped", [True])
    return made


def on_all(network: Network, workers: int, work: Callable[[int], Any]) -> list[Any]:
    def as_worker(rank: int) -> Any:
        network.own.rank = rank
        return work(rank)

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(as_worker, range(workers)))


def test_two_workers_that_send_before_they_receive_deadlock(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this the tests below could not fail."""
    monkeypatch.setitem(globals(), "PATIENCE_S", 0.2)

    def work(rank: int) -> None:
        messages.sendrecv([(torch.ones(3), 1 - rank)], [])
        messages.sendrecv([], [(torch.empty(3), 1 - rank)])

    with pytest.raises(Deadlock):
        on_all(network, 2, work)


@pytest.mark.parametrize("workers", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("strategy", ["ring", "gather-scatter", "reduce-broadcast"])
def test_every_worker_gets_the_mean_without_deadlock(
    strategy: str, workers: int, network: Network
) -> None:
    spec = Experiment(strategy=strategy, workers=workers, train_size=60_000)

    def work(rank: int) -> list[Tensor]:
        tensors = [values(rank, size) for size in SIZES]
        for index, flat in enumerate(tensors):
            STRATEGIES[strategy].exchange(flat, Round(spec, rank, index))
        return tensors

    results = on_all(network, workers, work)
    for at, size in enumerate(SIZES):
        mean = torch.stack([values(rank, size) for rank in range(workers)]).double().mean(0)
        for result in results:
            assert torch.equal(result[at], results[0][at])
            assert torch.allclose(result[at].double(), mean, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("workers", "passes", "schedule"),
    [(4, 1, "ring"), (5, 1, "random"), (6, 2, "ring"), (7, 2, "random"), (6, 1, "exponential")],
)
def test_groups_that_change_every_round_average_without_deadlock(
    workers: int, passes: int, schedule: str, network: Network
) -> None:
    spec = Experiment(
        strategy="pairwise", workers=workers, passes=passes, schedule=schedule, train_size=60_000
    )
    rounds = 6

    def work(rank: int) -> Tensor:
        flat = values(rank, 1000)
        for index in range(rounds):
            STRATEGIES["pairwise"].exchange(flat, Round(spec, rank, index))
        return flat

    expected = torch.stack([values(rank, 1000) for rank in range(workers)]).double()
    for index in range(rounds):
        for members in groups(index, workers, passes, schedule, spec.seed):
            expected[list(members)] = expected[list(members)].mean(0)
    results = on_all(network, workers, work)
    assert torch.allclose(torch.stack(results).double(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_a_server_replies_to_all_workers_without_deadlock(workers: int, network: Network) -> None:
    spec = Experiment(strategy="parameter-server", workers=workers, train_size=60_000)

    def work(rank: int) -> list[Tensor]:
        tensors = [values(rank, size) for size in SIZES]
        for index, flat in enumerate(tensors):
            round = Round(spec, rank, index)
            if rank == workers:
                serve(flat, round, None)
            else:
                STRATEGIES["parameter-server"].exchange(flat, round)
        return tensors

    results = on_all(network, workers + 1, work)
    for at, size in enumerate(SIZES):
        mean = torch.stack([values(rank, size) for rank in range(workers)]).double().mean(0)
        for result in results:
            assert torch.allclose(result[at].double(), mean, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("how", ["none", "bf16"])
@pytest.mark.parametrize("strategy", ["ring", "gather-scatter", "reduce-broadcast", "pairwise"])
def test_an_exchange_stays_on_the_device_of_its_tensor(
    strategy: str, how: str, network: Network
) -> None:
    """Tensors of different devices do not mix (tests/unit/test_device.py)."""
    groups: dict[str, Any] = {"passes": 1, "schedule": "ring"} if strategy == "pairwise" else {}
    spec = Experiment(strategy=strategy, workers=4, train_size=60_000, **groups)

    def work(rank: int) -> Tensor:
        flat = torch.empty(1_000_003, device="meta")
        compressed(STRATEGIES[strategy].exchange, how)(flat, Round(spec, rank, 0))
        return flat

    assert {flat.device.type for flat in on_all(network, 4, work)} == {"meta"}
    buffers = dict.values(messages._buffers)
    assert {buffer.device.type for buffer in buffers} == {"meta"}
