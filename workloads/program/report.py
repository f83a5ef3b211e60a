"""What is known of a program on one node -> the node's events.

Interfaces and connections are read here; steps, phases, results, closed connections and calls of
collectives are lines that its processes wrote (on_path/). They are the user's: what is no line of
ours is left out, never an error.
"""

import contextlib
import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cluster.spec import clock
from cluster.spec.documents.events import (
    Boundary,
    ConnectionBytes,
    Idle,
    Operations,
    Phase,
    Result,
    Step,
)
from cluster.spec.documents.records import (
    COUNTED_VARIABLE,
    PHASES,
    Counters,
    is_counted,
    parse_net_dev,
    total,
)
from workloads.counters.connections import Connection
from workloads.counters.interfaces import read_interfaces, read_segments
from workloads.counters.sockets import read_node_connections
from workloads.event_log import EventLog

PIECE_BYTES = 1 << 20
MOST_STEPS = 500_000
"""That are recorded: the event log of a node is bounded."""
MOST_NAMES = 64
HELD_STEPS = 64
"""Steps of an optimizer that wait for the program's own, which replace them."""


LEAST_SEGMENTS = 10
"""Of a moment in which control traffic is looked for."""
Reading = tuple[float, Counters, int]
"""Time, interfaces, and TCP segments sent."""


