"""The tables at the end of a session: accuracy, traffic, prediction and time; verified links."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from cluster.observe.result_row import EXTRAS, find_extras, headings, row
from cluster.observe.units import four_digits, percent_text
from cluster.spec.documents.codec import Options
from cluster.spec.documents.summary import COARSE, CONTENDED, Summary
from cluster.spec.exchange.strategies import follows_from_strategy
from cluster.spec.program import tells_apart

MOST_LINKS = 8
MOST_NAMED = 3
NOTED_RETRANSMISSIONS = 0.005
"""From this share on retransmissions show in the third digit of the ratio, and are noted."""


def print_table(summaries: Sequence[Summary], console: Console) -> None:
    options = differing([summary.spec for summary in summaries])
    extras = find_extras(summaries)
    table = Table(
        title="per worker: payload sent in a step, measured and predicted; sent in all: bytes of"
        " all nodes in training, over the number of workers"
        + "".join(f"; {name}: {EXTRAS[name].meaning}" for name in extras if EXTRAS[name].meaning),
        title_justify="left",
        box=None,
    )
    for heading in headings(options, extras):
        table.add_column(heading, justify="left" if heading in ("strategy", "status") else "right")
    for summary in summaries:
        style = None if summary.status == "completed" else "red"
        cells = row(summary, options, extras)
        table.add_row(*cells, style=style)
    console.print(table)
    for summary in summaries:
        if (share := retransmitted_share(summary)) > NOTED_RETRANSMISSIONS:
            console.print(
                f"note: {summary.run}: TCP retransmitted {percent_text(share, 1)} of the payload",
                style="italic",
                markup=False,
            )
    for note in filter(None, (contention_note(summaries), coarse_note(summaries))):
        console.print(note, style="italic", markup=False)


def contention_note(summaries: Sequence[Summary]) -> str:
    """Which runs' times allow no conclusion, and why; empty where all held or nothing is known."""
    found = _judged(summaries, CONTENDED)
    if not found:
        return ""
    waits = [s.fidelity.largest_wait_share for s in found if s.fidelity is not None]
    largest = max((wait for wait in waits if wait is not None), default=None)
    what = _named(found, summaries)
    waited = (
        ""
        if largest is None
        else f": nodes waited for a core up to {percent_text(largest, 0)} of a step"
    )
    return (
        f"note: contended host, no conclusion from the times of {what}{waited};"
        " use --dilation auto or a larger K, or an idle machine (docs/time.md)"
    )


def coarse_note(summaries: Sequence[Summary]) -> str:
    """The same for steps that are too short for the CPU limits or the dilation."""
    found = _judged(summaries, COARSE)
    if not found:
        return ""
    return (
        f"note: no conclusion from the times of {_named(found, summaries)}: steps are too short for"
        " the nodes' CPU limits; use a larger --dilation or --batch-size (docs/time.md)"
    )


def _judged(summaries: Sequence[Summary], verdict: str) -> list[Summary]:
    return [s for s in summaries if s.fidelity is not None and s.fidelity.verdict == verdict]


def _named(found: Sequence[Summary], summaries: Sequence[Summary]) -> str:
    """These runs of a session, or all."""
    return "all runs" if len(found) == len(summaries) > 1 else listed([s.run for s in found])


def listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def retransmitted_share(summary: Summary) -> float:
    """The share of the payload that TCP had sent before."""
    per_step = summary.per_step
    if per_step is None or not per_step.sent_mean_bytes:
        return 0.0
    return (per_step.retransmitted_mean_bytes or 0) / per_step.sent_mean_bytes


def print_links(summaries: Sequence[Summary], console: Console) -> None:
    """The verified links; those of a cluster that several runs shared are listed once."""
    found = {
        (link.node, link.target, link.sent_mbit, link.received_mbit): link
        for summary in summaries
        for link in summary.links
    }
    if not found:
        return
    worst_first = sorted(found.values(), key=lambda link: -abs(link.error))
    more = len(found) - MOST_LINKS
    note = f" (the {MOST_LINKS} with the largest error, of {len(found)})" if more > 0 else ""
    console.print(f"links, verified before training: Mbit/s on the wire{note}", style="italic")
    table = Table(box=None)
    for heading in ("node", "target", "sent", "received", "error"):
        table.add_column(heading, justify="left" if heading == "node" else "right")
    for link in worst_first[:MOST_LINKS]:
        rates = (four_digits(rate) for rate in (link.sent_mbit, link.received_mbit))
        table.add_row(link.node, link.target, *rates, percent_text(link.error, signed=True))
    console.print(table)


def differing(specs: Sequence[Options]) -> list[str]:
    """Options in which these runs differ, beside the ones that every row shows."""
    shown = ["strategy", "schedule", "workers", "passes", "engine", "lr_rule", "folder"]
    if tells_apart("model", specs):
        shown.append("dataset")  # which goes with the model
    strategies = [str(spec["strategy"]) for spec in specs]
    return [
        option
        for option in specs[0]
        if option not in shown
        and tells_apart(option, specs)
        and not follows_from_strategy(option, strategies, [spec.get(option) for spec in specs])
    ]
