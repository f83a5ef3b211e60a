"""Memory as people write it, and each node's share of it."""

import pytest

from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment
from cluster.spec.quantities import parse_memory, write_memory

GIB, MIB = 2**30, 2**20


@pytest.mark.parametrize(
    ("text", "size_bytes", "written"),
    [
        ("6g", 6 * GIB, "6g"),
        ("900m", 900 * MIB, "900m"),
        ("1.5g", 1536 * MIB, "1536m"),
        ("2048m", 2 * GIB, "2g"),
        ("0.1g", 102 * MIB, "102m"),
        ("999999999g", 999_999_999 * GIB, "999999999g"),
    ],
)
def test_a_size_is_read_and_always_written_the_same_way(
    text: str, size_bytes: int, written: str
) -> None:
    assert parse_memory(text) == size_bytes
    assert write_memory(size_bytes) == written
    assert parse_memory(written) == size_bytes


@pytest.mark.parametrize(
    "text",
    ["6", "6G", "6gb", "6 g", "-6g", "+6g", "1e3m", "nang", "g", "", "6g\n", "\u0666g", "6k"],
)
def test_anything_else_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(ValueError, match="such as 900m, 6g or"):
        parse_memory(text)


@pytest.mark.parametrize("text", ["0g", "0.0m", "0.5m"])
def test_no_memory_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no memory at all"):
        parse_memory(text)


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
