"""Samples -> how fast each node sent, over time; and the phases of the run. Reads a run folder's raw files.

Counters are cumulative and their readings keep a pace of their own, so a rate is the difference between two
times on an even grid, interpolated between readings. A grid of at most BINS keeps the page small: what is lost
is detail within a bin, never bytes.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cluster.spec.run_folder import RunFolder

BINS = 120
COLUMNS = {"t": "float64", "source": "category", "node": "category", "sent_bytes": "int64"}


@dataclass(frozen=True)
class Rates:
    source: str
    step_s: float
    """Width of a bin."""
    sent_bit: dict[str, list[float]]
    """Node -> bits a second in each bin, from the first sample on."""
    phases: list[tuple[str, float, float]]
    """Phase, and when it began and ended, in seconds from the first sample."""


def read_rates(folder: RunFolder) -> Rates | None:
    """None where a run has no samples, or they are damaged."""
    try:
        samples = pd.read_csv(
            folder.samples, usecols=list(COLUMNS), dtype=COLUMNS, on_bad_lines="skip"
        )
        start = float(samples["t"].min())
        phases = _phases(folder, start)
    except (OSError, ValueError, KeyError):
        return None
    kinds = samples["source"].unique()
    source = "kernel" if "kernel" in kinds else "docker"
    samples = samples[samples["source"] == source]
    span = float(samples["t"].max()) - start if len(samples) else 0.0
    if span <= 0:
        return None
    edges = np.linspace(0, span, BINS + 1)
    sent = {
        str(node): _rate(one["t"].to_numpy() - start, one["sent_bytes"].to_numpy(), edges)
        for node, one in samples.groupby("node", observed=True)
        if len(one) > 1
    }
    return Rates(source, span / BINS, sent, phases)


def _rate(
    t: NDArray[np.float64], sent: NDArray[np.int64], edges: NDArray[np.float64]
) -> list[float]:
    """A counter that fell has restarted: what it shows then is all new."""
    steps = np.diff(sent)
    steps[steps < 0] = sent[1:][steps < 0]
    gone = np.concatenate([[0], np.cumsum(steps)])
    bits = 8 * np.diff(np.interp(edges, t, gone)) / np.diff(edges)
    return [float(f"{bit:.3g}") for bit in bits]


def _phases(folder: RunFolder, start: float) -> list[tuple[str, float, float]]:
    """Of node 0, whose borders are everybody's. Only the lines that can be one are parsed."""
    try:
        lines = folder.events(0).read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    kinds = (b'{"event":"phase"', b'{"event":"end"')
    borders = [json.loads(line) for line in lines if line.startswith(kinds)]
    return [
        (one["phase"], round(one["t"] - start, 3), round(after["t"] - start, 3))
        for one, after in itertools.pairwise(borders)
    ]
