"""Virtual workers: what they refuse, and that messages between threads are those between nodes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import HashStore

from cluster import flags
from cluster.spec.errors import SpecError
from cluster.spec.exchange.strategies import STRATEGIES as FACTS
from cluster.spec.experiment import Experiment
from tests.loopback import on_workers
from workloads.comm.messages import group_messages
from workloads.comm.outer import stateful_exchange
from workloads.comm.round import Round
from workloads.strategies import STRATEGIES
from workloads.virtual.group import Abandoned, open_group, reduced_as_by_a_ring

HERE = "tests.unit.test_virtual"
"""As the process that forks workers imports it."""
ROUNDS = 3
LENGTH = 1003
COMPOSITIONS: dict[str, dict[str, Any]] = {
    **{
        name: {"strategy": name}
        for name in FACTS
        if FACTS[name].exchanges
        and not (FACTS[name].has_server or FACTS[name].unpaced or name == "ddp")
    },
    "groups": {"strategy": "pairwise", "passes": 2, "schedule": "random"},
    "2bit": {"strategy": "local-sgd", "compress": "2bit", "outer": "nesterov:0.7:0.9"},
    "top-k": {"strategy": "allreduce", "compress": "topk:0.05"},
    "sign, gathered": {"strategy": "allgather", "compress": "sign"},
    "int8, scattered": {"strategy": "gather-scatter", "compress": "int8"},
    "randk": {"strategy": "pairwise", "compress": "randk:0.1"},
}


def compositions(workers: int) -> Iterator[tuple[str, Experiment]]:
    for name, options in COMPOSITIONS.items():
        if name == "hierarchical":
            options = {**options, "sites": f"a:{workers // 2},b:{workers - workers // 2}"}
        yield name, Experiment(workers=workers, train_size=6000, **options)


def exchanges(rank: int, workers: int) -> dict[str, Tensor]:
    """Of every composition, what a worker has after some rounds of training and exchange."""
    found = {}
    for name, spec in compositions(workers):
        flat = torch.randn(LENGTH, generator=torch.Generator().manual_seed(1))
        draw = torch.Generator().manual_seed(100 + rank)
        exchange = stateful_exchange(STRATEGIES[spec.strategy].exchange, spec, flat)
        for index in range(ROUNDS):
            flat.add_(torch.randn(LENGTH, generator=draw))
            exchange(flat, Round(spec, rank, index))
        found[name] = flat
    return found


def in_threads(workers: int, work: Callable[[int], Any]) -> list[Any]:
    """What each virtual worker found, by rank; the first error of one."""
    dist.destroy_process_group()  # of the one process that this case has
    group, found = open_group(workers), dict[int, Any]()
    group_messages(True)

    def be(rank: int) -> None:
        try:
            with group.as_rank(rank):
                found[rank] = work(rank)
        except (Exception, Abandoned):
            pass

    threads = [threading.Thread(target=be, args=(rank,)) for rank in range(workers)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        group_messages(False)
        dist.destroy_process_group()
        dist.init_process_group("gloo", rank=0, world_size=1, store=HashStore())
    if group.failure is not None:
        raise group.failure
    return [found[rank] for rank in range(workers)]


@pytest.mark.parametrize("workers", [2, 4, 6])
def test_every_exchange_ends_as_between_processes(workers: int, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "virtual").mkdir()
    real = on_workers(f"{HERE}:exchanges", workers, tmp_path / "real")
    (virtual,) = on_workers(f"{HERE}:virtual_of_{workers}", 1, tmp_path / "virtual")
    for rank in range(workers):
        assert real[rank].keys() == virtual[rank].keys()
        for name, expected in real[rank].items():
            torch.testing.assert_close(virtual[rank][name], expected, rtol=0, atol=1e-5, msg=name)


def virtual_of_2(_rank: int, _workers: int) -> Any:
    return in_threads(2, lambda rank: exchanges(rank, 2))


def virtual_of_4(_rank: int, _workers: int) -> Any:
    return in_threads(4, lambda rank: exchanges(rank, 4))


def virtual_of_6(_rank: int, _workers: int) -> Any:
    return in_threads(6, lambda rank: exchanges(rank, 6))


@pytest.mark.parametrize(("workers", "length"), [(1, 5), (3, 2), (4, 10), (5, 0), (7, 100)])
def test_a_sum_is_that_of_the_ring_written_out(workers: int, length: int) -> None:
    """Piece j begins at rank j: the rounding is the ring's, so a real run ends with these bits."""
    draw = torch.Generator().manual_seed(length)
    tensors = [torch.randn(length, generator=draw) for _ in range(workers)]
    pieces = [torch.tensor_split(tensor, workers) for tensor in tensors]
    expected = []
    for j in range(workers):
        total = pieces[j][j].clone()
        for hop in range(1, workers):
            total += pieces[(j + hop) % workers][j]
        expected.append(total)
    assert torch.equal(reduced_as_by_a_ring(tensors), torch.cat(expected))


