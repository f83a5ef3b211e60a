"""Which nodes are frozen, unplugged, cut off or silent. Pure: times are the caller's clock.

    frozen      the training process is stopped, or the host sees the node stopped or paused
    link down   the node says that its eth0 has no carrier or is gone
    cut off     the link is up, TCP retransmits unanswered, and a probe of the other nodes failed
    silent      no heartbeat and no event, and the host sees no reason

A node that recovers within GRACE_S goes on. A missing heartbeat alone proves nothing on a busy
machine: only after LOST_S it ends the run.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from cluster.observe.units import list_names
from cluster.spec.documents.events import Event, Phase, Step
from cluster.spec.documents.heartbeat import Heartbeat, LinkState

GRACE_S = 5.0
"""How long a node may be frozen or out of reach before the run ends."""
ASK_S = 1.5
"""Without a heartbeat for this long, the host looks at the node's processes."""
START_S = 3.0
"""The same for a node that has not had a heartbeat in this run yet."""
LOST_S = 30.0
"""Without any sign of life for this long, and without a known reason, the run ends."""


class Condition(IntEnum):
    """Why a node does not go on; a lower one explains a higher one of the same node."""

    FROZEN = 1
    LINK_DOWN = 2
    CUT_OFF = 3
    SILENT = 4


@dataclass(frozen=True)
class Finding:
    condition: Condition
    ranks: tuple[int, ...]
    text: str
    """For a person: "node2 is frozen (stopped) since step 41"."""
    since: float

    @property
    def key(self) -> tuple[Condition, tuple[int, ...]]:
        return self.condition, self.ranks

    def is_final(self, now: float) -> bool:
        return now - self.since >= GRACE_S


@dataclass
class Signs:
    """The signs of life of one node."""

    heartbeat: Heartbeat | None = None
    beat_at: float = 0.0
    event_at: float = 0.0
    cpu_at_event_s: float = 0.0
    phase: str = "setup"
    step: int = 0
    """The last one that it finished."""

    @property
    def cpu_s(self) -> float:
        """CPU time since the last event."""
        used = self.heartbeat.cpu_s if self.heartbeat else 0.0
        return max(0.0, used - self.cpu_at_event_s)


