"""The rates at which the nodes of a run sent, and its phases: from samples.csv and events.

Counters are cumulative and sampled at irregular times, so a rate is the difference between two
times on an even grid, interpolated between samples. A grid of at most BINS keeps the page small:
detail within a bin is lost, never bytes.
"""

import itertools
import math
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster.spec.documents.codec import LARGEST_NUMBER, DocumentError
from cluster.spec.documents.event import Event
from cluster.spec.documents.event_reader import read_lines
from cluster.spec.documents.events import End, Phase, parse_event
from cluster.spec.documents.fault_events import FaultBegun, FaultOver
from cluster.spec.documents.link_events import BackgroundChanged, LinkChanged
from cluster.spec.documents.node_files import open_regular
from cluster.spec.documents.run_folder import RunFolder, node_name
from cluster.spec.sites import path_name

BINS = 120
SHORTEST_S = 1e-3
"""Samples of a shorter time have no rate."""
SAMPLES = {"t": "float64", "source": "category", "node": "category", "sent_bytes": "int64"}


@dataclass(frozen=True)
class Rates:
    source: str
    step_s: float
    """Width of a bin."""
    sent_bit: dict[str, list[float]]
    """Node -> bits a second in each bin, from the first sample on."""
    phases: list[tuple[str, float, float]]
    """Phase, begin and end, in seconds from the first sample."""
    faults: list[tuple[str, float, float]]
    """The fault as it was asked for, begin and end, as phases are; one that lasted ends with the
    samples."""
    background: list[tuple[str, float, float]] = field(default_factory=list)
    """Background traffic: its flows, begin and end."""
    limits: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """Link or path whose rate changed -> moments, and its rate from then on, bits a second."""


def read_rates(folder: RunFolder, dilation: float = 1.0) -> Rates | None:
    """In emulated time; None where a run has no samples.

    DocumentError names the line of a damaged file.
    """
    try:
        samples = _read_samples(folder)
    except FileNotFoundError:
        return None
    source = "kernel" if (samples["source"] == "kernel").any() else "docker"
    start = float(samples["t"].min())
    samples = samples[samples["source"] == source]
    span = float(samples["t"].max()) - start if len(samples) else 0.0
    if span < SHORTEST_S:
        return None
    span /= dilation
    samples = samples.assign(t=(samples["t"] - start) / dilation)
    edges = np.linspace(0, span, BINS + 1)
    sent = {
        str(node): _rate(readings["t"].to_numpy(), readings["sent_bytes"].to_numpy(), edges)
        for node, readings in samples.groupby("node", observed=True)
        if len(readings) > 1
    }
    if not sent:
        return None
    told = _HostEvents.read(folder, start, dilation, span)
    return Rates(
        source,
        span / BINS,
        sent,
        _phases(folder, start, dilation),
        told.faults(),
        told.background(),
        told.limits(folder),
    )


def _read_samples(folder: RunFolder) -> pd.DataFrame:
    """By pandas, which is fast. What it does not take is read line by line: that names the line."""
    try:
        return _read_table(folder)
    except (ValueError, OverflowError) as error:
        whole_lines = sum(1 for _ in folder.read_samples())
        problem = error
    try:
        return _read_table(folder, whole_lines) if whole_lines else pd.DataFrame(columns=[*SAMPLES])
    except (ValueError, OverflowError):
        raise DocumentError(f"{folder.samples.name}: {problem}") from None


def _read_table(folder: RunFolder, lines: int | None = None) -> pd.DataFrame:
    with open_regular(folder.samples) as file:
        found = pd.read_csv(file, usecols=list(SAMPLES), dtype=SAMPLES, nrows=lines)
    if not (found["t"].abs() <= LARGEST_NUMBER).all() or (found["sent_bytes"] < 0).any():
        raise ValueError("a number is out of range")
    return found


def _rate(
    t: NDArray[np.float64], sent: NDArray[np.int64], edges: NDArray[np.float64]
) -> list[float]:
    """A counter that fell has restarted: its value is all new bytes."""
    counted = sent.astype("float64")
    steps = np.diff(counted)
    steps[steps < 0] = counted[1:][steps < 0]
    total = np.concatenate([[0], np.cumsum(steps)])
    bits = 8 * np.diff(np.interp(edges, t, total)) / np.diff(edges)
    return [float(f"{bit:.3g}") for bit in bits]


def _phases(folder: RunFolder, start: float, dilation: float) -> list[tuple[str, float, float]]:
    """Of node 0, whose phase boundaries are those of all. Only lines of that kind are parsed."""

    def seconds(t: float) -> float:
        return round((t - start) / dilation, 3)

    path = folder.events(0)
    kinds = (b'{"event":"phase"', b'{"event":"end"')
    lines = (line for line in read_lines(path) if line.startswith(kinds))
    try:
        boundaries = [parse_event(line) for line in lines]
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"{path.name}: {error}") from None
    return [
        (event.phase, seconds(event.t), seconds(after.t))
        for event, after in itertools.pairwise(boundaries)
        if isinstance(event, Phase) and isinstance(after, Phase | End)
    ]


@dataclass(frozen=True)
class _HostEvents:
    """What the host wrote, in emulated seconds from the first sample."""

    events: list[Event]
    start: float
    dilation: float
    span: float

    @classmethod
    def read(cls, folder: RunFolder, start: float, dilation: float, span: float) -> Self:
        try:
            return cls(list(folder.read_host_events()), start, dilation, span)
        except FileNotFoundError:
            return cls([], start, dilation, span)

    def _at(self, t: float) -> float:
        return round(min((t - self.start) / self.dilation, self.span), 3)

    def faults(self) -> list[tuple[str, float, float]]:
        """Those that were done, in the order in which they happened."""
        over = {event.number: event.t for event in self.events if isinstance(event, FaultOver)}
        begun = (event for event in self.events if isinstance(event, FaultBegun))
        return [
            (event.fault, self._at(event.t), self._at(over.get(event.number, math.inf)))
            for event in begun
            if not event.failure
        ]

    def background(self) -> list[tuple[str, float, float]]:
        turns = [event for event in self.events if isinstance(event, BackgroundChanged)]
        ends = [event.t for event in turns if not event.is_on]
        return [
            (
                event.flows,
                self._at(event.t),
                self._at(min((t for t in ends if t > event.t), default=math.inf)),
            )
            for event in turns
            if event.is_on
        ]

    def limits(self, folder: RunFolder) -> dict[str, list[tuple[float, float]]]:
        """From the node, or from the first of two sites to the second."""
        changes = [event for event in self.events if isinstance(event, LinkChanged)]
        if not changes:
            return {}
        run = folder.read_experiment()
        own = {node_name(rank): link.rate_bit for rank, link in run.links.items()}
        own |= {path_name(pair): path.rate_bit for pair, path in run.paths.items()}
        found = {
            event.place: [(0.0, float(own[event.place]))] if event.place in own else []
            for event in changes
        }
        for event in changes:
            found[event.place].append((self._at(event.t), event.up_mbit * 1e6))
        return found
