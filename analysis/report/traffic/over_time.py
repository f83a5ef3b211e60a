"""Traffic over time: the rate at which each node sends, with the training phases."""

from collections.abc import Callable, Sequence
from statistics import median

from analysis.report.context import Report
from analysis.report.figures import FAULT, PALETTE, axis, hover, rate_scale, rounded
from analysis.report.page import Chart, Choice, Layout, Section, Trace
from analysis.tables.rates import BINS, Rates

MOST_NODES = 10
"""More are summarised by the slowest, the median and the fastest node."""
BACKGROUND = "rgba(47,126,216,.14)"
NOTE = (
    "What each interface sent, headers included, from counters that the host reads ten times a"
    f" second; at most {BINS} points per run. Shaded: training. Between: set-up, evaluation,"
    " finish. Red: faults of nodes, while they lasted. Blue: background traffic, which is in the"
    " rates, too. Dashed: the rate of a link or path that changed, from its node or first site."
)


def section(report: Report) -> Section | None:
    charts = {
        report.run_names[number]: _chart(rates) for number, rates in report.runs.rates.items()
    }
    if not charts:
        return None
    figure = Choice("traffic-over-time", "Send rate of each node over time", "run", charts)
    return Section("over-time", "Traffic over time", [figure], NOTE)


def _chart(rates: Rates) -> Chart:
    lines = _lines(rates.sent_bit)
    limits = [max(rate for _, rate in steps) for steps in rates.limits.values()]
    y = rate_scale("sent", [*(max(values) for values in lines.values()), *limits])
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
    traces += [
        _limit(name, steps, rates.step_s * BINS, y.unit, unit, len(traces) + place)
        for place, (name, steps) in enumerate(rates.limits.items())
    ]
    shades = [_shade(begin, end) for phase, begin, end in rates.phases if phase == "train"]
    shades += [_shade(begin, end, f"rgba({FAULT},.22)") for _, begin, end in rates.faults]
    shades += [_shade(begin, end, BACKGROUND) for _, begin, end in rates.background]
    notes = [_note(text, begin) for text, begin, _ in rates.faults]
    notes += [_note(f"background {flows}", begin) for flows, begin, _ in rates.background]
    more = {"shapes": shades, "annotations": notes, "showlegend": True}
    return Chart(traces, 360, axis("time since the first sample (s)"), y.axis, more)


def _limit(
    name: str, steps: Sequence[tuple[float, float]], end_s: float, scale: float, unit: str, at: int
) -> Trace:
    """What a link could carry, as steps."""
    steps = [*steps, (end_s, steps[-1][1])]
    label = f"rate of {name}"
    return {
        "x": [t for t, _ in steps],
        "y": [_whole(value) for value in rounded((rate / scale for _, rate in steps), 3)],
        "mode": "lines",
        "name": label,
        "line": {"width": 1.5, "dash": "dash", "shape": "hv", "color": PALETTE[at % len(PALETTE)]},
        "hovertemplate": hover("{}: %{y} {} from %{x:.1f} s", label, unit),
    }


def _shade(begin: float, end: float, colour: str = "rgba(99,105,112,.13)") -> Layout:
    place = {"xref": "x", "yref": "paper", "x0": begin, "x1": end, "y0": 0, "y1": 1}
    look = {"line": {"width": 0}, "fillcolor": colour, "layer": "below"}
    return {"type": "rect", **place, **look}


def _note(text: str, begin: float) -> Layout:
    """Beside the begin of a fault, from bottom to top."""
    place = {"xref": "x", "yref": "paper", "x": begin, "y": 1, "xanchor": "left", "yanchor": "top"}
    return {"text": text, "showarrow": False, "textangle": -90, "font": {"size": 10}, **place}


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
