"""The report as one self-contained HTML file. A section is a list of blocks; templates/ draws them.

Templates escape every text. In figures, Plotly reads labels as HTML, so text is escaped there too;
only what is Markup (a hover template) is taken as it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from analysis.tables.noise import mean_text

HERE = Path(__file__).resolve().parent
SCRIPTS = ("chart.js", "export.js", "report.js", "tables.js")
PANEL_PX = 170

Row = dict[str, Any]
"""Of a table: values by column."""
Trace = dict[str, Any]
"""Plotly's. A trace whose legendgroup is a strategy disappears when that is switched off."""
Layout = dict[str, Any]
"""Plotly's."""


@dataclass(frozen=True)
class Text:
    macro: ClassVar = "text"
    text: str
    style: str = ""


@dataclass(frozen=True)
class Heading:
    """Below the title of a section or of a part."""

    macro: ClassVar = "heading"
    text: str


@dataclass(frozen=True)
class Bullets:
    """Of a pair the first text is bold."""

    macro: ClassVar = "bullets"
    items: Sequence[str | tuple[str, str]]


@dataclass(frozen=True)
class Answer:
    """One line of the first screen."""

    question: str
    text: str
    grey: bool = False
    """Of times that allow no conclusion."""
    lead: str = ""
    """The answer in a few words; the text goes on where it ends."""

    def __str__(self) -> str:
        return f"{self.question}: {self.lead}{self.text}"


@dataclass(frozen=True)
class Answers:
    macro: ClassVar = "answers"
    answers: Sequence[Answer]


@dataclass(frozen=True)
class Chart:
    """Name and title are empty in a Choice, which has its own."""

    macro: ClassVar = "chart"
    data: list[Trace]
    height: int
    x: Layout
    y: Layout
    """The axes."""
    more: Layout = field(default_factory=dict)
    """The rest of the layout."""
    name: str = ""
    """In the page's address, and of the file it is saved as."""
    title: str = ""
    caption: str = ""
    """What points, bands and bars are; below the figure."""
    contended: str = ""
    """Why its times allow no conclusion; it is drawn in grey."""

    @property
    def layout(self) -> Layout:
        return {"xaxis": self.x, "yaxis": self.y, **self.more}

    @property
    def content(self) -> Any:
        found: Row = {"data": self.data, "layout": self.layout, "heights": self.heights}
        return escaped(found | ({"panels": self.panels} if self.panels else {}))

    @property
    def heights(self) -> list[int]:
        """In px, on a wide page and on a phone, where bars are below their names."""
        entries = sum(trace.get("showlegend", True) is not False for trace in self.data)
        phone = self.height + 12 * max(0, entries - 4)
        if "xaxis2" in self.more:
            phone = round(1.8 * self.height)
        if any(trace.get("orientation") == "h" for trace in self.data):
            phone = 110 + round(1.8 * (self.height - 110))
        return [self.height, phone]

    @property
    def panels(self) -> list[int]:
        """The same with a panel for each `meta` of the traces; empty without panels."""
        count = len({trace["meta"] for trace in self.data if "meta" in trace})
        columns = (4 if count > 9 else 3, 2)
        return [80 + PANEL_PX * math.ceil(count / each) for each in columns] if count else []

    @property
    def shown_heights(self) -> list[int]:
        return self.panels or self.heights

    @property
    def switches(self) -> dict[str, bool]:
        """The buttons that change how it is shown, and whether each is on at first."""
        if any(trace.get("type", "scatter") != "scatter" for trace in self.data):
            return {}
        axes = {"log x": self.x, "log y": self.y}
        found = {name: axis.get("type") == "log" for name, axis in axes.items()}
        return found | ({"panels": True} if self.panels else {}) | {"zoom": False}


@dataclass(frozen=True)
class Choice:
    """One figure whose content is chosen by the reader."""

    macro: ClassVar = "choice"
    name: str
    title: str
    ask: str
    charts: Mapping[str, Chart]
    caption: str = ""
    shared: bool = False
    """Whether all figures with the same question have the same answer."""
    contended: str = ""

    @property
    def shown_heights(self) -> list[int]:
        return next(iter(self.charts.values())).shown_heights

    @property
    def switches(self) -> dict[str, bool]:
        return next(iter(self.charts.values())).switches

    @property
    def content(self) -> Any:
        return {"choices": [chart.content for chart in self.charts.values()]}


@dataclass(frozen=True)
class Column:
    heading: str
    key: str
    text: Callable[[Any], str] = str
    style: str = ""
    """left: wraps; word: left-aligned, one line; code: a command. Empty: a number."""
    from_times: bool = False
    """A ratio or a rate of times; a key that ends in _s is a time."""

    @property
    def is_time(self) -> bool:
        return self.from_times or self.key.endswith("_s")


