"""The host's side of --on-failure continue: what it sees of the nodes -> membership.json."""

from collections.abc import Collection, Mapping, Sequence

from cluster.elastic import crew
from cluster.elastic.crew import Crew, Stage
from cluster.observe.cause import SIGNALS
from cluster.observe.liveness import Finding
from cluster.observe.node_watch import RunFailed
from cluster.observe.units import list_names
from cluster.spec import clock
from cluster.spec.documents.events import End, Event, Failure, Held, Step
from cluster.spec.documents.fault_events import Member
from cluster.spec.documents.heartbeat import Heartbeat
from cluster.spec.documents.membership import Generation, Membership
from cluster.spec.documents.run_folder import RunFolder, node_name, write_json
from cluster.spec.experiment import Experiment

KEEP_THEIR_OWN = ("pairwise", "sgp")
"""Strategies whose workers have models of their own."""


class Roll:
    """Keeps membership.json of one run: made before its nodes start, closed when it is over."""

    def __init__(
        self, experiment: Experiment, folder: RunFolder, absent: Collection[int] = ()
    ) -> None:
        """`absent` are nodes that join later."""
        self._folder = folder
        self._generation_of: dict[int, int] = {}
        self._complained: set[int] = set()
        self.crew: Crew = crew.assemble(
            experiment.nodes,
            experiment.workers,
            keeps_own=experiment.strategy in KEEP_THEIR_OWN,
            is_free=experiment.is_unpaced,
            absent=absent,
        )
        self._write(is_over=False)

    @property
    def is_held(self) -> bool:
        return self.crew.stage == Stage.HELD

    @property
    def is_over(self) -> bool:
        return self.crew.stage == Stage.OVER

    def close(self) -> None:
        """Every node may leave, also one that was not there at the end."""
        if self._folder.path.is_dir():
            self._write(is_over=True)

    def allow(self, rank: int) -> None:
        """A node that was killed, or not there yet, may join."""
        self.crew = crew.allow(self.crew, rank)

    def note_event(self, rank: int, event: Event) -> None:
        if isinstance(event, Member):
            self._generation_of[rank] = event.generation
            self.crew = crew.note_step(self.crew, rank, event.generation, epoch=0)
        elif isinstance(event, Step):
            generation = self._generation_of.get(rank, 0)
            self.crew = crew.note_step(self.crew, rank, generation, event.epoch, event.of_all)
        elif isinstance(event, Held):
            self.crew = crew.note_held(self.crew, rank, event)
        elif isinstance(event, Failure):
            self._complained.add(rank)
        elif isinstance(event, End):
            self.crew = crew.note_end(self.crew, rank)

    def ends_of_members(
        self, exited: Mapping[int, int], beats: Mapping[int, Heartbeat | None]
    ) -> dict[int, int]:
        """Exit codes of nodes, and of training processes of this generation that a signal ended, or
        that ended without a word. Others wait for the next generation.

        A process writes why it fails before it ends: what it wrote must have been read after the
        heartbeat that tells of its end.
        """
        number = self.crew.present.number
        ended = {
            rank: beat.exit_code
            for rank, beat in beats.items()
            if beat is not None and beat.exit_code and beat.generation == number
            if beat.exit_code in SIGNALS or rank not in self._complained
        }
        return {r: code for r, code in {**ended, **exited}.items() if r in self.crew.members}

    def lose(self, rank: int, why: str, *, comes_back: bool) -> None:
        self.crew = crew.lose(self.crew, rank, why, clock.now(), comes_back=comes_back)

    def look(self, findings: Sequence[Finding], now: float) -> str | None:
        """Drop the nodes that are out of reach for good; what to tell of a change.

        RunFailed where nobody can go on.
        """
        for finding in findings:
            if finding.is_final(now):
                for rank in victims(finding, self.crew.members):
                    self.lose(rank, finding.text, comes_back=True)
        before = self.crew
        blocked = {rank for finding in findings for rank in finding.ranks}
        self.crew = crew.settle(before, clock.now(), blocked)
        if self.crew.stage == Stage.FAILED:
            raise RunFailed("; ".join(self.crew.why))
        if (self.crew.stage, self.crew.generations) != (self._written):
            self._write(is_over=False)
        if self.crew.present.number > before.present.number:
            self._complained.clear()
            return describe(self.crew.present, before.present)
        return None

    def _write(self, *, is_over: bool) -> None:
        self._written = self.crew.stage, self.crew.generations
        write_json(
            self._folder.membership,
            Membership(
                generations=list(self.crew.generations), is_held=self.is_held, is_over=is_over
            ),
        )


def victims(finding: Finding, members: Collection[int]) -> list[int]:
    """Whom to go on without. Of nodes that do not reach each other the first one stays."""
    found = sorted(set(finding.ranks) & set(members))
    return found[1:] if len(finding.ranks) > 1 and len(found) > 1 else found


def describe(generation: Generation, before: Generation) -> str:
    """node2 was ended by SIGKILL: 5 nodes go on after step 41 (generation 1)"""
    back = [node_name(rank) for rank in generation.joiners if rank not in before.members]
    count = f"{len(generation.members)} node{'s go' if len(generation.members) > 1 else ' goes'} on"
    who = f"{list_names(back)} joins, {count}" if back else count
    where = f"after step {generation.start.step} (generation {generation.number})"
    return f"  {'; '.join(generation.why)}: {who} {where}"
