"""Findings of a study in sentences: which nodes are slowed down, and which wait for which.

Slow-downs are of the nodes' own steps; a node waits for the one that arrived last in its group.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

from analysis.report.time.bottleneck_cases import Case, Comparison, Node, Study
from analysis.tables.labels import slow_nodes
from analysis.tables.noise import Measured, distinguishable, unequal_computing
from analysis.theory.critical_path import place_text
from cluster.observe.units import seconds_text

FELT = 1.2
"""A node whose step takes less than this times its usual time does not count as slowed down."""
SAME_SLOWDOWN = 1.1
"""Slow-downs within this factor of each other count as equal."""
WAITS = 0.2
"""Of a step: less waiting than this is not mentioned."""


def listed(items: Sequence[str]) -> str:
    """a, b and c"""
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def nodes_text(ranks: Sequence[int]) -> str:
    return f"node{'s' * (len(ranks) > 1)} {listed([str(rank) for rank in ranks])}"


def times(*ratios: float) -> str:
    """5.1 x, or 4.4 to 5.2 x: from the least to the most of them."""
    ends = dict.fromkeys(f"{r:.2f}" if r < 2 else f"{r:.1f}" for r in (min(ratios), max(ratios)))
    return " to ".join(ends) + " x"


def case_name(case: Case, beside: Sequence[Case] = ()) -> str:
    """A column's heading. Without slow nodes it depends on what is slow in the other cases."""
    parts = slow_nodes(case.bottleneck, case.straggler)
    if parts:
        return listed(parts)
    slow_links = not beside or any(other.bottleneck for other in beside)
    return "no bottleneck" if slow_links else "no straggler"


def describe(comparison: Comparison) -> str:
    """One strategy: a clause for every case with slow nodes; none from a contended run."""
    if reason := _contended(comparison.cases):
        return f"{reason[0].upper()}{reason[1:]}."
    clauses = []
    for case in comparison.cases:
        if not case.slow_ranks:
            continue
        where = place_text(comparison.strategy, case.slow_ranks, len(case.nodes))
        name = case_name(case) + (f" ({where})" if where else "")
        parts = [f"{name} {_effect(case)}", _computing(case), _waiting(case)]
        clauses.append("; ".join(part for part in parts if part))
    return ". ".join(clause[0].upper() + clause[1:] for clause in clauses) + "."


def _contended(cases: Sequence[Case]) -> str:
    """Why a recorded verdict allows no conclusion; empty where it does."""
    return next((case.contended for case in cases if case.contended), "")


def _effect(case: Case) -> str:
    """How much the nodes' steps slow down."""
    by_rank = {node.rank: node.slow_down for node in case.nodes if node.slow_down is not None}
    several = len(case.slow_ranks) > 1
    if not by_rank:
        steps = _span([node.step_median_s for node in case.nodes])
        return f"{'make' if several else 'makes'} a step take {steps}"
    verb = "slow" if several else "slows"
    felt = {rank: ratio for rank, ratio in by_rank.items() if ratio >= FELT}
    others = [ratio for rank, ratio in by_rank.items() if rank not in felt]
    no_more = f"by more than {times(max(1, *others))}" if others else ""
    if not felt:
        return f"{verb} no node {no_more}"
    ratios = sorted(felt.values())
    if others:
        return f"{verb} {nodes_text(list(felt))}, {times(*ratios)}, and no other {no_more}"
    if ratios[-1] <= SAME_SLOWDOWN * ratios[0]:
        return f"{verb} all {len(felt)} nodes equally, {times(fmean(ratios))}"
    return f"{verb} all {len(felt)} nodes, {times(*ratios)}"


def _span(seconds: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(seconds_text(end) for end in (min(seconds), max(seconds))))


def _computing(case: Case) -> str:
    """Computing time of stragglers and of the others."""
    own = [n for n in case.nodes if n.is_slow and n.compute_median_s is not None]
    others = [
        n.compute_median_s for n in case.nodes if not n.is_slow and n.compute_median_s is not None
    ]
    if not case.straggler or not own or not others:
        return ""
    took = [f"node {node.rank} computes {seconds_text(node.compute_median_s or 0)}" for node in own]
    return f"{listed(took)} per step, the others {_span(others)}"


def _waiting(case: Case) -> str:
    """Which nodes wait mostly for which, and for what share of a step."""
    waiting = {n.rank: _share(n) for n in case.nodes if _share(n) >= WAITS}
    whom: dict[int, list[int]] = {}
    for node in case.nodes:
        if node.rank in waiting and node.waits_mostly_for is not None:
            whom.setdefault(node.waits_mostly_for, []).append(node.rank)
    if not whom:
        return ""
    order = _order(whom, case.slow_ranks)
    texts = [f"{nodes_text(whom[rank])} for node {rank}" for rank in order]
    verb = "wait" if len(whom[order[0]]) > 1 else "waits"
    texts[0] = texts[0].replace(" for ", f" {verb} mostly for ")
    low, high = round(100 * min(waiting.values())), round(100 * max(waiting.values()))
    text = f"{listed(texts)}, {f'{low} to {high}' if low < high else low} % of a step"
    if set(whom) <= set(case.slow_ranks):
        return text
    what = "throttled" if case.bottleneck else "slow"
    are = "are" if len(case.slow_ranks) > 1 else "is"
    return f"{text}: the cause is {nodes_text(case.slow_ranks)}, which {are} {what}"


def _order(whom: Mapping[int, Sequence[int]], slow: Sequence[int]) -> list[int]:
    """First those that wait for a slow node, then those that wait for these, and so on."""
    ranks = list(slow)
    for rank in ranks:  # grows as it goes
        ranks += [waiting for waiting in whom.get(rank, ()) if waiting not in ranks]
    return sorted(whom, key=lambda rank: (ranks.index(rank) if rank in ranks else len(ranks), rank))


def _share(node: Node) -> float:
    return 0.0 if node.waiting_median_s is None else node.waiting_median_s / node.step_median_s


def extremes(study: Study) -> str:
    """The strategies with the shortest and the longest step in every case, where they differ."""
    found = "; ".join(f"{case}: {steps}" for case, steps in extremes_by_case(study).items())
    return f"Step of the slowest node, by strategy: {found}." if found else ""


def extremes_by_case(study: Study) -> dict[str, str]:
    """Those with slow nodes first; empty where there is one strategy."""
    if len(study.comparisons) < 2:
        return {}
    cases = study.comparisons[0].cases
    order = sorted(range(len(cases)), key=lambda index: not cases[index].slow_ranks)
    return {case_name(cases[i], cases): _extremes(study.comparisons, i) for i in order}


def _extremes(comparisons: Sequence[Comparison], index: int) -> str:
    """Of one case. Nodes with equal cores are expected to compute equally fast."""
    same = [comparison.cases[index] for comparison in comparisons]
    computing = [
        node.compute_median_s
        for case in same
        if not case.has_verdict
        for node in case.nodes
        if not (case.straggler and node.is_slow)
    ]
    if reason := _contended(same) or unequal_computing(computing, [case.step_s for case in same]):
        return reason
    steps = [
        Measured(found.strategy, found.label, case.step_s, case.step_s, case.step_s, is_time=True)
        for found, case in zip(comparisons, same, strict=True)
    ]
    least, most = (choose(steps, key=lambda step: step.mean) for choose in (min, max))
    if not distinguishable(least, most):
        return f"{_span([least.mean, most.mean])}, not distinguishable"
    return f"{seconds_text(least.mean)} ({least.label}) to {seconds_text(most.mean)} ({most.label})"
