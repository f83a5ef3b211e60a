"""The event simulator against theory, against SimGrid, and against its own quick forms."""

import json
import math
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain
from pathlib import Path

import pytest

from analysis.predict import command
from analysis.predict.simulation import permutations, simulator
from analysis.predict.simulation.message_plan import node_kinds
from analysis.predict.simulation.nodes import Costs, Node, chunk_sizes
from analysis.theory.critical_path import busiest_bytes, path_bytes
from cluster.spec.exchange.strategies import IN_STEP, STRATEGIES, facts_of
from cluster.spec.schedules.messages import Messages, Setting, each_message, step_count

RATE = 1e7
MODEL_BYTES = 2_000_000
EXCHANGING = [name for name, f in STRATEGIES.items() if f.exchanges and not f.unpaced]
ORACLE = Path(__file__).resolve().parents[1] / "simgrid_oracle.py"
DEBIAN_PYTHON = "/usr/bin/python3"


def messages_of(
    strategy: str, workers: int, index: int = 0, passes: int = 1, size: int = MODEL_BYTES
) -> Messages:
    facts = facts_of(strategy)
    setting = Setting(
        workers=workers,
        model_bytes=size,
        passes=passes if facts.has_passes else None,
        schedule="ring" if facts.has_passes else None,
    )
    return facts.messages(index, setting)


def nodes_of(messages: Messages) -> int:
    return 1 + max(max(*flow.sources, *flow.destinations) for flow in messages)


def different(count: int, draw: random.Random) -> list[Node]:
    rates, times = (RATE / 10, RATE / 2, RATE), (0.0, 0.02, 0.1)
    return [
        Node(draw.choice(rates), draw.choice(rates), compute_s=draw.choice(times))
        for _ in range(count)
    ]


@pytest.mark.parametrize("workers", [2, 3, 5, 8])
@pytest.mark.parametrize("strategy", EXCHANGING)
def test_equal_nodes_take_the_critical_path(strategy: str, workers: int) -> None:
    """A pipeline fills chunk by chunk: each message that waits for another is a chunk behind it."""
    messages = messages_of(strategy, workers)
    nodes = [Node(RATE, RATE, compute_s=0.1)] * nodes_of(messages)
    found = simulator.simulate(lambda _: messages, nodes, 1, Costs())
    path = float(path_bytes(messages)) / RATE
    fill = filling_s(messages) if any(flow.parts > 1 for flow in messages) else 0.0
    assert path * (1 - 1e-6) <= found.round_s - 0.1 <= path * (1 + 1e-6) + fill


def filling_s(messages: Messages) -> float:
    """A chunk to all of the busiest rank's partners, for each message of the longest chain."""
    each = each_message(messages)
    depth: list[int] = []
    for message in each:
        depth.append(1 + max((depth[place] for place in message.waits_for), default=0))
    partners = Counter(source for source, _ in {(m.source, m.destination) for m in each})
    steps = step_count(messages)
    chunk = max(chain.from_iterable(chunk_sizes(message, steps) for message in each))
    return max(depth) * max(partners.values()) * chunk / RATE


@pytest.mark.parametrize("strategy", EXCHANGING)
def test_no_schedule_beats_its_busiest_link(strategy: str) -> None:
    draw = random.Random(strategy)
    for workers in (3, 6):
        messages = messages_of(strategy, workers)
        nodes = different(nodes_of(messages), draw)
        found = simulator.simulate(lambda _, same=messages: same, nodes, 1, Costs())  # type: ignore[misc]
        for flow in messages:
            for source, destination in zip(flow.sources, flow.destinations, strict=True):
                least = float(flow.pair_bytes) / min(nodes[source].up, nodes[destination].down)
                assert found.exchanged[0, destination] >= least * (1 - 1e-9)
        assert found.exchanged.max() >= float(busiest_bytes(messages)) / RATE * (1 - 1e-9)


