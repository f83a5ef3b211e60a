"""Whether the host gave every node the CPU that it was entitled to: the verdict on a run's times.

Workers record for every step how long their threads ran and how long they waited for a core. A node
that is limited to a part of a core (--cpus, --straggler, --dilation) stands still for the rest of
every period, and the kernel counts that as waiting: it is what was asked for. While a node wants
CPU it is entitled to its part of a core, so it is late by

    (ran + waited) - ran / part of a core

which is the waiting of a node that has a whole core. Where that is negative, it was ahead: what
fits into one quota runs at the full speed of a core. A worker that has computed waits for as long
as it was ahead (workloads/counters/cpu_pace.py), which counts as waiting here. Sums over
steps are judged, since the kernel books throttled time when it ends, which may be a step later.
All of it is wall time.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

from analysis.summary.recorded_run import RecordedRun
from analysis.summary.step_times import WARM_UP
from cluster.spec.documents.events import Step
from cluster.spec.documents.records import HostSample
from cluster.spec.documents.run_folder import node_name
from cluster.spec.documents.summary import (
    COARSE,
    CONTENDED,
    HELD,
    UNKNOWN,
    Fidelity,
    NodeFidelity,
)

CONTENDED_SHARE = 0.15
"""Waiting beyond this share of a node's step time makes a run `contended`.

