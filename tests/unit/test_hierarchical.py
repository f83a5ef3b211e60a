"""Two-level all-reduce over sites: pieces and owners, messages, and the mean on real processes."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from analysis.theory.predicted_bytes import predict
from analysis.theory.traffic_matrix import matrix
from cluster.spec.errors import SpecError
from cluster.spec.exchange.strategies import facts_of
from cluster.spec.experiment import Experiment
from cluster.spec.schedules.hierarchical import owners, pieces_of
from cluster.spec.schedules.messages import Setting, each_message
from tests.loopback import on_workers
from tests.unit.test_strategies import mean_of, values
from workloads.comm.messages import group_messages
from workloads.comm.round import Round
from workloads.strategies import STRATEGIES

HERE = "tests.unit.test_hierarchical"
SITES = {
    2: ("a:1,b:1",),
    3: ("a:2,b:1", "a:1,b:1,a:1", "a:1,b:1,c:1"),
    5: ("a:3,b:2", "a:4,b:1"),
    6: ("a:3,b:3", "a:1,b:2,a:2,b:1", "a:2,b:2,c:2", "a:3,b:2,c:1"),
}


def setting(workers: int, sites: str, size: int = 840) -> Setting:
    members = Experiment(workers=workers, sites=sites).site_members
    return Setting(workers=workers, model_bytes=size, sites=tuple(members.values()))


CASES = [(workers, sites) for workers, found in SITES.items() for sites in found]


@pytest.mark.parametrize(("workers", "sites"), CASES)
def test_every_piece_has_an_owner_in_every_site(workers: int, sites: str) -> None:
    members = setting(workers, sites).sites
    of = pieces_of(members)
    assert sorted(of) == list(range(workers))
    for site in members:
        assert sorted(at for rank in site for at in of[rank]) == list(range(len(owners(members))))
    for at, owned_by in enumerate(owners(members)):
        assert all(at in of[rank] for rank in owned_by)


@pytest.mark.parametrize(("workers", "sites"), CASES)
def test_after_the_last_message_every_worker_has_heard_of_every_piece(
    workers: int, sites: str
) -> None:
    given = setting(workers, sites)
    each = each_message(facts_of("hierarchical").messages(0, given))
    heard = {rank: {rank} for rank in range(workers)}
    carried: list[set[int]] = []
    for message in each:
        heard[message.source].update(*(carried[place] for place in message.waits_for))
        carried.append(set(heard[message.source]))
    for message, ranks in zip(each, carried, strict=True):
        heard[message.destination] |= ranks
    assert all(ranks == set(range(workers)) for ranks in heard.values())


@pytest.mark.parametrize(("sites", "count"), [("a:3,b:3", 2), ("a:2,b:2,c:2", 3)])
def test_equal_sites_send_what_a_ring_does_and_little_leaves_a_site(sites: str, count: int) -> None:
    given = setting(6, sites)
    sent = predict("hierarchical", given)
    assert sent.sent_by_rank == pytest.approx(predict("ring", given).sent_by_rank)
    found = matrix("hierarchical", given)
    for site in given.sites:
        left = sum(found[i][j] for i in site for j in range(6) if j not in site)
        assert left == pytest.approx(float(Fraction(2 * (count - 1), count) * 840))


def averaged(rank: int, workers: int) -> dict[tuple[str, int, bool], Tensor]:
    results = {}
    for grouped in (False, True):
        group_messages(grouped)
        for sites in SITES[workers]:
            spec = Experiment(
                strategy="hierarchical", workers=workers, sites=sites, train_size=60_000
            )
            for size in (1, 7, 21_840):
                flat = values(rank, size)
                STRATEGIES["hierarchical"].exchange(flat, Round(spec, rank, 0))
                results[sites, size, grouped] = flat
    return results


@pytest.mark.parametrize("workers", SITES)
def test_every_worker_of_every_site_gets_the_mean_in_the_same_bits(
    workers: int, tmp_path: Path
) -> None:
    found = on_workers(f"{HERE}:averaged", workers, tmp_path)
    for case, first in found[0].items():
        assert torch.allclose(first.double(), mean_of(workers, case[1]), rtol=1e-6, atol=1e-6)
        assert all(torch.equal(each[case], first) for each in found), case


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"workers": 5}, "such as --sites a:3,b:2"), ({"workers": 4, "sites": "a:4,b:1"}, "5 nodes")],
)
def test_without_sites_for_all_workers_it_is_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        Experiment(strategy="hierarchical", **options)
