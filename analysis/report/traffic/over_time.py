"""Traffic over time: the rate at which each node sends, with the training phases.

Counters are cumulative and sampled at irregular times, so a rate is the difference between two
times on an even grid, interpolated between samples. A grid of at most BINS keeps the page small:
detail within a bin is lost, never bytes.
"""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.report.context import Report
from analysis.report.figures import PALETTE, axis, hover, rate_scale, rounded
from analysis.report.page import Chart, Choice, Layout, Section, Trace
from cluster.spec.documents.event_reader import read_lines
from cluster.spec.documents.run_folder import RunFolder

BINS = 120
MOST_NODES = 10
"""More are summarised by the slowest, the median and the fastest node."""
SAMPLES = {"t": "float64", "source": "category", "node": "category", "sent_bytes": "int64"}
NOTE = (
    "What each interface sent, headers included, from counters that the host reads ten times a"
    f" second; at most {BINS} points per run. Shaded: training. Between: set-up, evaluation,"
    " finish."
)


@dataclass(frozen=True)
class Rates:
    source: str
    step_s: float
    """Width of a bin."""
    sent_bit: dict[str, list[float]]
    """Node -> bits a second in each bin, from the first sample on."""
    phases: list[tuple[str, float, float]]
    """Phase, begin and end, in seconds from the first sample."""


def read_rates(folder: RunFolder) -> Rates | None:
    """None where a run has no samples, or they are damaged."""
    try:
        samples = pd.read_csv(
            folder.samples, usecols=list(SAMPLES), dtype=SAMPLES, on_bad_lines="skip"
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
        str(node): _rate(readings["t"].to_numpy() - start, readings["sent_bytes"].to_numpy(), edges)
        for node, readings in samples.groupby("node", observed=True)
        if len(readings) > 1
    }
    return Rates(source, span / BINS, sent, phases)


def _rate(
    t: NDArray[np.float64], sent: NDArray[np.int64], edges: NDArray[np.float64]
) -> list[float]:
    """A counter that fell has restarted: its value is all new bytes."""
    steps = np.diff(sent)
    steps[steps < 0] = sent[1:][steps < 0]
    total = np.concatenate([[0], np.cumsum(steps)])
    bits = 8 * np.diff(np.interp(edges, t, total)) / np.diff(edges)
    return [float(f"{bit:.3g}") for bit in bits]


def _phases(folder: RunFolder, start: float) -> list[tuple[str, float, float]]:
    """Of node 0, whose phase boundaries are those of all. Only lines of that kind are parsed."""
    kinds = (b'{"event":"phase"', b'{"event":"end"')
    lines = (line for line in read_lines(folder.events(0)) if line.startswith(kinds))
    boundaries = [json.loads(line) for line in lines]
    return [
        (event["phase"], round(event["t"] - start, 3), round(after["t"] - start, 3))
        for event, after in itertools.pairwise(boundaries)
    ]


def section(report: Report) -> Section | None:
    charts = {}
    for number in report.runs.completed.index:
        rates = read_rates(report.runs.folders[number])
        if rates is not None and rates.sent_bit:
            charts[report.run_names[number]] = _chart(rates)
    if not charts:
        return None
    figure = Choice("traffic-over-time", "Send rate of each node over time", "run", charts)
    return Section("over-time", "Traffic over time", [figure], NOTE)


def _chart(rates: Rates) -> Chart:
    lines = _lines(rates.sent_bit)
    y = rate_scale("sent", [max(values) for values in lines.values()])
    unit = str(y.axis["title"]["text"]).rpartition("(")[2].rstrip(")")
    traces: list[Trace] = [
        {
            "y": [_whole(value) for value in rounded((v / y.unit for v in values), 3)],
            "x0": round(rates.step_s / 2, 4),
            "dx": round(rates.step_s, 5),
            "mode": "lines",
            "name": name,
            "line": {"width": 1.5, "color": PALETTE[place % len(PALETTE)]},
            "hovertemplate": hover("{}: %{y} {} at %{x:.1f} s", name, unit),
        }
        for place, (name, values) in enumerate(lines.items())
    ]
    shades = [_shade(begin, end) for phase, begin, end in rates.phases if phase == "train"]
    more = {"shapes": shades, "showlegend": True}
    return Chart(traces, 360, axis("time since the first sample (s)"), y.axis, more)


def _shade(begin: float, end: float) -> Layout:
    place = {"xref": "x", "yref": "paper", "x0": begin, "x1": end, "y0": 0, "y1": 1}
    look = {"line": {"width": 0}, "fillcolor": "rgba(99,105,112,.13)", "layer": "below"}
    return {"type": "rect", **place, **look}


def _whole(value: float | None) -> float | int | None:
    """1200 is shorter than 1200.0, a hundred thousand times."""
    return int(value) if value is not None and value == int(value) else value


def _lines(sent: dict[str, list[float]]) -> dict[str, list[float]]:
    ordered = dict(sorted(sent.items(), key=lambda item: (len(item[0]), item[0])))
    if len(ordered) <= MOST_NODES:
        return ordered
    bins = list(zip(*ordered.values(), strict=True))
    kinds: dict[str, Callable[[Sequence[float]], float]] = {
        "fastest node": max,
        "median node": median,
        "slowest node": min,
    }
    return {name: [float(f"{of(b):.3g}") for b in bins] for name, of in kinds.items()}
