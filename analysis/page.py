"""The report as one page that needs nothing but itself: style, script and data are inside."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from string import Template

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

# The policy makes the browser refuse every request, so the page cannot come to need one unnoticed.
PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:">
<title>$title</title>
<style>
:root { color-scheme: light dark; --page: #fff; --text: #1c1e21; --faint: #636970; --line: #dfe2e6;
  --bad: #b3261e }
@media (prefers-color-scheme: dark) {
  :root { --page: #16181c; --text: #e6e8eb; --faint: #9aa1a9; --line: #343940; --bad: #ff8a80 } }
body { margin: 0 auto; padding: 1rem; max-width: 70rem; background: var(--page);
  color: var(--text); font: 1rem/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem; margin: .5rem 0 }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem }
th, td { padding: .35rem .6rem; text-align: right; vertical-align: baseline;
  border-bottom: 1px solid var(--line) }
th { vertical-align: bottom; font-weight: 600; min-width: 4.8rem }
.run { text-align: left; width: 100%; overflow-wrap: anywhere }
td { white-space: nowrap }
td.run { white-space: normal }
small, .note { color: var(--faint); font-size: .85rem }
td small { display: block }
.bad { color: var(--bad) }
.note { max-width: 46rem }
@media (max-width: 54rem) { /* a phone: the run, and its numbers in threes below it */
  table, tbody { display: block }
  tr { display: grid; grid-template-columns: repeat(3, 1fr); gap: .2rem .5rem;
    align-items: end; padding: .5rem 0;
    border-bottom: 1px solid var(--line) }
  tr:first-child { display: none }
  td { border: 0; padding: .1rem 0; text-align: left }
  td.run { grid-column: 1 / -1 }
  td::before { content: attr(title); display: block; color: var(--faint); font-size: .75rem;
    white-space: normal; line-height: 1.2 }
}
.js-plotly-plot :is(.xtick, .ytick, .g-xtitle, .g-ytitle, .legend) text
  { fill: var(--text) !important }
.js-plotly-plot :is(.gridlayer path, .zerolinelayer path) { stroke: var(--line) !important }
</style>
<script>$plotly</script>
</head>
<body>
<h1>$title</h1>
<p>$sentence</p>
$table
<p class="note">$note</p>
<h2>Accuracy against bytes sent</h2>
$figure
<p class="note">$caption</p>
</body>
</html>
""")


@dataclass(frozen=True)
class Row:
    label: str
    folder: str
    cells: list[str]
    problem: str
    """Empty for a completed run."""


def render(
    *,
    title: str,
    sentence: str,
    headings: list[str],
    rows: list[Row],
    note: str,
    figure: go.Figure,
    caption: str,
) -> str:
    chart = figure.to_html(
        full_html=False,
        include_plotlyjs=False,
        div_id="accuracy-against-bytes",
        config={"displayModeBar": False, "responsive": True},
    )
    return PAGE.substitute(
        title=escape(title),
        sentence=escape(sentence),
        table=_table(headings, rows),
        note=escape(note),
        caption=escape(caption),
        plotly=get_plotlyjs(),
        figure=chart if figure.data else "<p>No run has got as far as an accuracy.</p>",
    )


def _table(headings: list[str], rows: list[Row]) -> str:
    heads = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    lines = [f'<table>\n<tr><th class="run">run</th>{heads}</tr>']
    for number, row in enumerate(rows, start=1):
        run = f"{number}&ensp;{escape(row.label)}<small>{escape(row.folder)}</small>"
        if row.problem:
            run += f'<small class="bad">{escape(row.problem)}</small>'
        cells = "".join(
            f'<td title="{escape(heading)}">{escape(cell)}</td>'
            for heading, cell in zip(headings, row.cells, strict=True)
        )
        lines.append(f'<tr><td class="run">{run}</td>{cells}</tr>')
    return "\n".join([*lines, "</table>"])
