"""A study as small tables, one for each strategy: nodes down, cases across, the hotter the slower.

HTML and not a chart: its numbers can be read without a pointer, and the tables find their own places on a
wide page and on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from analysis.report.time.bottleneck_cases import Case, Comparison, Node, Study
from analysis.report.time.bottleneck_words import case_name, describe, extremes, times
from cluster.observe.units import seconds_text

STYLE = """
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(26rem, 100%), 1fr));
  gap: 1.2rem 2rem; align-items: start }
table.grid { display: table; font-size: .8rem; width: 100% }
.grid tbody { display: table-row-group }
.grid tr, .grid tr:first-child { display: table-row; border: 0 }
.grid caption { text-align: left; font-weight: 600; font-size: .9rem; padding: .2rem 0 }
.grid :is(th, td) { display: table-cell; min-width: 0; padding: .2rem .4rem; border: 0;
  text-align: right; vertical-align: top; line-height: 1.3; white-space: nowrap }
.grid th { font-weight: 400; color: var(--faint); white-space: normal }
.grid tr:first-child th { vertical-align: bottom }
.grid th:first-child { text-align: left; white-space: nowrap }
.panels .grid { table-layout: fixed }
.panels .grid :is(th, td) { padding: .2rem .3rem }
.panels .grid th:first-child { width: 4.2rem; padding-left: 0 }
.panels .grid .sum td { white-space: normal }
.grid td::before { content: none }
.heat { background: rgb(217 115 13 / calc(var(--heat) * var(--heat-most))) }
.heat.slow { box-shadow: inset 0 0 0 2px var(--text) }
.grid .sum td, .grid .sum th { border-top: 1px solid var(--line) }
.scale { display: inline-block; width: 8rem; height: .7rem; vertical-align: baseline;
  background: linear-gradient(to right, rgb(217 115 13 / 0), rgb(217 115 13 / var(--heat-most)));
  border: 1px solid var(--line) }
.key { display: inline-block; width: 1.6rem; height: .7rem; vertical-align: baseline;
  box-shadow: inset 0 0 0 2px var(--text) }
