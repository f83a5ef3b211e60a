"""Watch a run until all nodes have ended, or find the node that failed first and why."""

import dataclasses
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from cluster.elastic.roll import Roll
from cluster.engine import Cluster
from cluster.faults.conductor import Conductor
from cluster.faults.host_events import HostEvents
from cluster.host.process_state import count_memory_kills, how_ended
from cluster.links.background import Background
from cluster.links.changes import LinkChanges
from cluster.observe.cause import COMPLAINT, Evidence, explain, explain_early_end
from cluster.observe.late import LateWatch
from cluster.observe.liveness import GRACE_S, Finding, Liveness
from cluster.observe.node_watch import POLL_S, NodeWatch, RunFailed
from cluster.observe.progress import Progress
from cluster.observe.stall import StallWatch, explain_hang
from cluster.spec.documents.event_reader import most_bytes
from cluster.spec.documents.events import Boundary, Event, Hello, Notice, Step
from cluster.spec.documents.fault_events import Noticed
from cluster.spec.documents.heartbeat import BEAT_S, read_heartbeat
from cluster.spec.documents.links import MeasuredLink
from cluster.spec.documents.node_files import plain_text
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.experiment import EXISTING, Experiment
from cluster.spec.quantities import write_memory

REPORTS_S = 3.0
"""After a node failed, how long the others have to report what they saw."""
COMPLAINTS_S = 8.0
"""Where nodes only complain of others, how long a better cause may take to show."""
LOOK_S = 0.25
ASK_EVERY_S = 1.0
"""How often the engine is asked which silent nodes are stopped: with Docker it takes a while."""
FOLDER_REMOVED = "its run folder was removed while the session ran: nothing of it is kept"
STACKS_S = 6 * BEAT_S
"""For nodes to find the request for their stacks and to write them."""


def watch_run(
    experiment: Experiment,
    folder: RunFolder,
    cluster: Cluster,
    progress: Progress,
    warn_of_burst: Callable[[Sequence[MeasuredLink], int], None],
    sent_rates: Callable[[], Mapping[int, float]],
    roll: Roll | None = None,
) -> None:
    """Until every node has ended its run; RunFailed when one cannot.

    With a `roll`, until every node has that is a member then. `warn_of_burst` is called with the
    links and the model's bytes as soon as a worker reports them.
    `sent_rates` gives the bytes per second that nodes sent recently.
    """
    watch = _RunWatch(experiment, folder, cluster, progress, roll)
    try:
        while True:
            for rank, event in watch.read_events():
                if isinstance(event, Hello) and rank == 0:
                    warn_of_burst(cluster.links, event.model_bytes)
            if watch.is_over:
                watch.link_changes.restore()
                watch.background.end()
                for fault in watch.conductor.never_happened():
                    progress.say(f"  fault {fault} never happened: the run ended before")
                return
            if not folder.events(0).parent.is_dir():
                raise RunFailed(FOLDER_REMOVED)
            watch.look(sent_rates)
            progress.tick()
            time.sleep(POLL_S)
    finally:
        watch.conductor.close()
        folder.stack_request.unlink(missing_ok=True)
        for name in experiment.event_writers:
            folder.heartbeat_of(name).unlink(missing_ok=True)


