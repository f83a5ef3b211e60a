"""Correlation of traffic and accuracy: Pearson and Spearman with 95 % intervals.

A configuration is one point, the mean of its seeds: repetitions add no new amount of traffic, and
counted as points they would make an interval look narrower than it is.

Intervals are Fisher's: z = atanh(r) is nearly normal with variance 1/(n-3) for Pearson, and
(1 + r^2/2)/(n-3) for Spearman (Bonett and Wright, 2000). A coefficient of +1 or -1 has none: its z
is infinite. Then the probability counts that n points are in such an order by chance, 2/n!.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import pandas as pd

from analysis.report.context import Report
from analysis.report.figures import by_strategy, bytes_scale, numbered, points, share_scale
from analysis.report.page import Block, Chart, Column, Heading, Row, Section, Table
from analysis.tables.configurations import Configuration
from cluster.observe.units import bytes_text, percent_text

FEWEST = 5
"""Configurations: below this nothing is claimed, and the correlation is left out."""
CHANCE = 0.05
SAME = 1.02
"""Bytes that differ by less than this factor differ in their headers only."""
Z_95 = NormalDist().inv_cdf(0.975)
NOTE = (
    "A point is a configuration at its end, the mean of its seeds. Pearson measures a linear"
    " relation, Spearman the agreement of ranks. Brackets: 95 % intervals (Fisher); points in"
    " perfect order have none. Bytes depend on"
    " the strategy and on the number of epochs and workers: within a strategy mostly the latter"
    " relate accuracy to bytes, and neither is a cause."
)
COLUMNS = [
    Column("configurations of", "among", style="left"),
    Column("number", "n"),
    Column("Pearson", "pearson_text", style="word"),
    Column("Spearman", "spearman_text", style="word"),
    Column("finding", "sentence", style="left"),
]


@dataclass(frozen=True)
class Coefficient:
    value: float
    n: int
    interval: tuple[float, float] | None
    """Ends of the 95 % interval; None at +1 and -1."""

    def __str__(self) -> str:
        if self.interval is None:
            return f"{self.value:+.2f} (no interval: all {self.n} in order)"
        low, high = self.interval
        return f"{self.value:+.2f} [{low:+.2f}, {high:+.2f}]"

    @property
    def is_clear(self) -> bool:
        """Its interval does not include 0, or its order is not likely by chance."""
        if self.interval is None:
            return 2 / math.factorial(self.n) < CHANCE
        low, high = self.interval
        return low > 0 or high < 0


@dataclass(frozen=True)
class Correlation:
    n: int
    pearson: Coefficient | None = None
    spearman: Coefficient | None = None
    sent_alike: bool = False

    @property
    def sentence(self) -> str:
        if self.sent_alike:
            return f"All sent the same bytes within {percent_text(SAME - 1, 0)}: no correlation."
        if self.pearson is None or self.spearman is None:
            return "All reached the same accuracy: no correlation."
        if self.spearman.is_clear:
            way = "higher" if self.spearman.value > 0 else "lower"
            return f"More bytes go with {way} accuracy: rank correlation {self.spearman}."
        text = f"No clear relation: rank correlation {self.spearman} includes 0."
        if self.pearson.is_clear:
            text += f" The linear correlation ({self.pearson.value:+.2f}) is due to a few points."
        return text


def correlate(xs: Sequence[float], ys: Sequence[float]) -> Correlation:
    """Of at least FEWEST points."""
    n = len(xs)
    if not varies(xs):
        return Correlation(n, sent_alike=True)
    if len(set(ys)) == 1:
        return Correlation(n)
    x, y = pd.Series(xs, dtype=float), pd.Series(ys, dtype=float)
    pearson, spearman = x.corr(y), x.rank().corr(y.rank())
    if math.isnan(pearson) or math.isnan(spearman):
        return Correlation(n)
    variance = 1 / (n - 3)
    return Correlation(
        n,
        _coefficient(pearson, n, variance),
        _coefficient(spearman, n, variance * (1 + spearman**2 / 2)),
    )


def varies(xs: Sequence[float]) -> bool:
    """Whether the bytes differ by more than headers."""
    return max(xs) > SAME * min(xs)


def _coefficient(value: float, n: int, variance: float) -> Coefficient:
    if abs(value) > 1 - 1e-12:
        return Coefficient(math.copysign(1, value), n, None)
    z, half = math.atanh(value), Z_95 * math.sqrt(variance)
    return Coefficient(value, n, (math.tanh(z - half), math.tanh(z + half)))


def section(report: Report) -> Section | None:
    body: list[Block] = []
    every: list[Row] = []
    for place, (task, configurations) in enumerate(report.tasks.items()):
        ends = _ends(configurations)
        if len(ends) < FEWEST:
            continue
        if len(report.tasks) > 1:
            body.append(Heading(task))
        rows = _rows(task, ends)
        sent, accuracies = ([end[key] for end in ends] for key in ("sent", "accuracy"))
        if varies(sent) and len(set(accuracies)) > 1:
            body.append(_chart(numbered("traffic-and-accuracy", place), ends))
        body.append(Table(rows, COLUMNS))
        every += rows
    if not body:
        return None
    frame = pd.DataFrame(every).drop(columns=["pearson_text", "spearman_text"])
    title = "Correlation of traffic and accuracy"
    return Section("correlation", title, body, NOTE, {"correlation": frame})


def _ends(configurations: Sequence[Configuration]) -> list[Row]:
    """Bytes and accuracy of each configuration; without those that sent nothing."""
    found: list[Row] = []
    for configuration in configurations:
        sent, accuracy = (configuration.mean(name) for name in ("train_payload_bytes", "accuracy"))
        if sent and accuracy is not None:
            names = {"label": configuration.label, "strategy": configuration.strategy}
            found.append({**names, "sent": sent, "accuracy": accuracy})
    return found


def _rows(task: str, ends: list[Row]) -> list[Row]:
    among = {"all strategies": ends}
    among |= {
        f"{strategy} only": members
        for strategy, members in by_strategy(ends).items()
        if len(members) >= FEWEST
    }
    rows = []
    for name, members in among.items():
        found = correlate([end["sent"] for end in members], [end["accuracy"] for end in members])
        row: Row = {"task": task, "among": name, "n": found.n}
        for kind, value in (("pearson", found.pearson), ("spearman", found.spearman)):
            row[f"{kind}_text"] = None if value is None else str(value)
            low, high = (value and value.interval) or (None, None)
            ends_of = {"value": value and value.value, "low": low, "high": high}
            row |= {f"{kind}_{end}": number and round(number, 4) for end, number in ends_of.items()}
        rows.append(row | {"sentence": found.sentence})
    return rows


def _chart(name: str, ends: list[Row]) -> Chart:
    x = bytes_scale("payload sent in training, all nodes", [end["sent"] for end in ends])
    y = share_scale("final accuracy", [end["accuracy"] for end in ends])
    traces = points(
        ends,
        lambda members: x(end["sent"] for end in members),
        lambda members: y(end["accuracy"] for end in members),
        lambda end: f"{percent_text(end['accuracy'])} for {bytes_text(end['sent'], 4)}",
        size=11,
    )
    title = "Traffic and accuracy of each configuration"
    return Chart(traces, 400, x.axis, y.axis, name=name, title=title)