@pytest.mark.parametrize("strategy", EXCHANGING)
def test_one_node_of_each_kind_stands_for_all(strategy: str) -> None:
    """Nodes that differ by a trillionth are simulated one by one."""
    messages = messages_of(strategy, 6)
    alike = [Node(RATE, RATE)] * nodes_of(messages)
    alike[2] = Node(RATE / 10, RATE / 10)
    apart = [replace(node, up=node.up * (1 + k * 1e-12)) for k, node in enumerate(alike)]
    assert len(set(node_kinds([messages], apart))) == len(apart)
    for costs, tolerance in ((Costs(), 1e-6), (Costs(1e-4), 1e-3)):
        by_kind, each = (
            simulator.simulate(lambda _: messages, nodes, 2, costs) for nodes in (alike, apart)
        )
        assert by_kind.exchanged == pytest.approx(each.exchanged, rel=tolerance)


@pytest.mark.parametrize("size", [MODEL_BYTES, 100_000])
@pytest.mark.parametrize("strategy", ["allreduce", "allgather", "pairwise"])
def test_rounds_without_shared_links_are_the_same_as_arrays(strategy: str, size: int) -> None:
    draw = random.Random(7)
    for workers in (2, 5, 9):
        rounds = [messages_of(strategy, workers, passes=draw.randint(1, workers), size=size)]
        nodes = different(workers, draw)
        costs = Costs(draw.choice((0.0, 1e-3)))
        assert permutations.is_permutation(rounds[0])
        quick = permutations.simulate(rounds, nodes, costs)
        events = simulator.simulate(lambda index, all_=rounds: all_[index], nodes, 1, costs)  # type: ignore[misc]
        assert quick.round_s == pytest.approx(events.round_s, rel=1e-3)
        if not costs.message_s:
            assert quick.exchanged == pytest.approx(events.exchanged, rel=1e-3)


def test_a_late_node_makes_its_partners_late_and_then_theirs() -> None:
    nodes = [Node(RATE, RATE)] * 8
    nodes[0] = replace(nodes[0], compute_s=1.0)
    found = simulator.simulate(lambda t: messages_of("pairwise", 8, t), nodes, 3, Costs())
    late = [{rank for rank in range(8) if row[rank] > 1} for row in found.exchanged]
    assert [len(ranks) for ranks in late] == [2, 4, 6]
    assert late[0] < late[1] < late[2]


def test_what_a_token_bucket_holds_passes_at_once() -> None:
    def seconds(burst: float) -> float:
        nodes = [Node(RATE, RATE, burst_bytes=burst)] * 2
        return simulator.simulate(lambda _: messages_of("pairwise", 2), nodes, 1, Costs()).round_s

    assert seconds(0) == pytest.approx(MODEL_BYTES / RATE)
    assert seconds(MODEL_BYTES / 2) == pytest.approx(MODEL_BYTES / 2 / RATE, rel=0.01)
    assert seconds(2 * MODEL_BYTES) < 0.01 * seconds(0)


def test_the_host_copies_for_all_nodes_together() -> None:
    nodes = [Node(RATE, RATE)] * 4
    messages = messages_of("allreduce", 4)
    costs = Costs(byte_s=1 / RATE, cores=2)
    found = simulator.simulate(lambda _: messages, nodes, 1, costs)
    total = sum(float(flow.pair_bytes) * len(flow.sources) for flow in messages)
    largest = max(float(flow.message_bytes) for flow in messages)
    assert 0 <= found.round_s - total / (2 * RATE) <= 6 * largest / RATE


def test_a_thousand_nodes_are_simulated_one_of_them_slow() -> None:
    nodes = [Node(RATE, RATE)] * 1024
    nodes[3] = Node(RATE / 10, RATE / 10)
    for strategy in ("allreduce", "gather-scatter", "reduce-broadcast", "pairwise"):
        messages = messages_of(strategy, 1024)
        found = simulator.simulate(lambda _, same=messages: same, nodes, 1, Costs())  # type: ignore[misc]
        assert math.isfinite(found.round_s)
        assert found.round_s > 1.5 * float(path_bytes(messages)) / RATE or strategy in (
            "gather-scatter",
            "reduce-broadcast",
        )