class Liveness:
    """What is known of all nodes of a run that have not ended yet."""

    def __init__(self, names: Sequence[str], workers: int, nodes: int, now: float) -> None:
        """`names` by rank; the first `nodes` exchange, the others are auxiliary services.

        The first `workers` make steps; a parameter server makes none.
        """
        self._names, self._workers, self._nodes = names, workers, nodes
        self.signs = {rank: Signs(beat_at=now, event_at=now) for rank in range(len(names))}
        self._noticed: dict[tuple[Condition, tuple[int, ...]], float] = {}
        self._unanswered_at = math.inf

    def note_event(self, rank: int, event: Event, now: float) -> None:
        signs = self.signs[rank]
        signs.event_at, signs.cpu_at_event_s = now, signs.cpu_at_event_s + signs.cpu_s
        if isinstance(event, Step):
            signs.step = event.step
        elif isinstance(event, Phase):
            signs.phase = event.phase

    def note_heartbeat(self, rank: int, heartbeat: Heartbeat | None, now: float) -> None:
        signs = self.signs[rank]
        if heartbeat and (not signs.heartbeat or heartbeat.beat != signs.heartbeat.beat):
            signs.heartbeat, signs.beat_at = heartbeat, now

    def silent(self, now: float) -> list[int]:
        """Nodes without a heartbeat: not any more, or not yet. Auxiliary services have none."""
        signs = {rank: self.signs[rank] for rank in range(self._nodes)}
        patience_s = {rank: ASK_S if node.heartbeat else START_S for rank, node in signs.items()}
        return [rank for rank, node in signs.items() if now - node.beat_at >= patience_s[rank]]

    def exits(self) -> dict[int, int]:
        """Exit codes of training processes that failed, by rank, as their nodes say."""
        beats = {rank: signs.heartbeat for rank, signs in self.signs.items()}
        return {rank: beat.exit_code for rank, beat in beats.items() if beat and beat.exit_code}

    def judge(
        self, running: Sequence[int], stopped: Mapping[int, str], now: float
    ) -> list[Finding]:
        """What keeps nodes from going on, the surest first; one finding for each node.

        `running` are the nodes that have not ended, `stopped` is the host's view of all nodes.
        """
        found = [
            *self._frozen(running, stopped, now),
            *self._links_down(running, now),
            *self._cut_off(running, now),
            *self._silent(running, now),
        ]
        self._noticed = {finding.key: self._noticed.get(finding.key, now) for finding in found}
        findings: list[Finding] = []
        for finding in found:
            if not any(set(finding.ranks) & set(surer.ranks) for surer in findings):
                since = min(finding.since, self._noticed[finding.key])
                findings.append(replace(finding, since=since))
        return findings

    def _frozen(
        self, running: Sequence[int], stopped: Mapping[int, str], now: float
    ) -> Iterator[Finding]:
        auxiliary = range(self._nodes, len(self._names))
        for rank in (*running, *(rank for rank in auxiliary if rank not in running)):
            signs = self.signs[rank]
            # A node whose events go on is not frozen, whatever else of it is stopped.
            how = stopped.get(rank) if now - signs.event_at >= ASK_S else None
            if signs.heartbeat and signs.heartbeat.is_stopped:
                how = how or "stopped"
            if how:
                where = f" {self._where(rank)}" if rank < self._nodes else ""
                text = f"{self._names[rank]} is frozen ({how}){where}"
                yield Finding(Condition.FROZEN, (rank,), text, now)

    def _links_down(self, running: Sequence[int], now: float) -> Iterator[Finding]:
        for rank in running:
            signs = self.signs[rank]
            if signs.heartbeat and signs.heartbeat.link != LinkState.UP:
                state = "down" if signs.heartbeat.link == LinkState.DOWN else "unplugged (no eth0)"
                text = f"{self._names[rank]}'s link is {state} {self._where(rank)}"
                yield Finding(Condition.LINK_DOWN, (rank,), text, now)

    def _cut_off(self, running: Sequence[int], now: float) -> Iterator[Finding]:
        """Since the first node noticed that nothing is acknowledged: its probe takes a while."""
        beats = {rank: self.signs[rank].heartbeat for rank in running}
        unanswered = {rank: beat for rank, beat in beats.items() if beat and beat.is_unanswered}
        self._unanswered_at = min(self._unanswered_at, now) if unanswered else math.inf
        probed = {rank: beat for rank, beat in unanswered.items() if beat.reached is not None}
        for ranks, witnesses in find_cuts(probed, self._nodes):
            text = self._describe_cut(ranks, witnesses)
            yield Finding(Condition.CUT_OFF, ranks, text, self._unanswered_at)

    def _describe_cut(self, ranks: tuple[int, ...], witnesses: tuple[int, ...]) -> str:
        names, where = self._list(ranks), self._where(ranks[0])
        if len(ranks) > 1:
            return f"{names} no longer reach each other {where}, though their links are up"
        reason = f"{self._list(witnesses)} cannot reach it" if witnesses else "no node answers it"
        return f"{names} is cut off {where}: its link is up, but {reason}"

    def _where(self, rank: int) -> str:
        """The step that it is in, for the end of a sentence; a server is in its workers' step."""
        phase, step = self.signs[rank].phase, self.signs[rank].step
        if rank >= self._workers:
            step = max((self.signs[worker].step for worker in range(self._workers)), default=0)
        return f"since step {step + 1}" if phase == "train" else f"in phase {phase}"

    def _list(self, ranks: Sequence[int]) -> str:
        return list_names([self._names[rank] for rank in ranks])

    def _silent(self, running: Sequence[int], now: float) -> Iterator[Finding]:
        for rank in running:
            signs = self.signs[rank]
            if signs.heartbeat and now - max(signs.beat_at, signs.event_at) >= LOST_S:
                where = self._where(rank)
                text = f"{self._names[rank]} gives no sign of life {where}, for {LOST_S:g} s"
                yield Finding(Condition.SILENT, (rank,), text, now - GRACE_S)


def find_cuts(
    probed: Mapping[int, Heartbeat], nodes: int
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Who is cut off, by the probes of some nodes: the ranks, and who cannot reach them.

    A node that reaches nobody is cut off, unless nobody reaches anybody, or there are just two.
    """
    isolated = {rank for rank, beat in probed.items() if beat.reached == 0}
    if isolated and (nodes == 2 or len(isolated) == nodes):
        return [(tuple(range(nodes)), ())]
    found: dict[tuple[int, ...], list[int]] = {(rank,): [] for rank in sorted(isolated)}
    for rank, beat in sorted(probed.items()):
        for other in beat.unreachable:
            if rank in isolated or other in isolated:
                continue
            if other in probed:  # which reaches others
                found.setdefault((min(rank, other), max(rank, other)), [])
            else:
                found.setdefault((other,), []).append(rank)
    return [(ranks, tuple(by)) for ranks, by in found.items()]