@dataclass(frozen=True)
class Cell:
    text: str
    column: Column
    sort: str
    note: str
    problem: str
    style: str


@dataclass(frozen=True)
class Table:
    """A row's `strategy` lets it be switched off; `<key>_note` is small print below a cell.

    `<key>_sd` is the standard deviation of a mean over seeds; a click shows the rows `by_seed`.
    Times of a row that is `contended` are grey. A column without values is left out. On a phone a
    table scrolls sideways, or folds: the first column, and the others in threes below it.
    """

    macro: ClassVar = "table"
    rows: Sequence[Mapping[str, Any]]
    columns: Sequence[Column]
    folds: bool = False
    name: str = ""
    """Of the files it is saved as; empty: that of its section."""

    @cached_property
    def shown(self) -> list[Column]:
        return [c for c in self.columns if any(_is_known(row.get(c.key)) for row in self.rows)]

    def cells(self, row: Mapping[str, Any]) -> list[Cell]:
        return [_cell(row, column) for column in self.shown]


@dataclass(frozen=True)
class Details:
    macro: ClassVar = "details"
    summary: str
    body: Sequence[Block]


@dataclass(frozen=True)
class Fragment:
    """HTML of a section's own: a template and what it shows."""

    macro: ClassVar = "fragment"
    template: str
    values: Mapping[str, object]

    @property
    def html(self) -> Markup:
        return Markup(TEMPLATES.get_template(self.template).render(self.values))


Block = Text | Heading | Bullets | Answers | Chart | Choice | Table | Details | Fragment


@dataclass(frozen=True)
class Section:
    name: str
    """In the page's address, after #."""
    title: str
    body: Sequence[Block]
    note: str = ""
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """The numbers behind the figures: tables/NAME.csv."""
    parts: Sequence[Section] = ()
    is_folded: bool = False
    """Of a part: a click shows it."""


def texts(*paragraphs: str) -> list[Block]:
    """A paragraph each; empty ones are left out."""
    return [Text(text) for text in paragraphs if text]


def _is_known(value: Any) -> bool:
    return value is not None and not pd.isna(value)


def _cell(row: Mapping[str, Any], column: Column) -> Cell:
    value = row.get(column.key)
    known = _is_known(value)
    is_number = known and isinstance(value, int | float) and not isinstance(value, bool)
    return Cell(
        text=_with_sd(column.text, value, row.get(f"{column.key}_sd")) if known else "-",
        column=column,
        sort=f"{value:.6g}" if is_number and column.style != "left" else "",
        note=row.get(f"{column.key}_note") or "",
        problem=row.get(f"{column.key}_problem") or "",
        style=_style(column, bool(row.get("contended"))),
    )


def _style(column: Column, contended: bool) -> str:
    styles = ["left" if column.style == "code" else column.style]
    styles += ["contended"] if contended and column.is_time else []
    return " ".join(filter(None, styles))


def _with_sd(text: Callable[[Any], str], value: Any, sd: float | None) -> str:
    return text(value) if sd is None or pd.isna(sd) else mean_text(text, float(value), float(sd))


def escaped(value: Any) -> Any:
    """The figure with all text escaped, but for Markup; a number that is not finite is null."""
    if isinstance(value, str):
        return str(escape(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: escaped(inner) for key, inner in value.items()}
    return [escaped(inner) for inner in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Headline:
    """Above the first section."""

    title: str
    about: str
    command: str = ""


def render(
    headline: Headline,
    sections: Sequence[Section],
    colours: Mapping[str, str],
    refresh_s: int | None = None,
    is_live: bool = False,
) -> str:
    """`colours` are those of the strategies; the page reloads itself every `refresh_s` seconds."""
    return TEMPLATES.get_template("page.html").render(
        headline=headline,
        sections=sections,
        colours=colours,
        refresh_s=refresh_s,
        is_live=is_live,
        style=_asset("report.css") + (_asset("live.css") if is_live else ""),
        script=_joined(*SCRIPTS, *(["live.js"] if is_live else [])),
        plotly=Markup(get_plotlyjs()),
    )


def _joined(*names: str) -> Markup:
    return Markup("\n").join(_asset(name) for name in names)


def _asset(name: str) -> Markup:
    return Markup((HERE / "assets" / name).read_text(encoding="utf-8"))


def keep_units(text: str) -> str:
    """No line ends between a number and its unit or its spread."""
    return re.sub(
        r"(?<=\d) (?=(%|±|[µm]?s|min|h|[kMGT]?B|[kMG]bit/s)(\W|$))|(?<=±) ", "\u00a0", text
    )


def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters["units"] = keep_units
    found.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return found


TEMPLATES = _environment()