It is the share by which the report does not tell times of one seed apart (TIMES_AGREE). On an idle
machine with a core for each node, waits are 5 to 9 % of a step (the node's own exchange threads,
the host's collector); with three computing nodes to a core they are 45 % (docs/time.md)."""
LATE_SHARE = 0.05
"""The same for a dilated node, which has CPU to spare. Its exchanges, at the full speed of a core,
make up for some of its waits, so that less is seen of them: at load 18 on two cores, a run whose
step took 26 % longer than at twice the dilation was late by less than 15 % (docs/time.md)."""
COARSE_SHARE = CONTENDED_SHARE
"""Being ahead by more than this share of a node's step time makes a run `coarse`."""
NOTICED_STEAL = 0.02
"""Of all cores' time: less is lost in the 10 ms ticks in which it is counted."""


CROWDED_SHARE, SATURATED_SHARE = 0.25, 0.95
"""Of all cores' time: other processes took more than the one, and the cores were busy for more
than the other. Nodes that sleep in turn wait little: with a busy loop on each of two cores a step
was 22 % longer with waits of 11 %, others had 52 %, and cores were busy for 99 %. On an idle
machine it was 4 and 83 % at most (2026-11-18)."""


def describe(run: RecordedRun, host: Sequence[HostSample]) -> Fidelity:
    limits, is_dilated = run.experiment.host_limits, run.experiment.slowdown != 1
    nodes = [
        of_worker(rank, steps, min(1.0, limits.get(rank, 1.0)))
        for rank, steps in enumerate(run.steps)
    ]
    spans = [(start.t, end.t) for start, end in run.first.spans("train")]
    steps_cpu_s = sum(step.cpu_s or 0.0 for steps in run.steps for step in steps)
    return judge(nodes, of_host(host, spans, steps_cpu_s), is_dilated=is_dilated)


def of_worker(rank: int, steps: Sequence[Step], core: float = 1.0) -> NodeFidelity:
    """One worker's steps without the first; unknown where one of them does not tell.

    `core` is the part of a core that it is entitled to.
    """
    counted = steps[WARM_UP:]
    cpu_s, waited_s = (
        _sum(getattr(step, name) for step in counted) for name in ("cpu_s", "wait_s")
    )
    throttled_s = _sum(step.throttled_s for step in counted)
    node = NodeFidelity(node=node_name(rank), rank=rank, cpu_s=cpu_s, throttled_s=throttled_s)
    step_s = sum(step.step_s for step in counted)
    if cpu_s is None or waited_s is None or not step_s:
        return node
    wanted_s = cpu_s + waited_s + sum(step.paced_s or 0.0 for step in counted)
    lag_s = wanted_s - cpu_s / core
    late_s, ahead_s = max(0.0, lag_s), max(0.0, -lag_s)
    return replace(
        node,
        wait_s=round(late_s, 6),
        cpu_share=round(min(1.0, cpu_s / core / wanted_s), 4) if wanted_s else 1.0,
        wait_share=round(late_s / step_s, 4),
        ahead_share=round(ahead_s / step_s, 4) if core < 1 else None,
    )


def _sum(values: Iterable[float | None]) -> float | None:
    """None where nothing is known, or not all."""
    found = list(values)
    known = [value for value in found if value is not None]
    return round(sum(known), 6) if known and len(known) == len(found) else None


def judge(nodes: Sequence[NodeFidelity], host: Fidelity, *, is_dilated: bool = False) -> Fidelity:
    """The host's shares with the verdict: one contended node makes a run contended.

    Unknown where a worker's waits are not known, unless the others' are enough."""
    waits = [node.wait_share for node in nodes if node.wait_share is not None]
    ahead = [node.ahead_share for node in nodes if node.ahead_share is not None]
    shares = [node.cpu_share for node in nodes if node.cpu_share is not None]
    verdict = HELD if waits and len(waits) == len(nodes) else UNKNOWN
    is_crowded = not is_dilated and _is_crowded(host)  # dilated nodes have CPU to spare
    most = LATE_SHARE if is_dilated else CONTENDED_SHARE
    if max(waits, default=0.0) > most or _is_stolen(host) or is_crowded:
        verdict = CONTENDED
    elif max(ahead, default=0.0) > COARSE_SHARE:
        verdict = COARSE
    return replace(
        host,
        verdict=verdict,
        largest_wait_share=max(waits, default=None),
        largest_ahead_share=max(ahead, default=None),
        least_cpu_share=min(shares, default=None),
        by_node=list(nodes),
    )


def _is_crowded(host: Fidelity) -> bool:
    others, busy = host.others_share or 0.0, host.busy_share or 0.0
    return others > CROWDED_SHARE and busy > SATURATED_SHARE


def _is_stolen(host: Fidelity) -> bool:
    """Whether the hypervisor took much of the CPU that this machine wanted."""
    steal, busy = host.steal_share or 0.0, host.busy_share or 0.0
    return steal > NOTICED_STEAL and steal > CONTENDED_SHARE * (busy + steal)


def of_host(
    samples: Sequence[HostSample], spans: Sequence[tuple[float, float]], steps_cpu_s: float
) -> Fidelity:
    """Shares of the cores' time in these spans; null where no reading is within them."""
    inside = [s for s in samples if any(start <= s.t <= end for start, end in spans)]
    seconds = sum(end - start for start, end in spans)
    if not inside or len(samples) < 2 or seconds <= 0:
        return Fidelity(verdict=UNKNOWN)
    core_s = seconds * max(1, inside[-1].cores)
    busy_s = _grown(samples, spans, lambda sample: sample.busy_s)
    steal_s = _grown(samples, spans, lambda sample: sample.steal_s)
    has_pressure = all(sample.pressure_s is not None for sample in samples)
    waited_s = _grown(samples, spans, lambda sample: sample.pressure_s or 0.0)
    loads = [sample.load for sample in inside if sample.load is not None]
    return Fidelity(
        verdict=UNKNOWN,
        busy_share=_share(busy_s, core_s),
        others_share=_share(busy_s - steps_cpu_s, core_s),
        steal_share=_share(steal_s, core_s),
        pressure_share=_share(waited_s, seconds) if has_pressure else None,
        load=round(fmean(loads), 2) if loads else None,
    )


def _share(part_s: float, whole_s: float) -> float:
    return round(min(1.0, max(0.0, part_s / whole_s)), 4)


def _grown(
    samples: Sequence[HostSample],
    spans: Sequence[tuple[float, float]],
    value: Callable[[HostSample], float],
) -> float:
    """How much a counter grew in these spans, as if evenly between two readings."""
    grown = 0.0
    for before, after in pairwise(samples):
        length = after.t - before.t
        within = sum(max(0.0, min(after.t, end) - max(before.t, start)) for start, end in spans)
        if length > 0:
            grown += (value(after) - value(before)) * min(1.0, within / length)
    return grown
