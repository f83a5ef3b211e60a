"""Counters of every node -> samples.csv, while a run lasts.

Each source is read in a thread of its own at its own pace, once before the run starts and once after
it ended, so first and last sample enclose it. What is stored is what was read: raw and cumulative.
A node that cannot be read leaves a gap; restarts of a counter are handled where samples are used.
"""

from __future__ import annotations

import csv
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cluster.engine import CounterSource
from cluster.spec.records import Counters, Sample

RATE_READINGS = 10
"""The rate on display is taken over this many readings of the first source."""


class Collector:
    """A context manager: samples flow from entering to leaving."""

    def __init__(
        self,
        path: Path,
        sources: tuple[CounterSource, ...],
        interval: float,
        names: Sequence[str],
    ) -> None:
        """`names` are the nodes', by rank."""
        self._names = names
        self._path = path
        self._sources = sources
        self._interval = interval
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._writer: Any = None
        self.failures: dict[str, str] = {}
        """Sources that could not be read, or the file that could not be written, with the reason."""
        self._recent: dict[int, deque[tuple[float, int]]] = {}

    def __enter__(self) -> Collector:
        self._file = self._path.open("w", newline="")
        self._writer = csv.writer(self._file)
        self._writer.writerow(Sample.COLUMNS)
        for source in self._sources:
            self._read(source)
            thread = threading.Thread(target=self._poll, args=(source,), daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for source in self._sources:
            self._read(source)
        try:
            self._file.close()
        except OSError as error:
            self.failures[self._path.name] = str(error)

    def sent_rates(self) -> dict[int, float]:
        """Bytes a second that each node sent of late, for the progress display."""
        with self._lock:
            recent = {rank: (readings[0], readings[-1]) for rank, readings in self._recent.items()}
        return {
            rank: (last_bytes - first_bytes) / (last_t - first_t) if last_t > first_t else 0.0
            for rank, ((first_t, first_bytes), (last_t, last_bytes)) in recent.items()
        }

    def _poll(self, source: CounterSource) -> None:
        pause = self._interval / source.per_interval
        due = time.monotonic() + pause
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            self._read(source)
            due = max(due + pause, time.monotonic())

    def _read(self, source: CounterSource) -> None:
        try:
            readings = source.read()
        except Exception as error:  # a source is never worth a run; the summary shows it missing
            self.failures[source.name] = f"{type(error).__name__}: {error}"
            return
        try:
            self._write(source, readings)
        except OSError as error:  # a full disk must not end this thread without a word
            self.failures[self._path.name] = str(error)

    def _write(self, source: CounterSource, readings: dict[int, Counters]) -> None:
        now = time.time()
        with self._lock:
            for rank, counters in readings.items():
                if source is self._sources[0]:
                    recent = self._recent.setdefault(rank, deque(maxlen=RATE_READINGS))
                    recent.append((now, counters.sent_bytes))
                self._writer.writerow(Sample(now, source.name, self._names[rank], counters).row())
            self._file.flush()
