"""Traces for Perfetto and chrome://tracing: a JSON file per run, a process per node.

A node has three threads: its phases, with the bytes of each; its steps, with data, compute and
exchange inside; and the messages of the strategy's schedule, with an arrow from the sender to the
receiver (timeline.py: they are placed in the measured exchanges, not captured), sent in the first
third of their slot and received in the last. Counters are bytes per second between samples. Times
are whole microseconds from the run's first record: fractions would make slices overlap by a
nanosecond, and Perfetto drops those.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType

from analysis.export.exported_run import ExportedRun
from analysis.export.timeline import (
    Part,
    PlacedMessage,
    TimedStep,
    microseconds,
    placed_messages,
    timed_steps,
)
from analysis.summary.counters import span
from analysis.summary.node_log import NodeLog
from cluster.observe.units import bytes_text
from cluster.spec.documents.records import Sample
from cluster.spec.documents.run_folder import node_name, write_at_once


class Thread(IntEnum):
    """Of a node, in the order of display."""

    PHASES = 1
    STEPS = 2
    MESSAGES = 3


class Trace:
    """The events of a trace, in Chrome's Trace Event Format.

    A node is a process; 0 is no process to Perfetto, so node 0 is process 1.
    """

    def __init__(self, begin_us: int) -> None:
        self.events: list[dict[str, object]] = []
        self._begin_us = begin_us

    def name_node(self, node: int, name: str, threads: dict[Thread, str]) -> None:
        self._add("M", node, "process_name", args={"name": name})
        self._add("M", node, "process_sort_index", args={"sort_index": node})
        for thread, title in threads.items():
            self._add("M", node, "thread_name", thread, args={"name": title})
            self._add("M", node, "thread_sort_index", thread, args={"sort_index": int(thread)})

    def slice(
        self,
        node: int,
        thread: Thread,
        part: Part,
        args: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        name, begin_us, end_us = part
        times = {"ts": self._time(begin_us), "dur": end_us - begin_us}
        self._add("X", node, name, thread, **times, args=dict(args))

    def arrow(self, identity: int, end: str) -> None:
        """The last slice is where the arrow begins (`flow_out`) or ends (`flow_in`)."""
        self.events[-1] |= {"bind_id": identity, end: True, "cat": "message"}

    def rate(self, node: int, name: str, t: float, value: float) -> None:
        """From this time on. Perfetto names the track by both words: sent bytes/s."""
        self._add("C", node, name, ts=self._time(microseconds(t)), args={"bytes/s": round(value)})

    def _add(
        self, kind: str, node: int, name: str, thread: Thread | None = None, **more: object
    ) -> None:
        event: dict[str, object] = {"ph": kind, "name": name, "pid": node + 1, **more}
        if thread is not None:
            event["tid"] = 10 * (node + 1) + thread
        self.events.append(event)

    def _time(self, unix_us: int) -> int:
        return unix_us - self._begin_us


def write(runs: Iterable[ExportedRun], output: Path) -> None:
    for run in runs:
        folder = output / run.folder.session
        folder.mkdir(parents=True, exist_ok=True)
        document = {
            "displayTimeUnit": "ms",
            "otherData": {"run": run.folder.name, "begin_unix_s": run.interval[0]},
            "traceEvents": trace_of(run).events,
        }
        text = json.dumps(document, allow_nan=False, separators=(",", ":"))
        write_at_once(folder / f"{run.folder.name}.json", text)


def trace_of(run: ExportedRun) -> Trace:
    record = run.record
    names = record.experiment.node_names
    times = [run.interval[0], *(sample.t for sample in record.samples)]
    trace = Trace(microseconds(min(times)))
    steps = [timed_steps(of_worker) for of_worker in record.steps]
    messages = placed_messages(record, steps)
    titles = {Thread.PHASES: "phases", Thread.STEPS: "steps"}
    if messages:
        titles[Thread.MESSAGES] = "scheduled messages"
        if (last := messages[-1].round + 1) < record.experiment.rounds:
            titles[Thread.MESSAGES] += f" until round {last}"
    for node, name in enumerate(names):
        trace.name_node(node, name, titles if node < len(record.logs) else {})
        _add_rates(trace, node, [sample for sample in record.samples if sample.node == name])
    for node, log in enumerate(record.logs):
        _add_phases(trace, node, log)
    for node, of_worker in enumerate(steps):
        _add_steps(trace, node, of_worker)
    for identity, message in enumerate(messages, start=1):
        _add_message(trace, identity, message)
    return trace


def _add_phases(trace: Trace, node: int, log: NodeLog) -> None:
    for start, end in log.phase_intervals:
        name = start.phase if start.epoch is None else f"{start.phase}, epoch {start.epoch}"
        counted = span([start.counters, end.counters])
        traffic = {"sent_bytes": counted.sent_bytes, "received_bytes": counted.received_bytes}
        phase = Part(name, microseconds(start.t), microseconds(end.t))
        trace.slice(node, Thread.PHASES, phase, traffic)


def _add_steps(trace: Trace, node: int, steps: Sequence[TimedStep]) -> None:
    for timed in steps:
        step = timed.step
        whole = Part(f"step {step.step}", timed.begin_us, timed.end_us)
        trace.slice(node, Thread.STEPS, whole, {"epoch": step.epoch, "loss": step.loss})
        for part in timed.parts:
            trace.slice(node, Thread.STEPS, part)


def _add_message(trace: Trace, identity: int, placed: PlacedMessage) -> None:
    message, begin, end = placed.message, placed.begin_us, placed.end_us
    third = (end - begin) // 3
    size = bytes_text(float(message.bytes))
    about = {"bytes": round(message.bytes), "round": placed.round + 1, "step": message.step + 1}
    sent = Part(f"to {node_name(message.destination)}: {size}", begin, begin + third)
    trace.slice(message.source, Thread.MESSAGES, sent, about)
    trace.arrow(identity, "flow_out")
    received = Part(f"from {node_name(message.source)}: {size}", end - third, end)
    trace.slice(message.destination, Thread.MESSAGES, received, about)
    trace.arrow(identity, "flow_in")


def _add_rates(trace: Trace, node: int, samples: Sequence[Sample]) -> None:
    """Bytes per second from each sample to the next; of the kernel's samples where there are any.

    Docker's count the same bytes, a tenth as often.
    """
    source = max((sample.source for sample in samples), default=None)
    readings = [sample for sample in samples if sample.source == source]
    for before, after in itertools.pairwise(readings):
        if after.t > before.t:
            traffic, seconds = span([before.counters, after.counters]), after.t - before.t
            trace.rate(node, "sent", before.t, traffic.sent_bytes / seconds)
            trace.rate(node, "received", before.t, traffic.received_bytes / seconds)
    for name in ("sent", "received") if readings else ():
        trace.rate(node, name, readings[-1].t, 0)
