"""Laws of the strategies without a barrier, on real workers over loopback."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from cluster.observe.result_row import find_extras, headings, row
from cluster.spec.documents.membership import Place
from cluster.spec.documents.summary import Summary, WorkerProgress
from cluster.spec.experiment import Experiment
from cluster.spec.schedules.unpaced import PAIRWISE, Partner, sent_by_pair
from tests.loopback import on_workers
from workloads.comm.flat import FlatModel
from workloads.event_log import EventLog
from workloads.server import Server
from workloads.unpaced import open_exchanger
from workloads.unpaced.addresses import Addresses, meet
from workloads.unpaced.frames import PeerLost
from workloads.unpaced.merging import Merging
from workloads.unpaced.pace import UnpacedExchanger
from workloads.unpaced.serving import Push
from workloads.unpaced.shared_state import SharedState
from workloads.unpaced.tickets import Tickets

pytestmark = pytest.mark.timeout(60)

STEPS, EPOCHS, SIZE = 8, 3, 301
"""Steps of an epoch for each worker; an odd number of parameters."""


def spec(strategy: str, workers: int, **options: Any) -> Experiment:
    sizes = {"train_size": workers * STEPS, "batch_size": 1, "epochs": EPOCHS}
    return Experiment(**{"strategy": strategy, "workers": workers, **sizes, **options})


def model_of(rank: int) -> tuple[nn.Linear, FlatModel]:
    model = nn.Linear(SIZE - 1, 1)
    flat = FlatModel(model)
    generator = torch.Generator().manual_seed(rank)
    flat.parts[0].parameters.copy_(torch.randn(SIZE, generator=generator))
    return model, flat


def train(
    exchanger: UnpacedExchanger, flat: FlatModel, change: float, pause_s: float = 0.0
) -> dict[str, Any]:
    """Every step adds `change` to each parameter, or to each gradient."""
    import torch.distributed as dist

    numbers, events = [], []
    for epoch in range(1, EPOCHS + 1):
        dist.barrier()
        pending = 0
        for turn in exchanger.turns(Place(epoch=epoch)):
            numbers.append(turn.of_all)
            time.sleep(pause_s)
            pending += 1
            gradient = exchanger.spec.average == "gradients"  # type: ignore[attr-defined]
            part = flat.parts[0]
            (part.gradients if gradient else part.parameters).add_(change)
            if turn.due:
                exchanger.begin_round(0, pending)
                exchanger.finish_round()
                pending = 0
        dist.barrier()
        events.append(exchanger.settle(epoch))
        dist.barrier()
    exchanger.close()
    return {
        "numbers": numbers,
        "state": flat.parts[0].parameters.clone(),
        "steps": sum(event.steps for event in events if event),
        "rounds": sum(event.rounds for event in events if event),
        "staleness": max(event.staleness_max for event in events if event),
        "partners": [tuple(p) for event in events if event for p in event.partners],
    }


# ------------------------------------------------------------------------------- on real workers


def _pairs(rank: int, workers: int) -> dict[str, Any]:
    run = spec("async-pairwise", workers)
    _, flat = model_of(rank)
    exchanger = open_exchanger(run, rank, flat, meet(rank, 30.0))
    return train(exchanger, flat, change=0.5 * (rank + 1), pause_s=0.002 * (rank == 0))


def _served(strategy: str, rank: int, nodes: int, pause_s: float, **options: Any) -> dict[str, Any]:
    workers = nodes - 1
    run = spec(strategy, workers, **options)
    addresses = meet(rank, 30.0)
    if rank < workers:
        _, flat = model_of(99)  # all begin alike, and the server too
        exchanger = open_exchanger(run, rank, flat, addresses)
        return train(exchanger, flat, change=1.0 * (rank + 1), pause_s=pause_s)
    return _serve(run, addresses)


def _serve(run: Experiment, addresses: Addresses) -> dict[str, Any]:
    import torch.distributed as dist

    model, flat = model_of(99)
    server = Server(run, run.workers, EventLog(None, "node"), model)
    server.flat.parts[0].parameters.copy_(flat.parts[0].parameters)
    service = server.open_service(addresses, run)
    for epoch in range(1, EPOCHS + 1):
        dist.barrier()
        service.run_epoch(epoch)
        for _ in range(2):
            dist.barrier()
    service.close()
    return {"state": server.flat.parts[0].parameters.clone()}


def _quorum_of_all(rank: int, nodes: int) -> dict[str, Any]:
    return _served("quorum", rank, nodes, 0.0, quorum=nodes - 1, local_steps=2)


def _quorum(rank: int, nodes: int) -> dict[str, Any]:
    return _served("quorum", rank, nodes, 0.02 * (rank == 0), local_steps=2, grace=0.0)


def _free_server(rank: int, nodes: int) -> dict[str, Any]:
    return _served("async-server", rank, nodes, 0.01 * (rank == 0), momentum=0.0, lr_rule="none")


def _bounded_server(rank: int, nodes: int) -> dict[str, Any]:
    return _served("async-server", rank, nodes, 0.01 * (rank == 0), staleness=2)


def run_on(function: str, nodes: int, folder: Path) -> list[dict[str, Any]]:
    return on_workers(f"tests.unit.test_unpaced:{function}", nodes, folder)


def every_step_once(found: list[dict[str, Any]], workers: int) -> None:
    """Each step of the run is made by one worker, and each worker makes one in every epoch."""
    numbers = [number for worker in found[:workers] for number in worker["numbers"]]
    assert sorted(numbers) == list(range(1, workers * STEPS * EPOCHS + 1))
    for worker in found[:workers]:
        epochs = {(number - 1) // (workers * STEPS) for number in worker["numbers"]}
        assert epochs == set(range(EPOCHS))
        assert worker["steps"] == len(worker["numbers"])


@pytest.mark.parametrize("workers", range(1, 7))
def test_pairs_leave_the_mean_and_make_every_step_once(workers: int, tmp_path: Path) -> None:
    found = run_on("_pairs", workers, tmp_path)
    every_step_once(found, workers)
    mean = torch.stack([worker["state"].double() for worker in found]).mean(0)
    begin = torch.stack([model_of(r)[1].parts[0].parameters.double() for r in range(workers)])
    changes = sum(0.5 * (rank + 1) * worker["steps"] for rank, worker in enumerate(found))
    torch.testing.assert_close(mean, begin.mean(0) + changes / workers, atol=1e-4, rtol=1e-5)
    exchanged = sum(partner[1] for worker in found for partner in worker["partners"])
    assert (exchanged > 0) == (workers > 1)
    assert sum(worker["rounds"] for worker in found) == 2 * exchanged


@pytest.mark.parametrize("workers", range(1, 7))
def test_a_quorum_of_all_is_the_mean_of_all(workers: int, tmp_path: Path) -> None:
    """Nobody is late: parameters are those of an exact mean after every two steps."""
    found = run_on("_quorum_of_all", workers + 1, tmp_path)
    every_step_once(found, workers)
    assert all(worker["staleness"] == 0 for worker in found[:workers])
    start = model_of(99)[1].parts[0].parameters
    expected = start + STEPS * EPOCHS * sum(range(1, workers + 1)) / workers
    for node in found:
        torch.testing.assert_close(node["state"], expected, atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("workers", [2, 5])
def test_a_quorum_goes_on_without_a_slow_worker(workers: int, tmp_path: Path) -> None:
    found = run_on("_quorum", workers + 1, tmp_path)
    every_step_once(found, workers)
    assert found[0]["steps"] < STEPS * EPOCHS < max(worker["steps"] for worker in found[1:workers])
    assert found[0]["staleness"] > 0
    for node in found[1:]:
        assert torch.equal(node["state"], found[0]["state"]), "an epoch ends with equal models"


@pytest.mark.parametrize("workers", range(1, 7))
def test_a_server_takes_every_gradient_once(workers: int, tmp_path: Path) -> None:
    """Without momentum the model has moved by the sum of all gradients over N."""
    found = run_on("_free_server", workers + 1, tmp_path)
    every_step_once(found, workers)
    for node in found[1:]:
        assert torch.equal(node["state"], found[0]["state"])
    assert sum(worker["rounds"] for worker in found[:workers]) == workers * STEPS * EPOCHS
    gradients = sum((rank + 1) * w["steps"] for rank, w in enumerate(found[:workers]))
    expected = model_of(99)[1].parts[0].parameters - 0.05 * gradients / workers
    torch.testing.assert_close(found[0]["state"], expected, atol=1e-4, rtol=1e-5)


def test_no_worker_is_further_ahead_than_its_bound(tmp_path: Path) -> None:
    free, bounded = tmp_path / "free", tmp_path / "bounded"
    free.mkdir()
    bounded.mkdir()
    assert max(w["staleness"] for w in run_on("_free_server", 4, free)[:3]) > 2
    found = run_on("_bounded_server", 4, bounded)
    every_step_once(found, 3)
    assert max(worker["staleness"] for worker in found[:3]) <= 2


def _lost(rank: int, workers: int) -> str:
    """The last worker closes its connections in the middle of the run."""
    run = spec("async-pairwise", workers)
    _, flat = model_of(rank)
    addresses = meet(rank, 30.0)
    exchanger = open_exchanger(run, rank, flat, addresses)
    if rank == workers - 1:
        next(exchanger.turns(Place()))
        exchanger.finish_round()
        time.sleep(0.2)
        addresses.listener.close()
        exchanger._listener.close()  # type: ignore[attr-defined]
        return ""
    try:
        for _ in range(EPOCHS * STEPS * 100):
            time.sleep(0.01)
            exchanger.finish_round()
    except PeerLost as lost:
        return f"{lost.rank} {lost}"
    return "nothing was noticed"


def test_a_lost_node_is_named(tmp_path: Path) -> None:
    first, _ = on_workers("tests.unit.test_unpaced:_lost", 2, tmp_path)
    assert first.startswith("1 lost node1: "), first


def _few_left(rank: int, nodes: int) -> dict[str, Any]:
    """Two steps for three workers: one gets none, and the model all the same."""
    import torch.distributed as dist

    found: dict[str, Any] = {}
    for strategy in ("quorum", "async-server"):
        run, last = spec(strategy, nodes - 1), (nodes - 1) * STEPS
        addresses = meet(rank, 30.0)
        model, flat = model_of(99)
        numbers: list[int | None] = []
        if rank == run.workers:
            server = Server(run, rank, EventLog(None, "node"), model)
            server.flat.parts[0].parameters.copy_(flat.parts[0].parameters)
            merged: list[int] = []
            service = server.open_service(addresses, run, merged.extend)
            service.run_epoch(1, range(last - 1, last + 1))
            flat.parts[0].parameters.copy_(server.flat.parts[0].parameters)
            service.close()
            numbers += sorted(merged)
        else:
            exchanger = open_exchanger(run, rank, flat, addresses)
            for turn in exchanger.turns(Place()):
                numbers.append(turn.of_all)
                part = flat.parts[0]
                (part.gradients if run.average == "gradients" else part.parameters).add_(1.0)
                exchanger.begin_round(0, 1)
                exchanger.finish_round()
            exchanger.close()
        found[strategy] = numbers, flat.parts[0].parameters.clone()
        dist.barrier()
    return found


def test_a_worker_without_a_step_gets_the_model_and_a_server_tells_what_is_in_it(
    tmp_path: Path,
) -> None:
    *workers, server = run_on("_few_left", 4, tmp_path)
    for strategy in ("quorum", "async-server"):
        expected = [3 * STEPS - 1, 3 * STEPS]
        assert sorted(n for worker in workers for n in worker[strategy][0]) == expected
        assert server[strategy][0] == expected
        for worker in workers:
            assert torch.equal(worker[strategy][1], server[strategy][1])


def _skipped(rank: int, workers: int) -> bool:
    """As in _lost, where the others go on: whether this one exchanged with another after that."""
    run = spec("async-pairwise", workers, on_failure="continue")
    _, flat = model_of(rank)
    addresses = meet(rank, 30.0)
    exchanger = open_exchanger(run, rank, flat, addresses)
    if rank == workers - 1:
        next(exchanger.turns(Place()))
        exchanger.finish_round()
        time.sleep(0.1)
        addresses.listener.close()
        exchanger._listener.close()  # type: ignore[attr-defined]
        return False
    before: int | None = None
    for _ in range(2000):
        time.sleep(0.005)
        exchanger.finish_round()
        done = sum(exchanger._record.exchanges.values())  # type: ignore[attr-defined]
        if before is None and workers - 1 in exchanger._gone:  # type: ignore[attr-defined]
            before = done
        if before is not None and done > before:
            return True
    return False


def test_with_continue_a_partner_that_is_gone_is_skipped(tmp_path: Path) -> None:
    found = on_workers("tests.unit.test_unpaced:_skipped", 3, tmp_path)
    assert found == [True, True, False]


# ------------------------------------------------------------------------------------- pure parts


def test_what_was_trained_during_an_exchange_stays() -> None:
    mine, theirs = torch.full((3,), 4.0), torch.full((3,), 10.0)
    state = SharedState([mine])
    sent = [torch.empty(3)]
    state.snapshot(sent)
    mine += 1  # a step goes on meanwhile
    state.move(sent, [theirs])
    state.merge()
    assert mine.tolist() == [8.0] * 3  # 4 + 1 + (10 - 4) / 2
    state.snapshot(sent)
    assert sent[0].tolist() == [8.0] * 3


def test_changes_are_weighted_by_samples_and_late_ones_are_merged() -> None:
    model = [torch.zeros(2)]
    rule = Merging(model, quorum=2, grace=0.0)
    rule.begin(0)
    rule.take(0, Push([torch.full((2,), 4.0)], steps=3))
    assert rule.patience_s(busy=2) is None
    assert rule.settle(busy=2) == {}
    rule.take(1, Push([torch.full((2,), 8.0)], steps=1))
    assert rule.settle(busy=1) == {0: 0, 1: 0}
    assert model[0].tolist() == [5.0, 5.0]
    for rank in (0, 1):
        rule.sent(rank)
        rule.take(rank, Push([torch.zeros(2)], steps=1))
    rule.settle(busy=1)
    rule.take(2, Push([torch.full((2,), 6.0)], steps=2))
    assert rule.settle(busy=0)[2] == 2, "it missed two merges"
    assert model[0].tolist() == [11.0, 11.0]


def test_the_grace_window_is_a_share_of_the_round() -> None:
    rule = Merging([torch.zeros(1)], quorum=1, grace=100.0)
    rule.begin(0)
    time.sleep(0.01)
    rule.take(0, Push([torch.ones(1)], steps=1))
    window_s = rule.patience_s(busy=1)
    assert window_s is not None
    assert window_s >= 1.0
    assert rule.patience_s(busy=0) == 0, "nobody else can come"


@pytest.mark.parametrize("workers", [1, 2, 6])
@pytest.mark.parametrize("most", [1, 3])
def test_steps_are_granted_once_and_a_late_worker_keeps_one(workers: int, most: int) -> None:
    tickets = Tickets(spec("async-pairwise", workers))
    found: list[int] = []
    for epoch in (1, 2):
        tickets.begin(epoch)
        for rank in (0, *range(workers)):
            while steps := tickets.take(rank, most):
                found += steps
        assert len(found) == epoch * workers * STEPS
    assert found == sorted(set(found))


@pytest.mark.parametrize("left", [0, 1, 2, 5, 7])
def test_where_few_steps_are_left_each_is_granted_once(left: int) -> None:
    for strategy in ("async-pairwise", "quorum"):
        tickets = Tickets(spec(strategy, 6, **({"quorum": 6} if strategy == "quorum" else {})))
        last = 6 * STEPS
        tickets.begin(1, range(last - left + 1, last + 1))
        found: list[int] = []
        for rank in range(6):
            while steps := tickets.take(rank, 2):
                found += steps
        assert found == list(range(last - left + 1, last + 1))


def test_the_final_table_says_how_far_each_worker_came() -> None:
    def worker(rank: int, **numbers: Any) -> WorkerProgress:
        return WorkerProgress(node=f"node{rank}", rank=rank, **numbers)

    progress = [
        worker(0, steps=90, rounds=10, participation=1.0, staleness_mean=1.0, staleness_max=4),
        worker(1, steps=12, rounds=5, participation=0.5, staleness_mean=4.0, staleness_max=9),
        worker(2, steps=0, rounds=0),
    ]
    run = spec("quorum", 3)
    ended = Summary(session="s", run="r", status="completed", spec=run.to_json(), progress=progress)
    names = ("steps", "staleness", "took part")
    shown = dict(zip(headings((), names), row(ended, (), names), strict=True))
    assert [shown[name] for name in names] == ["0-90", "2.0, 9", "50 %-100 %"]
    assert set(names) <= set(find_extras([ended]))


def test_frames_are_counted_in_both_directions() -> None:
    records = {0: [Partner(1, exchanges=3, refused=2, controls=5)], 1: []}
    sent = sent_by_pair(records, is_pairwise=True, exchanged_bytes=1000)
    assert sent == {(0, 1): 3 * 1032 + 7 * 16, (1, 0): 3 * 1032 + 7 * 16}
    pushed = {0: [Partner(2, exchanges=3, refused=0, controls=1)]}
    sent = sent_by_pair(pushed, is_pairwise=False, exchanged_bytes=1000)
    assert sent == {(0, 2): 3 * 1016 + 16, (2, 0): 3 * 1016 + 16}
    assert PAIRWISE == "async-pairwise"


def test_a_slow_worker_gets_no_step_that_the_others_would_wait_for() -> None:
    """Two workers with steps of 1 s and one with steps of 10 s: all end nearly together."""
    clock = 0.0
    tickets = Tickets(spec("async-pairwise", 3, train_size=300), now=lambda: clock)
    due = dict.fromkeys(range(3), 0.0)
    step_s = {0: 1.0, 1: 1.0, 2: 10.0}
    ends, made = {}, dict.fromkeys(range(3), 0)
    tickets.begin(1)
    while due:
        rank = min(due, key=lambda rank: due[rank])
        clock = due.pop(rank)
        if steps := tickets.take(rank, 1):
            due[rank] = clock + len(steps) * step_s[rank]
            made[rank] += len(steps)
        else:
            ends[rank] = clock
    assert sum(made.values()) == 300
    assert made[2] == pytest.approx(300 / 21, abs=2)
    assert max(ends.values()) < 1.03 * 300 / 2.1
