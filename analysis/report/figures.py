"""What all figures share: strategies' colours, dashes, axes with their units, hover text.

Text and grid take their colours from the page, light or dark.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any, Protocol

from markupsafe import Markup, escape

from analysis.report.page import Chart, Layout, Row, Trace
from analysis.tables.configurations import grouped
from cluster.observe.units import MINUTES_FROM_S, seconds_text
from cluster.spec.exchange.strategies import STRATEGIES, facts_of, is_own

GREY = "#7d848c"
PALETTE = (
    *("#2f7ed8", "#d9730d", "#1f9d6b", "#c2417c", "#8b6cd9", "#a08300", "#1797a6", "#d64545"),
    *("#5f8f1f", GREY, "#b07aa1", "#4e79a7"),
)
"""For nodes and labels, by number."""
FAULT = "214,69,69"
"""Red, green and blue of what happened to nodes."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
LEGEND_MOST = 14
"""With more lines than this the legend has one entry per strategy; hovering names the line."""
PANELS_FROM = 7
"""So many lines are hard to tell apart in one panel: each has one of its own."""
PANELS_MOST = 36
"""With more lines there is a panel for each strategy."""
NARROW = 0.01
"""Shares closer together than this would look far apart on an axis of their own."""
WIDE = 50
"""Positive numbers further apart than this factor share a logarithmic axis."""
BYTES: dict[float, str] = {1: "B", 10**3: "kB", 10**6: "MB", 10**9: "GB", 10**12: "TB"}
RATES: dict[float, str] = {1: "bit/s", 10**3: "kbit/s", 10**6: "Mbit/s", 10**9: "Gbit/s"}
SECONDS: dict[float, str] = {1e-6: "µs", 1e-3: "ms", 1: "s", 60: "min"}


@dataclass(frozen=True)
class Scale:
    """An axis, and the unit in which values are drawn on it; its title names the unit."""

    axis: Layout
    unit: float = 1.0

    def __call__(self, values: Iterable[float | None]) -> list[float | None]:
        return rounded(None if value is None else value / self.unit for value in values)


def colour(strategy: str) -> str:
    return facts_of(strategy).colour


def faint(strategy: str, share: float = 0.18) -> str:
    red, green, blue = (int(colour(strategy)[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share})"


def present(strategies: Iterable[str]) -> dict[str, str]:
    """Colours of those strategies, in the order of the table of strategies."""
    order = [*STRATEGIES, *sorted(strategy for strategy in strategies if is_own(strategy))]
    return {name: colour(name) for name in sorted(set(strategies), key=order.index)}


def by_strategy(rows: Iterable[Row]) -> dict[str, list[Row]]:
    return grouped(rows, lambda row: str(row["strategy"]))


def hover(template: str, *texts: str) -> Markup:
    """What is shown beside the pointer: `{}` takes a text, escaped; `%{x}` is Plotly's."""
    parts = template.split("{}")
    found = Markup(parts[0])
    for text, part in zip(texts, parts[1:], strict=True):
        found += escape(text) + Markup(part)
    return found + Markup("<extra></extra>")


def numbered(name: str, place: int) -> str:
    """Of several figures of a kind, all but the first have a number in their name."""
    return f"{name}-{place + 1}" if place else name


class Line(Protocol):
    """What has a line of its own in a figure: a configuration, or a series of them."""

    @property
    def label(self) -> str: ...
    @property
    def strategy(self) -> str: ...


def line_looks(lines: Sequence[Line]) -> dict[str, Trace]:
    """Label -> colour by strategy, dash by place among its strategy, name in the legend.

    `meta` is the panel that a line is in, where there are too many for one.
    """
    found: dict[str, Trace] = {}
    for line in lines:
        place = sum(look["legendgroup"] == line.strategy for look in found.values())
        many = len(lines) > LEGEND_MOST
        found[line.label] = {
            "name": line.strategy if many else line.label,
            "showlegend": not many or place == 0,
            "legendgroup": line.strategy,
            "line": {"color": colour(line.strategy), "dash": DASHES[place % len(DASHES)]},
        }
        if len(lines) >= PANELS_FROM:
            meta = line.label if len(lines) <= PANELS_MOST else line.strategy
            found[line.label]["meta"] = meta
    return found


def band(
    look: Trace,
    strategy: str,
    x: Sequence[float | None],
    low: Sequence[float | None],
    high: Sequence[float | None],
) -> Trace:
    """The range over seeds: a polygon, forth along the highest, back along the lowest."""
    return {
        **{key: look[key] for key in ("legendgroup", "meta") if key in look},
        "x": [*x, *x[::-1]],
        "y": [*high, *low[::-1]],
        "fill": "toself",
        "fillcolor": faint(strategy),
        "line": {"width": 0},
        "mode": "lines",
        "hoverinfo": "skip",
        "showlegend": False,
    }


def error_bars(spreads: Sequence[float | None]) -> Layout:
    """Standard deviations over seeds, as a trace's error_x or error_y; none with one seed."""
    known = [0.0 if spread is None or isnan(spread) else spread for spread in spreads]
    look = {"thickness": 1.2, "width": 4, "color": GREY}
    return {"type": "data", "array": rounded(known), "visible": any(known), **look}


def legend_height(entries: int) -> int:
    """Entries are side by side on a wide page, one below the other on a phone."""
    return 10 * min(entries, LEGEND_MOST)


def bar_chart(
    name: str,
    title: str,
    rows: Sequence[Row],
    value: str,
    scale: Scale,
    text: Callable[[float], str],
) -> Chart:
    """A bar per row in its strategy's colour, the first on top.

    `<value>_sd` of a row is the standard deviation over its seeds.
    """
    upwards = rows[::-1]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "x": scale(row[value] for row in members),
            "y": [row["configuration"] for row in members],
            "customdata": [text(row[value]) for row in members],
            "error_x": error_bars(scale(row.get(f"{value}_sd") for row in members)),
            "name": strategy,
            "legendgroup": strategy,
            "marker": {"color": colour(strategy)},
            "hovertemplate": hover("%{y}: %{customdata}"),
        }
        for strategy, members in by_strategy(upwards).items()
    ]
    names = [row["configuration"] for row in upwards]
    chart = chart_of_bars(name, title, traces, names, scale)
    spreads = [row.get(f"{value}_sd") for row in rows]
    if not error_bars(spreads)["visible"]:
        return chart
    return replace(chart, caption="Error bars: standard deviation over seeds.")


