"""Step times of clusters whose nodes have different links: simulated, with nothing fitted."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.predict.cost_model import Cluster
from analysis.predict.nodes import Costs, Node
from analysis.predict.simulator import simulate
from analysis.theory.critical_path import busiest_bytes
from analysis.theory.predicted_bytes import WIRE_PER_PAYLOAD
from cluster.observe.units import bytes_text, seconds_text
from cluster.spec.links import Link
from cluster.spec.schedules.messages import Setting
from cluster.spec.strategies import facts_of

ROUNDS, ROUNDS_OF_GROUPS = 2, 12
"""Where groups change, a node that is late in one round makes others late in the next."""
MISSED = "18 measured runs with one or two slow nodes were missed by 8 % (median), 22 % (worst)"
"""Six nodes, 1.2 MB, 100 and 20 Mbit/s: runs of `--preset bottleneck`, on a busy machine.
Worst are pairs; most were measured longer."""


@dataclass(frozen=True)
class Simulated:
    strategy: str
    step_s: float
    equal_s: float
    """With the same links for all nodes."""
    busiest_bytes: float
    """Payload that the busiest node sends or receives in an exchange."""


def simulated(cluster: Cluster, slow: Mapping[int, Link]) -> Simulated:
    """A step of a cluster whose nodes in `slow` have links of their own."""
    facts = facts_of(cluster.strategy)
    setting = Setting(
        workers=cluster.workers,
        model_bytes=cluster.model_bytes,
        passes=cluster.passes,
        schedule=cluster.schedule,
    )
    count = cluster.workers + int(facts.has_server)
    equal = [_node(cluster, None)] * count
    unequal = [_node(cluster, slow.get(rank)) for rank in range(count)]
    rounds = ROUNDS_OF_GROUPS if facts.has_passes else ROUNDS
    step_s, equal_s = (
        simulate(lambda index: facts.messages(index, setting), nodes, rounds, Costs()).round_s
        / cluster.local_steps
        for nodes in (unequal, equal)
    )
    busiest = busiest_bytes(facts.messages(0, setting))
    return Simulated(cluster.strategy, step_s, equal_s, float(busiest))


def _node(cluster: Cluster, own: Link | None) -> Node:
    mbit = cluster.rate_mbit if own is None else own.rate_mbit
    rate = (mbit or 0) * 1e6 / 8 / WIRE_PER_PAYLOAD
    delay_s = cluster.delay_s if own is None else own.delay_s
    return Node(rate, rate, delay_s, compute_s=cluster.compute_s * cluster.local_steps)


def lines(clusters: Sequence[Cluster], slow: Mapping[int, Link]) -> Iterator[str]:
    found = sorted((simulated(cluster, slow) for cluster in clusters), key=lambda row: row.step_s)
    yield f"{'strategy':<18}{'step':>10}{'all equal':>11}{'slower':>9}{'busiest':>11}"
    for row in found:
        slower = f"{row.step_s / row.equal_s:.1f} x" if row.equal_s else "-"
        yield (
            f"{row.strategy:<18}{seconds_text(row.step_s):>10}{seconds_text(row.equal_s):>11}"
            f"{slower:>9}{bytes_text(row.busiest_bytes):>11}"
        )
    yield ""
    yield "all equal: without --bottleneck; busiest: payload sent or received by the busiest node"
    yield f"simulated message by message, nothing fitted, computing not overlapped; {MISSED}"
