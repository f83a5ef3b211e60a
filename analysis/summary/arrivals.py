"""Which worker came last to exchanges, how often and why. Pure."""

from collections import Counter
from collections.abc import Sequence
from statistics import median

from cluster.spec.arrivals import WORDS, Arrivals, arrivals
from cluster.spec.documents.events import Step
from cluster.spec.documents.faults import LateNode
from cluster.spec.documents.run_folder import node_name


def in_order(steps: Sequence[Sequence[Step]]) -> list[Arrivals]:
    """Of all exchanges; by worker its steps, of which the last with a number counts."""
    by_number = [{step.step: step for step in of_worker} for of_worker in steps]
    found: list[Arrivals] = []
    for number in sorted(set().union(*by_number)):
        here = {rank: steps[number] for rank, steps in enumerate(by_number) if number in steps}
        before = found[-1] if found else None
        if exchange := arrivals(here, before):
            found.append(exchange)
    return found


def describe(steps: Sequence[Sequence[Step]], slowdown: float) -> list[LateNode]:
    """Every worker; empty without a barrier, and where exchanges are hidden in backward."""
    if any(step.of_all is not None for of_worker in steps for step in of_worker[:1]):
        return []
    exchanges = in_order(steps)
    return [_describe(rank, exchanges, slowdown) for rank in range(len(steps))] if exchanges else []


def _describe(rank: int, exchanges: Sequence[Arrivals], slowdown: float) -> LateNode:
    late = [each for each in exchanges if each.last == rank and each.cause]
    causes = Counter(each.cause for each in late if each.cause)
    return LateNode(
        node=node_name(rank),
        rank=rank,
        exchanges=len(exchanges),
        last=len(late),
        late_median_s=round(median(e.late_s for e in late) / slowdown, 6) if late else None,
        **{name: causes[name] for name in WORDS},
        cause=causes.most_common(1)[0][0] if causes else None,
    )
