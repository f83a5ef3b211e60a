"""Readings of nodes -> CSV files, while a run lasts (samples.csv; gpu_samples.csv in cluster/gpu).

Each source is read in a thread of its own at its own pace, once before the run starts and once
after it ended: the first and last sample enclose the run. Raw cumulative counters are stored. A
node that cannot be read leaves a gap; counters that restart are handled where samples are used.
"""

import csv
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from cluster.engine import CounterSource
from cluster.spec import clock
from cluster.spec.documents.records import Sample

RATE_READINGS = 10
"""The displayed rate is the mean over this many readings of the first source."""

Rows = Sequence[Sequence[object]]


@dataclass(frozen=True)
class RowSource:
    """A function that reads some rows, and how often it is called."""

    name: str
    per_interval: float
    read: Callable[[], Rows]


class CsvSampler:
    """A context manager that writes what its sources read, from entering to leaving.

    A source that fails never fails the run: `failures` names it.
    """

    def __init__(
        self, path: Path, columns: Sequence[str], sources: Sequence[RowSource], interval_s: float
    ) -> None:
        self._path, self._columns = path, columns
        self._sources, self._interval_s = sources, interval_s
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._writer: Any = None
        self.failures: dict[str, str] = {}
        """Sources that could not be read, or the file that could not be written -> the reason."""

    def __enter__(self) -> Self:
        self._file = self._path.open("w", newline="")
        self._writer = csv.writer(self._file)
        self._writer.writerow(self._columns)
        for source in self._sources:
            self._sample(source)
            thread = threading.Thread(target=self._poll, args=(source,), daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for source in self._sources:
            self._sample(source)
        if self._writer is not None:
            try:
                self._file.close()
            except OSError as error:
                self.failures[self._path.name] = str(error)

    def _poll(self, source: RowSource) -> None:
        pause = self._interval_s / source.per_interval
        due = time.monotonic() + pause
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            self._sample(source)
            due = max(due + pause, time.monotonic())

    def _sample(self, source: RowSource) -> None:
        try:
            rows = source.read()
        except Exception as error:  # a source never fails a run; the summary shows the gap
            self.failures[source.name] = f"{type(error).__name__}: {error}"
            return
        try:
            with self._lock:
                self._writer.writerows(rows)
                self._file.flush()
        except OSError as error:  # such as a full disk, which would end this thread silently
            self.failures[self._path.name] = str(error)


class Collector(CsvSampler):
    """Samples of all nodes' counters, and the rates at which nodes send."""

    def __init__(
        self, path: Path, sources: tuple[CounterSource, ...], interval: float, names: Sequence[str]
    ) -> None:
        """`names` are the nodes' names, by rank."""
        self._names = names
        self._recent: dict[int, deque[tuple[float, int]]] = {}
        rows = [
            RowSource(source.name, source.per_interval, partial(self._rows, source, is_first))
            for source, is_first in zip(sources, [True] + [False] * len(sources), strict=False)
        ]
        super().__init__(path, Sample.COLUMNS, rows, interval)

    def sent_rates(self) -> dict[int, float]:
        """Bytes per second that each node sent recently, for the progress display."""
        with self._lock:
            recent = {rank: (readings[0], readings[-1]) for rank, readings in self._recent.items()}
        return {
            rank: (last_bytes - first_bytes) / (last_t - first_t) if last_t > first_t else 0.0
            for rank, ((first_t, first_bytes), (last_t, last_bytes)) in recent.items()
        }

    def sent_bytes(self) -> dict[int, int]:
        """What each node's counter showed when it was last read."""
        with self._lock:
            return {rank: readings[-1][1] for rank, readings in self._recent.items()}

    def _rows(self, source: CounterSource, is_first: bool) -> Rows:
        readings = source.read()
        now = clock.now()
        if is_first:
            with self._lock:
                for rank, counters in readings.items():
                    recent = self._recent.setdefault(rank, deque(maxlen=RATE_READINGS))
                    recent.append((now, counters.sent_bytes))
        return [
            Sample(now, source.name, self._names[rank], counters).row()
            for rank, counters in readings.items()
        ]
