"""Why a run failed: the node and the cause, then the peers that complained. Pure.

When a node ends or is out of reach, its peers report a connection that was closed, reset or timed
out. Such a complaint is never the cause where anything better is known.
"""

import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cluster.host.process_state import how_ended
from cluster.observe.liveness import Finding
from cluster.observe.units import list_names
from cluster.spec.documents.events import Failure
from cluster.spec.documents.summary import OUT_OF_MEMORY

SIGNALS = {128 + number for number in signal.Signals}
"""Exit codes of processes that a signal ended."""
COMPLAINT = re.compile(
    r"closed by peer|reset by peer|broken pipe|timed? ?out|unreachable|refused|no route to host"
    r"|not connected|pair closure|shut down|horovodinternalerror|distnetworkerror|diststoreerror"
    r"|one or more processes exited|peerlost",
    re.IGNORECASE,
)
"""What Gloo, Horovod, torch's store and our own frames say when the other end is gone."""
FIRST_TO_END = re.compile(r"Process name: (?P<rank>\d{1,4})\s+Exit code: (?P<code>\d{1,3})\b")
"""What Horovod's driver says of the task that ended first; ranks are Horovod's own."""
ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+|\bnode\d+\b")
LONGEST = 160


@dataclass(frozen=True)
class Evidence:
    """All that is known when a run fails; ranks index `names`."""

    names: Sequence[str]
    exits: Mapping[int, int] = field(default_factory=dict)
    failures: Mapping[int, Failure] = field(default_factory=dict)
    starved: frozenset[int] = frozenset()
    """Nodes that the kernel ended for lack of memory."""
    findings: Sequence[Finding] = ()
    """Conditions that have lasted longer than the grace."""
    noticed: Sequence[Finding] = ()
    """Those and the ones that have not."""
    memory_kill: bool = False
    """Whether the kernel ended some process of this machine for lack of memory meanwhile."""
    addresses: Mapping[str, int] = field(default_factory=dict)
    """Address or name of a node -> its rank."""

    @property
    def killed(self) -> list[int]:
        return sorted(rank for rank, code in self.exits.items() if code in SIGNALS)

    @property
    def own_failures(self) -> list[int]:
        """Nodes with an error of their own, the first one first."""
        own = [rank for rank, f in self.failures.items() if not COMPLAINT.search(f.message)]
        return sorted(own, key=lambda rank: self.failures[rank].t)

    @property
    def unexplained(self) -> list[int]:
        """Nodes that ended without a report, hence not because of another."""
        return sorted(set(self.exits) - set(self.failures) - set(self.killed))

    @property
    def silent(self) -> list[int]:
        """Nodes that have neither ended nor reported anything."""
        nodes = [rank for rank, name in enumerate(self.names) if name.startswith("node")]
        return [rank for rank in nodes if rank not in {*self.failures, *self.exits}]

    @property
    def lost(self) -> tuple[int, int] | None:
        """The only silent node, and the exit code that Horovod's driver tells of one."""
        ends = [FIRST_TO_END.search(failure.message) for failure in self.failures.values()]
        codes = [int(end["code"]) for end in ends if end]
        return (self.silent[0], codes[0]) if codes and len(self.silent) == 1 else None

    @property
    def has_cause(self) -> bool:
        """Whether there is more than complaints."""
        own = self.killed or self.own_failures or self.unexplained or self.lost
        return bool(self.starved or self.findings or own)


def explain(
    evidence: Evidence, limit: str | None, exit_details: Callable[[int], str]
) -> tuple[int, str]:
    """The rank of the node that failed and one sentence; `limit` is a node's memory, in words."""
    rank, cause = _cause(evidence, limit, exit_details)
    for finding in evidence.noticed:
        if finding.text not in cause and rank not in finding.ranks:
            cause += f"; {finding.text}, too"
    said = evidence.failures[rank].message if rank in evidence.failures else None
    others = [r for r, f in sorted(evidence.failures.items()) if r != rank and f.message != said]
    if others and evidence.has_cause:
        first = shortened(evidence.failures[others[0]].message)
        cause += f"; {list_names([evidence.names[r] for r in others])} then complained: {first}"
    return rank, cause


def explain_early_end(program: str, ended: Sequence[int], evidence: Evidence) -> str:
    """A program that ended well on some nodes, whose peers complain of them."""
    where = list_names([evidence.names[rank] for rank in ended])
    others = sorted(evidence.failures)
    first = shortened(evidence.failures[others[0]].message) if others else ""
    names = list_names([evidence.names[rank] for rank in others])
    complaint = f"; {names} then complained: {first}" if others else ""
    return f"{program} ended on {where} (exit code 0) while the others went on{complaint}"


def shortened(message: str) -> str:
    """The first sentence, without Gloo's own source file."""
    return re.sub(r"\[[^\]]*\.cc:\d+\] ", "", message).partition(". ")[0][:LONGEST]


def _cause(
    evidence: Evidence, limit: str | None, exit_details: Callable[[int], str]
) -> tuple[int, str]:
    names, exits = evidence.names, evidence.exits
    if evidence.starved:
        rank = min(evidence.starved)
        at_limit = f": the kernel ended it at its limit of {limit}; raise --total-memory"
        return rank, f"{names[rank]} {OUT_OF_MEMORY}{at_limit if limit else ''}"
    if evidence.killed:
        rank = evidence.killed[0]
        killed = exits[rank] - 128 == signal.SIGKILL
        hint = " (out of memory?)" if killed and evidence.memory_kill else ""
        return rank, f"{names[rank]} {how_ended(exits[rank])}{hint}"
    if evidence.findings:
        return evidence.findings[0].ranks[0], "; ".join(f.text for f in evidence.findings)
    if evidence.unexplained:
        rank = evidence.unexplained[0]
        words = exit_details(rank).strip().splitlines()
        detail = f": {words[-1]}" if words else ""
        return rank, f"{names[rank]} {how_ended(exits[rank])}{detail}"
    if evidence.own_failures:
        rank = evidence.own_failures[0]
        return rank, f"{names[rank]} {evidence.failures[rank].message}"
    if evidence.lost:
        rank, code = evidence.lost
        return rank, f"{names[rank]} {how_ended(code)}"
    return _from_complaints(evidence)


def _from_complaints(evidence: Evidence) -> tuple[int, str]:
    """Whom the complaints point to, and the first of them."""
    failures = evidence.failures
    first = min(failures, key=lambda rank: failures[rank].t)
    said = f"{evidence.names[first]} {shortened(failures[first].message)}"
    pointed = [
        evidence.addresses[name]
        for rank, failure in failures.items()
        for name in ADDRESS.findall(failure.message)
        if evidence.addresses.get(name, rank) != rank
    ]
    if not pointed:
        return _from_silence(evidence, first, said)
    suspect = max(set(pointed), key=lambda rank: (pointed.count(rank), -rank))
    text = f"{said}; no cause was found, the complaints point to {evidence.names[suspect]}"
    return suspect, text


def _from_silence(evidence: Evidence, first: int, said: str) -> tuple[int, str]:
    """Nodes that did not complain when others did are where to look."""
    silent = evidence.silent
    if not silent:
        return first, said
    names = list_names([evidence.names[rank] for rank in silent])
    text = f"{said}; no cause was found; {names} said nothing (ended, frozen or cut off?)"
    return silent[0], text
