"""The report as one page that needs nothing but itself: style, script and data are inside."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import pandas as pd
from plotly.offline import get_plotlyjs

ASSETS = Path(__file__).resolve().parent / "assets"

# The policy makes the browser refuse every request, so the page cannot come to need one unnoticed.
# blob: is how a figure becomes a PNG, without leaving the page.
PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:">
$refresh<title>$title</title>
<style>
$style$styles</style>
</head>
<body>
<header><h1>$title</h1><button id="theme" type="button">light / dark</button></header>
<p>$sentence</p>
<nav>$contents</nav>
<div class="filter">$chips</div>
$sections
<script type="text/plain" id="plotly">$plotly</script>
<script>
$script</script>
</body>
</html>
""")

Traces = list[dict[str, Any]]
SAVED = {"svg": "this figure", "png": "this figure", "csv": "the numbers behind it"}


@dataclass(frozen=True)
class Section:
    """One part of the page, in the order given."""

    name: str
    """In the page's address, after #."""
    title: str
    body: str
    """HTML."""
    note: str = ""
    style: str = ""
    """Rules that only this section needs."""
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    """What stands behind the figures: tables/NAME.csv."""


@dataclass(frozen=True)
class Chart:
    name: str
    title: str
    """What it shows."""
    data: Traces
    """Plotly's. A trace whose legendgroup is a strategy goes away when that is switched off."""
    layout: dict[str, Any]


@dataclass(frozen=True)
class Column:
    heading: str
    key: str
    text: Callable[[Any], str] = str
    left: bool = False
    word: bool = False
    """A word or a name, which is not a number."""


def chart_html(chart: Chart) -> str:
    return _figure(
        chart.name, chart.title, {"data": chart.data, "layout": chart.layout}, chart.layout
    )


def choice_html(name: str, title: str, ask: str, choices: Mapping[str, Chart]) -> str:
    """One figure that a person chooses the content of."""
    options = "".join(f"<option>{escape(label)}</option>" for label in choices)
    select = f"<label>{escape(ask)} <select>{options}</select></label>"
    content = {"choices": [{"data": c.data, "layout": c.layout} for c in choices.values()]}
    return _figure(name, title, content, next(iter(choices.values())).layout, select)


def _figure(
    name: str, title: str, content: dict[str, Any], layout: dict[str, Any], select: str = ""
) -> str:
    """`<` would end the script early where a name holds </script>."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    tools = "".join(
        f'<button type="button" data-save="{kind}" title="save {what}">{kind.upper()}</button>'
        for kind, what in SAVED.items()
    )
    return (
        f'<figure class="chart"><figcaption><span class="title">{escape(title)}</span>'
        f'<span class="tools">{tools}</span>{select}</figcaption>\n'
        f'<div class="plot" id="{name}" style="height:{layout["height"]}px"></div>\n'
        f'<script type="application/json">{text}</script></figure>'
    )


def table_html(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], *, folds: bool = False
) -> str:
    """A row's `strategy` lets it be switched off; `<key>_note` is small print below a cell.

    A column of which nothing is known is left out. On a phone a table scrolls sideways, or folds: the first
    column, and the others in threes below it.
    """
    columns = [c for c in columns if any(_is_known(row.get(c.key)) for row in rows)]
    heads = "".join(
        f'<th class="{"left" if c.left or c.word else ""}">{escape(c.heading)}</th>'
        for c in columns
    )
    lines = [f"<thead><tr>{heads}</tr></thead>", "<tbody>"]
    for row in rows:
        strategy = row.get("strategy")
        kind = f' data-strategy="{escape(str(strategy))}"' if isinstance(strategy, str) else ""
        cells = "".join(_cell(row, column) for column in columns)
        lines.append(f"<tr{kind}>{cells}</tr>")
    kind = "sortable folds" if folds else "sortable"
    body = "\n".join([*lines, "</tbody>"])
    return f'<div class="scroll"><table class="{kind}">\n{body}\n</table></div>'


def _is_known(value: Any) -> bool:
    return value is not None and not pd.isna(value)


def _cell(row: Mapping[str, Any], column: Column) -> str:
    value = row.get(column.key)
    known = _is_known(value)
    text = escape(column.text(value)) if known else "-"
    number = isinstance(value, int | float) and not isinstance(value, bool) and known
    sort = f' data-v="{value:.6g}"' if number and not column.left else ""
    kind = ' class="left"' if column.left else ' class="word"' if column.word else ""
    title = "" if column.left else f' title="{escape(column.heading)}"'
    small = "".join(
        f"<small{bad}>{escape(str(note))}</small>"
        for key, bad in (("_note", ""), ("_problem", ' class="bad"'))
        if (note := row.get(column.key + key))
    )
    return f"<td{kind}{title}{sort}>{text}{small}</td>"


def details(summary: str, body: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>\n{body}\n</details>"


def paragraphs(*texts: str) -> str:
    return "\n".join(f"<p>{escape(text)}</p>" for text in texts if text)


def bullets(texts: Sequence[str | tuple[str, str]], kind: str = "said") -> str:
    """Of a pair the first stands out."""
    items = "\n".join(
        f"<li>{escape(one)}</li>"
        if isinstance(one, str)
        else f"<li><b>{escape(one[0])}</b> {escape(one[1])}</li>"
        for one in texts
    )
    return f'<ul class="{kind}">\n{items}\n</ul>' if texts else ""


def render(
    *,
    title: str,
    sentence: str,
    sections: Sequence[Section],
    colours: Mapping[str, str],
    refresh_s: int | None = None,
) -> str:
    """`colours`: of the strategies that can be switched off. `refresh_s`: the page loads itself again."""
    chips = "".join(
        f'<button type="button" class="chip" aria-pressed="true" data-strategy="{escape(name)}"'
        f' style="--of:{colour}">{escape(name)}</button>'
        for name, colour in colours.items()
    )
    return PAGE.substitute(
        title=escape(title),
        sentence=escape(sentence),
        refresh="" if refresh_s is None else f'<meta http-equiv="refresh" content="{refresh_s}">\n',
        contents="".join(f'<a href="#{one.name}">{escape(one.title)}</a>' for one in sections),
        chips=chips,
        style=(ASSETS / "report.css").read_text(),
        styles="".join(section.style.lstrip("\n") for section in sections),
        sections="\n".join(_section(section) for section in sections),
        plotly=get_plotlyjs(),
        script=(ASSETS / "report.js").read_text(),
    )


def _section(section: Section) -> str:
    note = f'\n<p class="note">{escape(section.note)}</p>' if section.note else ""
    heading = f'<h2 id="{section.name}">{escape(section.title)}</h2>'
    return f"<section>\n{heading}\n{section.body}{note}\n</section>"
