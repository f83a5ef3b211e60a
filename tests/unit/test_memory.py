"""Each node's share of --total-memory."""

import pytest

from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment
from cluster.spec.quantities import parse_memory, write_memory

GIB, MIB = 2**30, 2**20


def test_nodes_that_train_share_it_equally_a_server_too() -> None:
    assert Experiment(workers=4, total_memory="6g").memory_per_node == 1536 * MIB
    assert Experiment(workers=7, total_memory="6g").memory_per_node == 877 * MIB
    server = Experiment(workers=4, strategy="parameter-server", total_memory="6g")
    assert server.memory_per_node == 1228 * MIB
    spark = Experiment(workers=4, launcher="spark", total_memory="6g")
    assert spark.memory_per_node == 1536 * MIB  # master and driver come on top
    assert Experiment().memory_per_node is None


@pytest.mark.parametrize(
    ("launcher", "share"), [("torch", "256m"), ("horovod", "350m"), ("spark", "768m")]
)
def test_a_share_in_which_no_worker_can_start_is_refused(launcher: str, share: str) -> None:
    least = 2 * parse_memory(share)
    enough = Experiment(workers=2, launcher=launcher, total_memory=write_memory(least))
    assert enough.memory_per_node == parse_memory(share)
    with pytest.raises(SpecError) as refusal:
        Experiment(workers=2, launcher=launcher, total_memory=write_memory(least - MIB))
    assert f"launcher {launcher} needs {share} to start" in str(refusal.value)
    assert f"use --total-memory {write_memory(least)} or more" in str(refusal.value)


def test_runs_with_another_limit_never_share_a_cluster() -> None:
    plain, limited = Experiment(), Experiment(total_memory="4g")
    assert plain.cluster != limited.cluster
    assert limited.cluster == Experiment(total_memory="4096m").cluster
