"""The collector writes down what its sources say, from before a run to after it."""

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.engine import CounterSource
from cluster.observe.collector import RATE_READINGS, Collector
from cluster.spec.documents.records import Counters, Sample
from cluster.spec.documents.run_folder import RunFolder

NAMES = [f"node{rank}" for rank in range(20)]
INTERVAL_S = 0.02


class Node:
    """A node whose counters move when it works, like an interface's."""

    def __init__(self, sent_bytes: int = 0) -> None:
        self.counters = Counters(sent_bytes, 1, 0, 0)

    def work(self, sent_bytes: int) -> None:
        self.counters += Counters(sent_bytes, 1, 2 * sent_bytes, 1)


def source(name: str, read: Callable[[], dict[int, Counters]], every: float = 1) -> CounterSource:
    return CounterSource(name, every, read)


def rows(path: Path, name: str, node: str = "node0") -> list[Sample]:
    folder = RunFolder(path.parent)
    return [s for s in folder.read_samples() if (s.source, s.node) == (name, node)]


def wait_until(met: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return RunFolder(tmp_path).samples


@pytest.mark.parametrize("interval", [INTERVAL_S, 3600.0], ids=["often", "never in between"])
def test_the_first_and_the_last_reading_enclose_the_run(path: Path, interval: float) -> None:
    node = Node(sent_bytes=1000)
    with Collector(path, (source("kernel", lambda: {0: node.counters}),), interval, NAMES):
        started = time.time()
        node.work(500)
        time.sleep(2 * INTERVAL_S)
        node.work(70)
        ended = time.time()
    samples = rows(path, "kernel")
    assert samples[0].counters.sent_bytes == 1000
    assert samples[-1].counters.sent_bytes == 1570
    assert samples[0].t <= started + 0.0001  # rows keep a tenth of a millisecond
    assert samples[-1].t >= ended - 0.0001


def test_a_run_that_fails_still_has_its_last_reading(path: Path) -> None:
    node = Node()

    def run() -> None:
        with Collector(path, (source("kernel", lambda: {0: node.counters}),), 3600, NAMES):
            node.work(99)
            raise RuntimeError("a node died")

    with pytest.raises(RuntimeError, match="a node died"):
        run()
    assert rows(path, "kernel")[-1].counters.sent_bytes == 99


def test_rows_are_what_was_read_raw_and_cumulative_restarts_too(path: Path) -> None:
    shown = [Counters(n, n, n, n) for n in (10**15, 10**15 + 1, 10**15 + 1, 3, 8)]
    told: list[Counters] = []

    def read() -> dict[int, Counters]:
        told.append(shown[min(len(told), len(shown) - 1)])
        return {0: told[-1]}

    with Collector(path, (source("kernel", read),), INTERVAL_S, NAMES):
        wait_until(lambda: len(told) >= len(shown))
    found = [sample.counters for sample in rows(path, "kernel")]
    assert found == told
    assert found[: len(shown)] == shown


def test_every_node_and_every_source_has_its_own_rows(path: Path) -> None:
    nodes = [Node(sent_bytes=100 * rank) for rank in range(3)]
    sources = (
        source("kernel", lambda: {rank: node.counters for rank, node in enumerate(nodes)}),
        source(
            "docker", lambda: {rank: node.counters.swapped() for rank, node in enumerate(nodes)}
        ),
    )
    with Collector(path, sources, 3600, NAMES):
        pass
    for rank, node in enumerate(nodes):
        name = f"node{rank}"
        assert [s.counters for s in rows(path, "kernel", name)] == [node.counters] * 2
        assert [s.counters for s in rows(path, "docker", name)] == [node.counters.swapped()] * 2


def test_times_never_go_back_within_a_source(path: Path) -> None:
    node = Node()
    sources = (
        source("kernel", lambda: {0: node.counters}, every=10),
        source("docker", lambda: {0: node.counters}),
    )
    with Collector(path, sources, 0.05, NAMES):
        wait_until(lambda: len(rows(path, "docker")) > 2)
        wait_until(lambda: len(rows(path, "kernel")) > 2 * len(rows(path, "docker")))
    for name in ("kernel", "docker"):
        times = [sample.t for sample in rows(path, name)]
        assert times == sorted(times)


def test_rows_can_be_read_while_the_run_lasts(path: Path) -> None:
    node = Node(sent_bytes=5)
    with Collector(path, (source("kernel", lambda: {0: node.counters}),), 3600, NAMES):
        assert [sample.counters for sample in rows(path, "kernel")] == [node.counters]


def test_a_source_that_raises_leaves_a_gap_is_named_and_comes_back(path: Path) -> None:
    node, calls = Node(), itertools.count()
    broken = range(2, 5)

    def unsteady() -> dict[int, Counters]:
        call = next(calls)
        if call in broken:
            raise ConnectionError("no answer")
        return {0: Counters(sent_bytes=call)}

    sources = (
        source("docker", unsteady),
        source("kernel", lambda: {0: node.counters}),
    )
    with Collector(path, sources, INTERVAL_S, NAMES) as collector:
        wait_until(lambda: len(rows(path, "docker")) >= 4)
    assert collector.failures == {"docker": "ConnectionError: no answer"}
    read = [sample.counters.sent_bytes for sample in rows(path, "docker")]
    assert read == [n for n in range(read[-1] + 1) if n not in broken]
    assert len(rows(path, "kernel")) > len(broken)


def test_a_source_that_never_answers_does_not_stop_a_run(path: Path) -> None:
    def dead() -> dict[int, Counters]:
        raise OSError("gone")

    node = Node()
    sources = (source("docker", dead), source("kernel", lambda: {0: node.counters}))
    with Collector(path, sources, INTERVAL_S, NAMES) as collector:
        node.work(1)
    assert collector.failures == {"docker": "OSError: gone"}
    assert rows(path, "docker") == []
    assert rows(path, "kernel")[-1].counters.sent_bytes == 1
    assert collector.sent_rates() == {}


def test_sources_that_answer_are_not_named(path: Path) -> None:
    with Collector(
        path, (source("kernel", lambda: {0: Counters()}),), INTERVAL_S, NAMES
    ) as collector:
        pass
    assert collector.failures == {}


def test_a_vanished_node_leaves_no_row_and_the_others_stay(path: Path) -> None:
    readings = {0: Counters(1), 1: Counters(2)}
    with Collector(path, (source("kernel", lambda: dict(readings)),), INTERVAL_S, NAMES):
        wait_until(lambda: len(rows(path, "kernel", "node1")) >= 2)
        del readings[1]
        seen = len(rows(path, "kernel", "node1"))
        wait_until(lambda: len(rows(path, "kernel")) >= seen + 4)
    assert len(rows(path, "kernel")) > seen + 4
    # At most the reading that was under way when the node vanished.
    assert len(rows(path, "kernel", "node1")) <= seen + 1


def test_the_file_is_a_table_with_headings(path: Path) -> None:
    with Collector(path, (source("kernel", lambda: {7: Counters(1, 2, 3, 4)}),), 3600, NAMES):
        pass
    heading, *lines = path.read_text().splitlines()
    assert heading == ("t,source,node,sent_bytes,sent_packets,received_bytes,received_packets")
    assert all(line.endswith(",kernel,node7,1,2,3,4") for line in lines)
    assert len(lines) == 2


# --- rates ---------------------------------------------------------------------------------------


def test_rates_are_bytes_a_second_of_each_node(path: Path) -> None:
    nodes = [Node(), Node(), Node()]

    def read() -> dict[int, Counters]:
        nodes[0].work(10_000)
        nodes[1].work(50_000)
        return {rank: node.counters for rank, node in enumerate(nodes)}

    with Collector(path, (source("kernel", read),), INTERVAL_S, NAMES) as collector:
        wait_until(lambda: len(rows(path, "kernel")) > RATE_READINGS)
    first, *_, last = rows(path, "kernel")[-RATE_READINGS:]
    per_second = (RATE_READINGS - 1) / (last.t - first.t)
    assert collector.sent_rates() == {
        0: pytest.approx(10_000 * per_second, rel=0.01),  # rows keep a tenth of a millisecond
        1: pytest.approx(50_000 * per_second, rel=0.01),
        2: 0,
    }


def test_rates_forget_what_was_long_ago(path: Path) -> None:
    node = Node()
    kernel = source("kernel", lambda: {0: node.counters})
    with Collector(path, (kernel,), 3600, NAMES) as collector:
        (poll,) = collector._sources
        node.work(10**9)
        for _ in range(RATE_READINGS - 1):
            collector._sample(poll)
            assert collector.sent_rates()[0] > 0
        collector._sample(poll)
        assert collector.sent_rates()[0] == 0


def test_rates_come_from_the_first_source_alone(path: Path) -> None:
    nodes = Node(), Node()
    sources = (
        source("kernel", lambda: {0: nodes[0].counters}),
        source("docker", lambda: {0: nodes[1].counters}),
    )
    with Collector(path, sources, INTERVAL_S, NAMES) as collector:
        nodes[1].work(10**9)
        wait_until(lambda: len(rows(path, "docker")) >= 3)
        assert collector.sent_rates() == {0: 0.0}


def test_a_rate_after_one_reading_is_zero(path: Path) -> None:
    with Collector(path, (source("kernel", lambda: {0: Counters(500)}),), 3600, NAMES) as collector:
        assert collector.sent_rates() == {0: 0.0}
