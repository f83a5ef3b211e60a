"""What a run folder holds, read once: the experiment, every node's events, the samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from analysis.summary import control_traffic, counters, traffic_matrix
from analysis.summary.emulated_time import EmulatedTime
from analysis.summary.generations import counted, stretches
from analysis.summary.node_log import NodeLog, by_virtual_worker, read_logs
from analysis.theory import predicted_bytes as theory
from cluster.spec.documents.event_reader import most_bytes
from cluster.spec.documents.events import (
    End,
    Exchanges,
    Hello,
    Phase,
    RankOrder,
    Result,
    Schedule,
    Step,
)
from cluster.spec.documents.membership import Generation
from cluster.spec.documents.records import Counters, Sample
from cluster.spec.documents.run_folder import RunFolder, node_name
from cluster.spec.exchange.strategies import facts_of
from cluster.spec.exchange.stream import parse_stream
from cluster.spec.experiment import EXISTING, Experiment
from cluster.spec.own_code import is_own
from cluster.spec.schedules.messages import Setting
from cluster.spec.schedules.recorded import RecordedSchedule
from cluster.spec.schedules.unpaced import schedule_of


@dataclass(frozen=True)
class RecordedRun:
    experiment: Experiment
    logs: Sequence[NodeLog]
    """By rank: workers, then a server."""
    samples: Sequence[Sample]
    generations: Sequence[Generation] = ()
    """Of workers, where they changed."""

    @classmethod
    def read(
        cls, folder: RunFolder, experiment: Experiment, *, until_damage: bool = False
    ) -> RecordedRun:
        """`until_damage` takes of every event log what comes before a line that is no event."""
        most = most_bytes(experiment)
        logs = read_logs(folder, experiment.started_nodes, most, until_damage=until_damage)
        if experiment.virtual:
            logs = by_virtual_worker(logs[0], experiment.nodes)
        samples = list(folder.read_samples())
        generations = folder.read_membership().generations
        if len(generations) < 2:
            return cls(experiment, logs, samples)
        logs = [counted(log, rank, generations) for rank, log in enumerate(logs)]
        return cls(experiment, logs, samples, generations)

    def emulated(self) -> RecordedRun:
        """The same run in emulated time; what is read is in wall time."""
        times = [log.events[0].t for log in self.logs if log.events]
        if self.experiment.slowdown == 1 or not times:
            return self
        time = EmulatedTime(self.experiment.slowdown, min(times))
        logs = [NodeLog([time.event(event) for event in log.events]) for log in self.logs]
        return replace(self, logs=logs, samples=time.samples(self.samples))

    @property
    def workers(self) -> Sequence[NodeLog]:
        return self.logs[: self.experiment.workers]

    @cached_property
    def first(self) -> NodeLog:
        """The log of the first worker that was there at the end, and else of the first one."""
        return next((log for log in self.workers if log.first(End)), self.logs[0])

    @property
    def hello(self) -> Hello | None:
        return self.first.hello

    @property
    def has_ended(self) -> bool:
        return all(log.first(End) for log in self.logs)

    @cached_property
    def steps(self) -> list[list[Step]]:
        """By worker."""
        return [log.steps for log in self.workers]

    @cached_property
    def phases(self) -> list[dict[str, Counters]]:
        """By rank, the traffic of every phase.

        A node that was lost has not read its counters at the end: what the host read last counts.
        """
        booked = [counters.by_phase(log) for log in self.logs]
        for rank, log in enumerate(self.logs if self.generations else ()):
            if (phase := log.open_phase) is not None:
                source = [s for s in self.samples if s.node == node_name(rank)]
                readings = [s for s in source if s.source == source[0].source]
                since = counters.within(readings, [(phase.t, math.inf)])
                booked[rank][phase.phase] += since
        return booked

    @cached_property
    def control(self) -> list[control_traffic.NodeControl | None]:
        """By rank."""
        is_shared = self.experiment.engine == EXISTING and not self.experiment.gpu
        return [
            control_traffic.of_other_programs(log, node["train"].sent_payload, again)
            if is_shared and not log.idle_spans
            else control_traffic.of_node(log)
            for log, node, again in zip(self.logs, self.phases, self.retransmitted, strict=True)
        ]

    @cached_property
    def retransmitted(self) -> list[int | None]:
        """By rank, bytes that crossed the wire more than once in training, at most.

        TCP also counts what the node's own full queue dropped, which its interface never saw: so
        it is at most what the interface counted beyond what the connections carried.
        """
        return [
            _crossed_again(log, node["train"].sent_payload)
            for log, node in zip(self.logs, self.phases, strict=True)
        ]

    @cached_property
    def finished_epochs(self) -> int:
        """Epochs whose bytes are booked on every node; all of them where members changed."""
        if self.generations:
            return len(self.first.epochs)
        return min(sum(event.phase == "evaluate" for event in log.all(Phase)) for log in self.logs)

    def setting(self, hello: Hello) -> Setting:
        experiment = self.experiment
        stream = parse_stream(experiment.stream)
        return Setting(
            workers=experiment.workers,
            model_bytes=hello.model_bytes,
            elements=hello.parameters,
            compress=experiment.compress,
            passes=experiment.passes,
            schedule=experiment.schedule,
            seed=experiment.seed,
            bucket_bytes=tuple(hello.bucket_bytes),
            buffers=str(experiment.buffers),
            buffer_bytes=hello.buffer_bytes,
            first_round=experiment.rounds_before,
            fragments=stream.fragments if stream else 1,
            sites=tuple(experiment.site_members.values()),
            order=experiment.ring,
        )

    def setting_in_order(self, hello: Hello) -> Setting:
        """With the launcher's order of ranks, which decides who sends to whom."""
        setting, told = self.setting(hello), self.logs[0].first(RankOrder)
        return replace(setting, order=tuple(told.order)) if told else setting

    @cached_property
    def exchanges(self) -> dict[int, list[Exchanges]]:
        """By worker, of the epochs whose bytes are booked, in a run without a barrier."""
        done = self.finished_epochs
        logs = enumerate(self.workers)
        return {rank: [e for e in log.all(Exchanges) if e.epoch <= done] for rank, log in logs}

    @cached_property
    def recorded_schedule(self) -> RecordedSchedule | None:
        """Of a strategy of the user's own whose file has messages()."""
        found = self.logs[0].first(Schedule)
        if found is None or not is_own(self.experiment.strategy):
            return None
        return RecordedSchedule.of(found.rounds, found.order, self.experiment.nodes)

    def recorded_messages(self, hello: Hello, rounds: int) -> RecordedSchedule | None:
        """What nodes recorded of the messages of `rounds` rounds; None where none did."""
        if not self.experiment.is_unpaced:
            return self.recorded_schedule
        strategy = self.experiment.strategy
        return schedule_of(self.exchanges, self.setting(hello), strategy, rounds)

    @property
    def has_schedule(self) -> bool:
        """Whether the messages of each round are known."""
        known = facts_of(self.experiment.strategy).has_schedule
        return known or self.recorded_schedule is not None

    def predict_changed(self, hello: Hello) -> tuple[float, float] | None:
        """Bytes that all workers send in training, and the library's framing, summed over
        generations; None where no message schedule is known."""
        if not self.has_schedule or self.first.first(Result) is None:
            return None
        rounds = sum(result.rounds for result in self.first.all(Result))
        payload = framing = 0.0
        for part in stretches(self.generations, rounds, self.experiment.workers):
            setting = replace(self.setting(hello), workers=part.workers)
            each = part.workers * part.rounds
            if each:
                strategy = self.experiment.strategy
                payload += each * theory.predict(strategy, setting, part.rounds).sent_mean
                framing += each * theory.predict_framing(strategy, setting, part.rounds).sent_mean
        return payload, framing

    def predict(self, hello: Hello, rounds: int) -> theory.Prediction | None:
        """Bytes of a round, mean over these rounds; None where no message schedule is known."""
        if not (self.has_schedule or self.experiment.is_unpaced):
            return None
        rounds = max(rounds, 1)
        recorded = self.recorded_messages(hello, rounds)
        return theory.predict(self.experiment.strategy, self.setting(hello), rounds, recorded)

    def predict_framing(self, hello: Hello, rounds: int) -> theory.Prediction | None:
        """What the library adds to it, mean over these rounds; None where that is not known.

        Frames of strategies without a barrier are in the prediction: no library adds to them.
        """
        experiment = self.experiment
        by_gloo = experiment.carrier.is_torch and not experiment.gpu
        if not by_gloo or not facts_of(experiment.strategy).has_schedule:
            return None
        return theory.predict_framing(experiment.strategy, self.setting(hello), max(rounds, 1))


def _crossed_again(log: NodeLog, payload: int) -> int | None:
    again = counters.retransmitted(log, "train")
    spans = log.spans("train")
    if again is None or any(end.connections is None for span in spans for end in span):
        return again
    carried = traffic_matrix.carried(spans)
    if carried.closed:
        return again
    return min(again, max(payload - sum(carried.sent.values()), 0))