class NodeReport:
    """The events of one program on one node."""

    def __init__(self, log: EventLog, told: Path) -> None:
        self._log, self._told, self._offset = log, told, 0
        self._connections: dict[tuple[str, str], Connection] = {}
        self._operations: dict[str, list[int]] = {}
        self._held: list[dict[str, Any]] = []
        self._are_own: bool | None = None
        self._last = {"t": time.monotonic(), "cpu": 0.0, "wait": 0}
        self._steps = 0
        self._idle_from: Reading | None = None
        self._idle: tuple[Reading, ...] = ()
        self._least_payload = math.inf
        self._accuracy: float | None = None
        self._loss: float | None = None

    @property
    def has_joined(self) -> bool:
        """Whether it has ever been connected to another node."""
        return bool(self._connections)

    def boundary(self, kind: type[Boundary], counters: Counters | None = None, **more: Any) -> None:
        """An event at which bytes are booked. Connections are all that ever were."""
        self.look()
        everything = self._connections.values()
        self._log.write(
            kind(
                **more,
                counters=counters or read_interfaces(),
                retransmitted_bytes=sum(each.retransmitted_bytes for each in everything),
                sent_segments=read_segments(),
                connections=[each.counted for each in everything],
            )
        )

    def look_for_idle(self) -> None:
        """Find the moments in which only control traffic was sent: its segments are the shortest.

        Horovod negotiates every millisecond, whether or not there is anything to exchange.
        """
        reading = clock.now(), read_interfaces(), read_segments()
        if self._idle_from is not None:
            _, before, segments_before = self._idle_from
            segments = reading[2] - segments_before
            payload = (reading[1] - before).sent_payload
            if segments >= LEAST_SEGMENTS and payload / segments < self._least_payload:
                self._least_payload = payload / segments
                self._idle = self._idle_from, reading
        self._idle_from = reading

    def _write_idle(self) -> None:
        for reading, began in zip(self._idle, (True, False), strict=False):
            t, counters, segments = reading
            self._log.write(
                Idle(
                    t=round(t, 4),
                    began=began,
                    counters=counters,
                    retransmitted_bytes=0,
                    sent_segments=segments,
                    connections=[],
                )
            )

    def look(self) -> None:
        """Note the open connections."""
        for connection in read_node_connections():
            self._note(connection)

    def _note(self, connection: Connection) -> None:
        """The largest reading of a connection is the last one."""
        ends = connection.counted.local, connection.counted.remote
        before = self._connections.get(ends)
        if before is not None:
            sent = max(before.counted.sent_bytes, connection.counted.sent_bytes)
            received = max(before.counted.received_bytes, connection.counted.received_bytes)
            again = max(before.retransmitted_bytes, connection.retransmitted_bytes)
            connection = Connection(ConnectionBytes(*ends, sent, received), again)
        self._connections[ends] = connection

    def take(self) -> None:
        """Turn what processes told since the last time into events."""
        for line in self._lines():
            with contextlib.suppress(ArithmeticError, LookupError, TypeError, ValueError):
                self._take(line)

    def _lines(self) -> Iterator[dict[str, Any]]:
        with self._told.open("rb") as file:
            while True:
                file.seek(self._offset)
                piece = file.read(PIECE_BYTES)
                end = piece.rfind(b"\n") + 1
                if not end:
                    return
                self._offset += end
                for text in piece[:end].splitlines():
                    with contextlib.suppress(ValueError):
                        if isinstance(line := json.loads(text), dict):
                            yield line

    def _take(self, line: dict[str, Any]) -> None:
        if "closed" in line:
            local, remote, sent, received, again = line["closed"]
            counted = ConnectionBytes(str(local), str(remote), int(sent), int(received))
            self._note(Connection(counted, int(again)))
        elif "operations" in line:
            self._add_operations(line["operations"])
        elif line["local"] != 0:
            return
        elif "step" in line:
            self._take_step(line)
        elif line.get("phase") in PHASES:
            self.flush_steps()
            interfaces = parse_net_dev(str(line["net"]))
            only = os.environ.get(COUNTED_VARIABLE)
            counters = total(c for name, c in interfaces.items() if is_counted(name, only))
            self.boundary(Phase, counters, phase=line["phase"], t=_unix_time(line["t"]))
        elif "result" in line:
            given = line["result"]
            self._accuracy, self._loss = (_number(given[k]) for k in ("accuracy", "loss"))

    def _add_operations(self, counts: dict[str, list[int]]) -> None:
        for name, (calls, size) in counts.items():
            if len(self._operations) < MOST_NAMES or name in self._operations:
                before = self._operations.setdefault(str(name)[:64], [0, 0])
                before[0] += int(calls)
                before[1] += int(size)

    def _take_step(self, line: dict[str, Any]) -> None:
        """The program's own steps, or its optimizer's where it tells none."""
        if line["told"] is True:
            if self._are_own is None:
                self._are_own, self._held = True, []
            if self._are_own:
                self._write_step(line)
        elif self._are_own is not True:
            self._held.append(line)
            if self._are_own is False or len(self._held) >= HELD_STEPS:
                self.flush_steps()

    def flush_steps(self) -> None:
        for line in self._held:
            self._are_own = False
            self._write_step(line)
        self._held = []

    def _write_step(self, line: dict[str, Any]) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            return
        now = {"t": float(line["t"]), "cpu": float(line["cpu"]), "wait": line["wait"]}
        before, self._last = self._last, now
        wait = None if None in (now["wait"], before["wait"]) else now["wait"] - before["wait"]
        self._log.write(
            Step(
                t=_unix_time(line["t"]),
                epoch=1,
                step=self._steps,
                loss=_number(line["step"]),
                step_s=round(max(0.0, now["t"] - before["t"]), 6),
                data_s=0.0,
                compute_s=None,
                exchange_s=None,
                cpu_s=round(max(0.0, now["cpu"] - before["cpu"]), 6),
                wait_s=None if wait is None else round(max(0, wait) / 1e9, 6),
            )
        )

    def close(self) -> None:
        """What is known only at the end."""
        self.take()
        self.flush_steps()
        self._write_idle()
        if self._operations:
            self._log.write(Operations(operations=self._operations))
        self._log.write(Result(accuracy=self._accuracy, loss=self._loss, steps=self._steps))


def _unix_time(monotonic: Any) -> float:
    return round(clock.now() - time.monotonic() + float(monotonic), 4)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None