def chart_of_bars(
    name: str, title: str, traces: list[Trace], upwards: Sequence[str], scale: Scale, **more: Any
) -> Chart:
    """Horizontal ones, in this order from the bottom."""
    order = {"categoryorder": "array", "categoryarray": list(upwards)}
    more |= {"bargap": 0.3, "showlegend": False}
    return Chart(traces, 115 + 25 * len(upwards), scale.axis, order, more, name, title)


def points(
    rows: Sequence[Row],
    x: Callable[[Sequence[Row]], Sequence[Any]],
    y: Callable[[Sequence[Row]], Sequence[Any]],
    tips: Callable[[Row], str],
    size: int = 9,
) -> list[Trace]:
    """A marker per row, by strategy; `label` names it, `tips` is the rest of its hover text."""
    return [
        {
            "x": x(members),
            "y": y(members),
            "text": [row["label"] for row in members],
            "customdata": [tips(row) for row in members],
            "mode": "markers",
            "name": strategy,
            "legendgroup": strategy,
            "marker": {"color": colour(strategy), "size": size},
            "hovertemplate": hover("<b>%{text}</b><br>%{customdata}"),
        }
        for strategy, members in by_strategy(rows).items()
    ]


def reference_line(x: Sequence[float], y: Sequence[float], name: str) -> Trace:
    """Dotted grey: what the others are compared with."""
    line = {"color": "rgba(125,132,140,.6)", "dash": "dot"}
    return {"x": x, "y": y, "mode": "lines", "name": name, "line": line, "hoverinfo": "skip"}


def axis(title: str, **more: Any) -> Layout:
    return {"title": {"text": title}, **more}


def _linear(title: str, most: float, units: Mapping[float, str]) -> Scale:
    """The largest unit that leaves at least 1 of it."""
    unit = max((size for size in units if size <= most), default=min(units))
    return Scale(axis(f"{title} ({units[unit]})", rangemode="tozero"), unit)


def bytes_scale(title: str, values: Iterable[float], *, may_be_log: bool = True) -> Scale:
    """Logarithmic where small values would look like nothing beside large ones."""
    positive = [value for value in values if value > 0]
    if not (may_be_log and positive and max(positive) > WIDE * min(positive)):
        return _linear(title, max(positive, default=1), BYTES)
    steps = (1, 2, 5) if max(positive) < 1000 * min(positive) else (1,)
    marks = [(power, step * 10**power) for power in range(15) for step in steps]
    texts = [
        f"{mark // 1000 ** (power // 3)} {' kMGT'[power // 3].strip()}B" for power, mark in marks
    ]
    return Scale(axis(title, type="log", tickvals=[mark for _, mark in marks], ticktext=texts))


def rate_scale(title: str, values: Iterable[float]) -> Scale:
    """Bits a second."""
    return _linear(title, max(values, default=1), RATES)


def seconds_scale(title: str, values: Iterable[float]) -> Scale:
    most = max(values, default=1.0)
    units = {size: unit for size, unit in SECONDS.items() if size <= 1 or most >= MINUTES_FROM_S}
    return _linear(title, most, units)


def percent_scale(title: str, **more: Any) -> Scale:
    return Scale(axis(f"{title} (%)", **more), 0.01)


def share_scale(title: str, values: Iterable[float]) -> Scale:
    """In percent; nearly equal shares look nearly equal."""
    known = list(values)
    if not known or max(known) - min(known) >= NARROW:
        return percent_scale(title)
    middle = (max(known) + min(known)) / 2
    ends = max(0.0, middle - 5 * NARROW), min(1.0, middle + 5 * NARROW)
    return percent_scale(title, range=rounded(100 * end for end in ends))


def log_seconds_axis(title: str, values: Iterable[float]) -> Layout:
    """Marks at 1, 2 and 5 of each decade; more within one decade, only 1 where there are many."""
    positive = [value for value in values if value > 0]
    span = max(positive) / min(positive) if positive else 10**6
    steps = (1,) if span > 1000 else (1, 2, 5) if span > 8 else (1, 1.5, 2, 3, 4, 5, 6, 7, 8)
    marks = [step * 10.0**power for power in range(-6, 7) for step in steps]
    texts = [_mark(mark) for mark in marks]
    return axis(title, type="log", tickvals=rounded(marks), ticktext=texts)


def _mark(seconds: float) -> str:
    """1.5 ms, not 1.50 ms."""
    number, unit = seconds_text(seconds).split(" ")
    return f"{float(number):g} {unit}"


def whole_axis(title: str, most: int) -> Layout:
    """Of whole numbers up to so many: no mark in between, and not too many of them."""
    return axis(
        title, dtick=next((step for step in (1, 2, 5, 10, 20, 50) if most <= 12 * step), 100)
    )


def rounded(values: Iterable[float | None], digits: int = 5) -> list[float | None]:
    """For a page that is not larger than what can be seen on it."""
    return [None if value is None else float(f"{value:.{digits}g}") for value in values]