def test_the_command_simulates_what_a_slow_link_does(capsys: pytest.CaptureFixture[str]) -> None:
    asked = "--workers 4 --link 100mbit --bottleneck 3:10mbit --model-bytes 4M"
    assert command.main(asked.split()) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line for line in lines if line.endswith(" x")}
    assert set(rows) == set(IN_STEP)
    assert " 10." in rows["allreduce"]
    assert " 1.0 x" not in rows["pairwise"]


def test_a_slow_node_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    asked = "--workers 4 --link 100mbit --bottleneck 4:10mbit --model-bytes 4M"
    with pytest.raises(SystemExit):
        command.main(asked.split())
    assert "0 and 3, not 4" in capsys.readouterr().err


def arrivals(messages: Messages, nodes: Sequence[Node]) -> list[float]:
    """By SimGrid."""
    asked = {
        "up": [node.up for node in nodes],
        "down": [node.down for node in nodes],
        "compute": [node.compute_s for node in nodes],
        "messages": [
            (message.source, message.destination, float(message.bytes), message.waits_for)
            for message in each_message(messages)
        ],
    }
    answer = subprocess.run(
        [DEBIAN_PYTHON, ORACLE], input=json.dumps(asked), capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr
    found: list[float] = json.loads(answer.stdout)
    return found


def has_simgrid() -> bool:
    return (
        shutil.which(DEBIAN_PYTHON) is not None
        and not subprocess.run(
            [DEBIAN_PYTHON, "-c", "import simgrid"], capture_output=True
        ).returncode
    )


@pytest.mark.skipif(not has_simgrid(), reason="no SimGrid: apt-get install python3-simgrid")
@pytest.mark.parametrize("strategy", [name for name in EXCHANGING if name != "allgather"])
def test_simgrid_finds_the_same_times(strategy: str) -> None:
    """Without pipelines, which SimGrid would have to be told chunk by chunk."""
    draw = random.Random(strategy)
    whole = tuple(replace(flow, parts=1) for flow in messages_of(strategy, 6))
    nodes = different(nodes_of(whole), draw)
    at = arrivals(whole, nodes)
    found = simulator.simulate(lambda _: whole, nodes, 1, Costs())
    for rank, node in enumerate(nodes):
        mine = [
            time
            for time, message in zip(at, each_message(whole), strict=True)
            if rank in (message.source, message.destination)
        ]
        assert found.exchanged[0, rank] == pytest.approx(max([node.compute_s, *mine]), rel=1e-5)


def test_buckets_are_exchanged_while_the_rest_computes() -> None:
    """Two halves of a second each; the first is ready half a second before computing ends."""
    half = tuple(
        replace(flow, message_bytes=Fraction(flow.message_bytes) / 2)
        for flow in messages_of("pairwise", 2)
    )
    second = MODEL_BYTES / RATE

    def seconds(*earlier: float) -> float:
        nodes = [Node(RATE, RATE, compute_s=10 * second, earlier_s=earlier)] * 2
        return simulator.simulate(lambda _: half, nodes, 2, Costs()).round_s / second

    assert seconds(0, 0) == pytest.approx(11)
    assert seconds(0.25 * second, 0) == pytest.approx(10.75)
    assert seconds(4 * second, 0) == pytest.approx(10.5)


def test_times_are_the_medians_that_summaries_have() -> None:
    """Node 0 meets its slow partner in every other round: the mean of two rounds is the median."""
    nodes = [Node(RATE, RATE)] * 4
    nodes[1] = Node(RATE / 4, RATE / 4)
    found = simulator.simulate(lambda t: messages_of("pairwise", 4, t), nodes, 9, Costs())
    own = [float(t) for t in found.exchanged[:, 0]]
    means = [(own[k + 2] - own[k]) / 2 for k in range(len(own) - 2)]
    assert found.median_round_s(2, 1) == pytest.approx(sorted(means)[len(means) // 2])
    assert found.median_round_s(1, 4) > 0