class _RunWatch:
    """What is known of a run, and whether it can go on."""

    def __init__(
        self,
        experiment: Experiment,
        folder: RunFolder,
        cluster: Cluster,
        progress: Progress,
        roll: Roll | None,
    ) -> None:
        self._experiment, self._folder, self._roll = experiment, folder, roll
        self._cluster, self._progress = cluster, progress
        self._names = experiment.all_names
        self._host_events = HostEvents(folder.host_events)
        self.conductor = Conductor(experiment, cluster, self._host_events.write, progress.say)
        self.link_changes = LinkChanges(experiment, cluster, self._host_events.write)
        self.background = Background(experiment.background, cluster, self._host_events.write)
        self._noticed: set[int] = set()
        writers = {r: n for r, n in enumerate(self._names) if n in experiment.event_writers}
        files = {rank: folder.events_of(name) for rank, name in writers.items()}
        self.nodes = NodeWatch(files, most_bytes(experiment))
        self._clock = _Clock()
        self._liveness = Liveness(
            self._names,
            min(experiment.workers, experiment.started_nodes),
            experiment.started_nodes,
            self._clock.now,
        )
        self._stopped: dict[int, str] = {}
        self._asked_at = -math.inf
        self._memory_kills = count_memory_kills()
        self._late = LateWatch(experiment.workers)
        self._stall = StallWatch(experiment, self._names, self._clock.now)
        self._addresses = {name: rank for rank, name in enumerate(self._names)}
        self._looked_at = 0.0
        self._failed_at: float | None = None
        self._findings: list[Finding] = []

    @property
    def is_over(self) -> bool:
        return self._roll.is_over if self._roll else not self.nodes.remaining

    @property
    def _running(self) -> list[int]:
        """Nodes that have not ended, and that the others wait for."""
        remaining = self.nodes.remaining
        if self._roll is None:
            return remaining
        return [rank for rank in remaining if rank in self._roll.crew.members]

    def read_events(self) -> list[tuple[int, Event]]:
        events = self.nodes.read()
        for rank, event in events:
            if self._roll:
                self._roll.note_event(rank, event)
            self._progress.event(rank, event)
            self.conductor.note(rank, event)
            self.link_changes.note(event)
            self.background.note(event)
            self._liveness.note_event(rank, event, self._clock.now)
            self._stall.note_event(event)
            if isinstance(event, Step) and (line := self._late.note(rank, event)):
                self._progress.say(line)
            if isinstance(event, Notice):
                self._progress.say(f"  {self._names[rank]}: {plain_text(event.text)}")
            elif isinstance(event, Boundary):
                own = {c.local.rpartition(":")[0]: rank for c in event.connections or ()}
                self._addresses |= own
        return events

    def look(self, sent_rates: Callable[[], Mapping[int, float]]) -> None:
        """RunFailed when the run cannot go on."""
        self.conductor.tick()
        self.link_changes.tick()
        exited = self._cluster.exited()
        now = self._clock.tick()
        if now - self._looked_at >= LOOK_S:
            self._looked_at = now
            self._judge(now)
            self._look_for_stall(sent_rates, now)
        exits = self._liveness.exits() | exited
        if self._roll:
            exits = {}
            self._call_roll(self._roll, exited, now)
        for rank in exits.keys() - self._noticed:
            self._noticed.add(rank)
            self._notice((rank,), how_ended(exits[rank]))
        evidence = Evidence(
            self._names,
            exits,
            self.nodes.failures,
            findings=[f for f in self._findings if f.is_final(now) and not self._roll],
            noticed=self._findings,
            addresses=self._addresses,
        )
        if self._is_over(evidence, now):
            self._fail(evidence)

    def _call_roll(self, roll: Roll, exited: Mapping[int, int], now: float) -> None:
        """Go on without nodes that ended or are out of reach, and with those that are back.

        What others complained of them meanwhile is no failure of theirs.
        """
        beats = {rank: signs.heartbeat for rank, signs in self._liveness.signs.items()}
        if any(beat and beat.exit_code for beat in beats.values()):
            self.read_events()
        for rank, code in roll.ends_of_members(exited, beats).items():
            why = self._explain_end(rank, code)
            self._notice((rank,), why)
            roll.lose(rank, why, comes_back=False)
        for rank in self.conductor.may_return & roll.crew.away.keys():
            self.conductor.may_return.remove(rank)
            roll.allow(rank)
        was_held = roll.is_held  # complaints may be read together with the last report
        if change := roll.look(self._findings, now):
            self._progress.say(change)
        failures = self.nodes.failures
        for rank in list(failures):
            is_member = rank in roll.crew.members
            is_held = was_held or roll.is_held
            if not is_member or (is_held and COMPLAINT.search(failures[rank].message)):
                del failures[rank]
        if not failures:
            self._failed_at = None

    def _explain_end(self, rank: int, code: int) -> str:
        starved = frozenset(self._cluster.out_of_memory()) & {rank}
        killed = count_memory_kills() > self._memory_kills
        evidence = Evidence(self._names, {rank: code}, starved=starved, memory_kill=killed)
        return explain(evidence, self._memory_limit(starved), self._cluster.exit_details)[1]

    def _memory_limit(self, starved: Collection[int]) -> str | None:
        """Of a node, in words; None for an auxiliary service, which has none."""
        per_node = self._experiment.memory_per_node
        if per_node is None or min(starved, default=0) >= self._experiment.started_nodes:
            return None
        return write_memory(per_node)

    def _notice(self, ranks: Collection[int], why: str) -> None:
        """Record that nodes do not go on."""
        for rank in ranks:
            self._host_events.write(Noticed(node=self._names[rank], why=why))

    def _judge(self, now: float) -> None:
        running, liveness = self.nodes.remaining, self._liveness
        for rank in running:
            beat = read_heartbeat(self._folder.heartbeat_of(self._names[rank]))
            liveness.note_heartbeat(rank, beat, now)
        if now - self._asked_at >= ASK_EVERY_S:
            self._asked_at = now
            self._stopped = self._cluster.stopped(liveness.silent(now))
        before, self._findings = self._findings, liveness.judge(running, self._stopped, now)
        known = {finding.key for finding in before}
        for finding in self._findings:
            if finding.key not in known:
                self._notice(finding.ranks, finding.text)
                follows = "the others go on without it" if self._roll else "the run ends"
                self._progress.say(f"  {finding.text}; {follows} after {GRACE_S:g} s of this")
        for finding in before:
            if finding.key not in {still.key for still in self._findings}:
                self._progress.say(f"  no longer: {finding.text}")

    def _look_for_stall(self, sent_rates: Callable[[], Mapping[int, float]], now: float) -> None:
        nodes = self._experiment.started_nodes
        exchanging = [rank for rank in self._running if rank < nodes]
        waiting = {rank: self._liveness.signs[rank] for rank in exchanging}
        if (self._roll and self._roll.is_held) or self._findings or self._failed_at is not None:
            return
        if self._experiment.engine == EXISTING:
            return  # neither steps nor bytes are known before an epoch has ended
        if text := self._stall.tell_slow(waiting, now):
            self._progress.say(text)
        if what := self._stall.find_deadlock(waiting, sent_rates(), now):
            self._folder.stack_request.touch()
            time.sleep(STACKS_S)
            where = max((signs.step for signs in waiting.values()), default=0) + 1
            logs = self._folder.log(0).parent
            if self._experiment.program is not None:
                why = explain_hang(self._experiment.strategy, self._names, waiting)
                raise RunFailed(f"{why}: {what}; their stacks are in {logs}")
            raise RunFailed(
                f"all nodes wait for each other since step {where}: {what}; their stacks and last"
                f" exchanges are in {logs}"
            )

    def _is_over(self, evidence: Evidence, now: float) -> bool:
        """Findings are final by themselves; after a failure the others may report first."""
        if evidence.findings:
            return True
        if not evidence.exits and not evidence.failures:
            return False
        if self._failed_at is None:
            self._failed_at = now
        return now - self._failed_at >= (REPORTS_S if evidence.has_cause else COMPLAINTS_S)

    def _fail(self, evidence: Evidence) -> None:
        starved = frozenset(self._cluster.out_of_memory())
        limit = self._memory_limit(starved)
        evidence = dataclasses.replace(
            evidence, starved=starved, memory_kill=count_memory_kills() > self._memory_kills
        )
        ended = sorted(self.nodes.ended) if self._experiment.program is not None else []
        if ended and not evidence.has_cause:
            rank, cause = ended[0], explain_early_end(self._experiment.strategy, ended, evidence)
        else:
            rank, cause = explain(evidence, limit, self._cluster.exit_details)
        raise RunFailed(f"{cause}; see {self._folder.log_of(self._names[rank])}")


class _Clock:
    """A monotonic clock that advances by at most a second between two readings.

    While this process itself does not run, it cannot tell that nodes do not.
    """

    def __init__(self) -> None:
        self._read_at = time.monotonic()
        self.now = 0.0

    def tick(self) -> float:
        read_at = time.monotonic()
        self.now += min(1.0, read_at - self._read_at)
        self._read_at = read_at
        return self.now
