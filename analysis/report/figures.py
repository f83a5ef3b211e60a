"""What all figures share: colours of strategies, dashes, axes. Plain values; the page's script draws them.

Text and grid take their colours from the page, light or dark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from analysis.tables.configurations import Configuration
from cluster.spec.strategies import STRATEGIES, facts_of

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
LEGEND_MOST = 14
"""Lines beyond this many have one entry for each strategy; pointing at one says which it is."""
NARROW = 0.01
"""Shares closer together than this would look far apart on an axis of their own."""
WIDE = 50
"""Positive numbers further apart than this share a logarithmic axis."""


def colour(strategy: str) -> str:
    return facts_of(strategy).colour


def faint(strategy: str, share: float = 0.18) -> str:
    red, green, blue = (int(colour(strategy)[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share})"


def present(strategies: Iterable[str]) -> dict[str, str]:
    """Colours of those strategies, in the order of the table of strategies."""
    return {name: colour(name) for name in sorted(set(strategies), key=[*STRATEGIES].index)}


def places(configurations: Sequence[Configuration]) -> dict[str, int]:
    """Label -> its place among those of the same strategy, which chooses its dash or symbol."""
    counted: dict[str, int] = {}
    found = {}
    for one in configurations:
        found[one.label] = counted.get(one.strategy, 0)
        counted[one.strategy] = found[one.label] + 1
    return found


def legend(configurations: Sequence[Configuration]) -> dict[str, tuple[str, bool]]:
    """Label -> its name in the legend, and whether it has an entry there."""
    if len(configurations) <= LEGEND_MOST:
        return {one.label: (one.label, True) for one in configurations}
    at = places(configurations)
    return {one.label: (one.strategy, at[one.label] == 0) for one in configurations}


def legend_height(entries: int) -> int:
    """Room above the figure: entries stand side by side on a desk, one below the other on a phone."""
    return 10 * min(entries, LEGEND_MOST)


def bytes_axis(title: str, values: Iterable[float], *, may_be_wide: bool = True) -> dict[str, Any]:
    """Decimal units; logarithmic where that is needed to tell small from nothing."""
    axis: dict[str, Any] = {"title": {"text": title}}
    positive = [value for value in values if value > 0]
    if not (may_be_wide and positive and max(positive) > WIDE * min(positive)):
        return axis | {"tickformat": "~s", "ticksuffix": "B", "rangemode": "tozero"}
    steps = (1, 2, 5) if max(positive) < 1000 * min(positive) else (1,)
    marks = [(power, step * 10**power) for power in range(16) for step in steps]
    texts = [f"{mark // 1000 ** (power // 3)}{' kMGTP'[power // 3]}B" for power, mark in marks]
    return axis | {"type": "log", "tickvals": [mark for _, mark in marks], "ticktext": texts}


def bars(
    rows: Sequence[Mapping[str, Any]], value: str, hover: str, label: str = "configuration"
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One bar for each row, the first on top, in its strategy's colour; and the axis that names them."""
    upwards = rows[::-1]
    traces = []
    for strategy in dict.fromkeys(str(row["strategy"]) for row in upwards):
        mine = [row for row in upwards if row["strategy"] == strategy]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "x": rounded(row[value] for row in mine),
                "y": [escape(row[label]) for row in mine],
                "name": strategy,
                "legendgroup": strategy,
                "marker": {"color": colour(strategy)},
                "hovertemplate": f"%{{y}}: {hover}<extra></extra>",
            }
        )
    return traces, names_axis([row[label] for row in upwards])


def names_axis(upwards: Sequence[str]) -> dict[str, Any]:
    return {"categoryorder": "array", "categoryarray": [escape(name) for name in upwards]}


def log_seconds_axis(title: str, values: Iterable[float]) -> dict[str, Any]:
    """Marks at 1, 2 and 5 of each decade, at more where there is less than one, or at its 1 where there are many."""
    positive = [value for value in values if value > 0]
    span = max(positive) / min(positive) if positive else 10**6
    steps = (1,) if span > 1000 else (1, 2, 5) if span > 8 else (1, 1.5, 2, 3, 4, 5, 6, 7, 8)
    marks = [step * 10.0**power for power in range(-6, 7) for step in steps]
    texts = [_mark(mark) for mark in marks]
    return axis(title, type="log", tickvals=rounded(marks), ticktext=texts)


def _mark(seconds: float) -> str:
    size, unit = next(
        one for one in ((1, "s"), (1e-3, "ms"), (1e-6, "us")) if seconds > 0.99 * one[0]
    )
    return f"{float(f'{seconds / size:.2g}'):,.10g} {unit}"


def share_axis(title: str, values: Iterable[float]) -> dict[str, Any]:
    """In percent, with as many digits as its marks need to differ; what is nearly equal looks nearly equal."""
    known = list(values)
    span = max(known) - min(known) if known else 1.0
    if span < NARROW:
        middle = (max(known) + min(known)) / 2
        ends = max(0.0, middle - 5 * NARROW), min(1.0, middle + 5 * NARROW)
        return axis(title, tickformat=".0%", range=rounded(ends))
    return axis(title, tickformat=f".{0 if span > 0.05 else 1}%")


def whole_axis(title: str, most: int) -> dict[str, Any]:
    """Of whole numbers up to so many: no mark in between, and not too many of them."""
    return axis(
        title, dtick=next((step for step in (1, 2, 5, 10, 20, 50) if most <= 12 * step), 100)
    )


def axis(title: str, **more: Any) -> dict[str, Any]:
    return {"title": {"text": title}, **more}


def rounded(values: Iterable[float | None], digits: int = 5) -> list[float | None]:
    """For a page that is not larger than what can be seen on it."""
    return [None if value is None else float(f"{value:.{digits}g}") for value in values]