def other_collectives(rank: int) -> dict[str, Any]:
    largest = torch.tensor([float(rank)])
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    gathered = [torch.empty(1) for _ in range(4)]
    dist.all_gather(gathered, torch.tensor([float(rank)]))
    from_two = torch.tensor([float(rank)])
    dist.broadcast(from_two, 2)
    torch.manual_seed(rank)
    first = torch.rand(1)
    dist.barrier()
    return {
        "largest": float(largest),
        "gathered": [float(each) for each in gathered],
        "from two": float(from_two),
        "random": torch.cat([first, torch.rand(1)]).tolist(),
    }


def collectives_of_4(_rank: int, _workers: int) -> Any:
    return in_threads(4, other_collectives)


def test_collectives_of_a_strategy_of_ones_own_and_random_numbers(tmp_path: Path) -> None:
    (found,) = on_workers(f"{HERE}:collectives_of_4", 1, tmp_path)
    for rank in range(4):
        torch.manual_seed(rank)
        assert found[rank]["largest"] == 3
        assert found[rank]["gathered"] == [0, 1, 2, 3]
        assert found[rank]["from two"] == 2
        assert found[rank]["random"] == torch.rand(2).tolist()


def nobody_sends(_rank: int, _workers: int) -> str:
    def work(rank: int) -> None:
        if rank == 1:
            dist.recv(torch.empty(1), 0)
        else:
            dist.barrier()

    with pytest.raises(RuntimeError) as error:
        in_threads(3, work)
    return str(error.value)


def one_fails(_rank: int, _workers: int) -> str:
    def work(rank: int) -> None:
        if rank == 2:
            raise ValueError("worker 2 has no data")
        dist.barrier()

    with pytest.raises(ValueError, match="no data") as error:
        in_threads(3, work)
    return str(error.value)


@pytest.mark.parametrize(
    ("case", "says"), [("nobody_sends", "0, 1, 2 wait"), ("one_fails", "worker 2 has no data")]
)
def test_workers_that_cannot_go_on_end_with_the_reason(
    case: str, says: str, tmp_path: Path
) -> None:
    (told,) = on_workers(f"{HERE}:{case}", 1, tmp_path)
    assert says in told


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"workers": 300, "train_size": 60_000}, "use --virtual 300"),
        ({"virtual": True, "cpus": 0.5}, "cpus does not apply to virtual workers"),
        ({"virtual": True, "straggler": "1:0.5"}, "straggler does not apply to virtual workers"),
        ({"virtual": True, "dilation": 2.0}, "leave it out"),
        ({"virtual": True, "strategy": "ddp"}, "allreduce is the same"),
        ({"virtual": True, "overlap": True}, "overlap does not apply to virtual workers"),
        ({"virtual": True, "launcher": "horovod"}, "use --launcher torch"),
        ({"virtual": True, "strategy": "single", "workers": 1}, "virtual does not apply"),
        ({"virtual": True, "strategy": "async-pairwise"}, "without a barrier"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(options: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError) as refusal:
        Experiment(**options)
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_virtual_takes_the_number_of_workers() -> None:
    args = flags.parse(["--virtual", "16,1000"])
    assert (args.virtual, args.workers) == ("yes", "16,1000")
    assert flags.parse(["--virtual", "--workers", "8"]).workers == "8"
    for typed in (["--virtual", "many"], ["--virtual", "8", "--workers", "4"]):
        with pytest.raises(SpecError, match="virtual"):
            flags.parse(typed)