.said { padding-left: 1.2rem }
.said li { margin: .3rem 0; max-width: 60rem }
.behind { overflow: auto; max-height: 30rem }
.grid.all :is(th, td):nth-child(-n+3) { text-align: left }
.behind th { position: sticky; top: 0; background: var(--page) }
"""
NOTE = (
    "Step: the median of a node's steps but the first; where steps come in turns (pairs that change,"
    " local steps), of their mean over one turn. Slow-down: against the same node where nobody is slow."
    " Bound: the least that a step's exchange can take, the bytes of the busiest link with their headers"
    " over its rate. Waiting: from a node's own arrival at an exchange to that of the last in its group;"
    " the rest of an exchange is moving bytes."
)


def section_body(studies: Sequence[Study]) -> str:
    hottest = max(
        2.0, *(_ratio(node, one) for one in _comparisons(studies) for node in _nodes(one))
    )
    return "\n".join([_scale(hottest), *(_study(study, studies, hottest) for study in studies)])


def _comparisons(studies: Iterable[Study]) -> list[Comparison]:
    return [comparison for study in studies for comparison in study.comparisons]


def _nodes(comparison: Comparison) -> list[Node]:
    return [node for case in comparison.cases for node in case.nodes]


def _ratio(node: Node, comparison: Comparison) -> float:
    """Of a step to the shortest in its panel."""
    return node.step_s / min(one.step_s for one in _nodes(comparison))


def _scale(hottest: float) -> str:
    return (
        '<p class="note">Median step of each node. Colour is its length over the shortest in the same'
        f' table: 1 x <span class="scale"></span> {times(hottest)}, logarithmic, the same in all tables.'
        ' <span class="key"></span> marks the nodes that are slow. Point at a number for more.</p>'
    )


def _study(study: Study, studies: Sequence[Study], hottest: float) -> str:
    sessions = len({one.session for one in studies}) > 1
    title = f"{study.title}, {study.session}" if sessions else study.title
    panels = "\n".join(_panel(one, hottest) for one in study.comparisons)
    said = "\n".join(
        f"<li><b>{escape(one.label)}</b>: {escape(describe(one))}</li>" for one in study.comparisons
    )
    return (
        f'<h3>{escape(title)}</h3>\n<div class="panels">\n{panels}\n</div>\n'
        f'<ul class="said">\n{said}\n</ul>\n<p>{escape(extremes(study))}</p>\n{_behind(study)}'
    )


def _panel(comparison: Comparison, hottest: float) -> str:
    cases = comparison.cases
    heads = "".join(f"<th>{escape(case_name(case, cases))}</th>" for case in cases)
    lines = [f"<caption>{escape(comparison.label)}</caption>", f"<tr><th></th>{heads}</tr>"]
    for place, node in enumerate(cases[0].nodes):
        cells = "".join(_cell(case, case.nodes[place], comparison, hottest) for case in cases)
        lines.append(f"<tr><th>node {node.rank}</th>{cells}</tr>")
    downs = "".join(f"<td>{_slow_down(case).replace(' x', '&nbsp;x')}</td>" for case in cases)
    lines.append(f'<tr class="sum"><th>slow-down</th>{downs}</tr>')
    if any(case.bound_s for case in cases):
        bounds = "".join(f"<td>{_seconds(case.bound_s)}</td>" for case in cases)
        lines.append(f"<tr><th>bound</th>{bounds}</tr>")
    return '<table class="grid">\n' + "\n".join(lines) + "\n</table>"


def _cell(case: Case, node: Node, comparison: Comparison, hottest: float) -> str:
    heat = math.log(_ratio(node, comparison)) / math.log(hottest)
    kind = "heat slow" if node.is_slow else "heat"
    more = f"node {node.rank}, {case_name(case, comparison.cases)}: {_details(node)}"
    return (
        f'<td class="{kind}" style="--heat:{heat:.2f}" title="{escape(more)}">'
        f"{seconds_text(node.step_s)}</td>"
    )


def _details(node: Node) -> str:
    parts = [f"step {seconds_text(node.step_s)}"]
    if node.slow_down is not None:
        parts.append(f"slow-down {times(node.slow_down)}")
    if node.compute_s is not None:
        parts.append(f"computing {seconds_text(node.compute_s)}")
    if node.exchange_s is not None:
        parts.append(f"exchange {seconds_text(node.exchange_s)}")
    if node.waiting_s is not None:
        whom = "" if node.waits_mostly_for is None else f", mostly for node {node.waits_mostly_for}"
        parts.append(f"of which waiting {seconds_text(node.waiting_s)}{whom}")
    return ", ".join(parts)


def _slow_down(case: Case) -> str:
    """Of the node that is slowed down least, to most."""
    if not case.slow_downs or not case.slow_ranks:
        return "-"
    return times(*case.slow_downs)


def _seconds(value: float | None) -> str:
    return "-" if value is None else seconds_text(value)


BEHIND = (
    "case",
    "node",
    "step",
    "slow-down",
    "bound",
    "computing",
    "exchange",
    "waiting",
    "mostly for",
)


def _behind(study: Study) -> str:
    """Every number of the figure."""
    heads = "".join(f"<th>{heading}</th>" for heading in ("strategy", *BEHIND))
    lines = [f"<tr>{heads}</tr>"]
    for comparison in study.comparisons:
        for case in comparison.cases:
            for node in case.nodes:
                texts = [
                    *(comparison.label, case_name(case, comparison.cases), f"node {node.rank}"),
                    seconds_text(node.step_s),
                    "-" if node.slow_down is None else times(node.slow_down),
                    *(_seconds(case.bound_s), _seconds(node.compute_s), _seconds(node.exchange_s)),
                    _seconds(node.waiting_s),
                    "-" if node.waits_mostly_for is None else f"node {node.waits_mostly_for}",
                ]
                cells = "".join(f"<td>{escape(text)}</td>" for text in texts)
                lines.append(f"<tr>{cells}</tr>")
    table = '<table class="grid all">\n' + "\n".join(lines) + "\n</table>"
    return (
        "<details><summary>All numbers, also in tables/bottlenecks.csv</summary>\n"
        f'<div class="behind">{table}</div></details>'
    )
