"""The table at the end of a session: what was learned, what it cost, and what theory says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from cluster.observe.result_row import EXTRAS, find_extras, headings, row
from cluster.observe.units import four_digits
from cluster.spec.records import Summary
from cluster.spec.strategies import says_nothing

MOST_LINKS = 8
NOTED_REPEATS = 0.005
"""From here on repeats show in the third digit of the ratio, and are told."""


def print_table(summaries: Sequence[Summary], console: Console) -> None:
    options = differing([summary.spec for summary in summaries])
    extras = find_extras(summaries)
    table = Table(
        title="per worker: payload sent in a step, measured and predicted; sent in all: bytes of all nodes in"
        " training, over the number of workers"
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
        if (share := repeated_share(summary)) > NOTED_REPEATS:
            console.print(
                f"note: {summary.run}: {share:.1%} of it TCP sent again, for packets lost or late",
                style="italic",
                markup=False,
            )


def repeated_share(summary: Summary) -> float:
    """Of what workers sent, what TCP had sent before."""
    per_step = summary.per_step or {}
    return (per_step.get("repeated_mean") or 0) / (per_step.get("sent_mean") or 1)


def print_links(summaries: Sequence[Summary], console: Console) -> None:
    """What the shaped links were found to be; a cluster that several runs shared stands here once."""
    found = {
        (link["node"], link["asked"], link["sent_mbit"], link["received_mbit"]): link
        for summary in summaries
        for link in summary.links
    }
    if not found:
        return
    worst_first = sorted(found.values(), key=lambda link: -abs(link["error"]))
    more = len(found) - MOST_LINKS
    rest = f"; the {MOST_LINKS} that are furthest off, {more} more are nearer" if more > 0 else ""
    console.print(f"links, verified before training: Mbit/s on the wire{rest}", style="italic")
    table = Table(box=None)
    for heading in ("node", "asked", "sent", "received", "error"):
        table.add_column(heading, justify="left" if heading == "node" else "right")
    for link in worst_first[:MOST_LINKS]:
        rates = (four_digits(link[name]) for name in ("sent_mbit", "received_mbit"))
        table.add_row(link["node"], link["asked"], *rates, f"{link['error']:+.2%}")
    console.print(table)


def differing(specs: Sequence[dict[str, Any]]) -> list[str]:
    """Options in which these runs differ, beside the ones that every row shows."""
    shown = ["strategy", "schedule", "workers", "passes", "engine", "lr_rule"]
    if any(spec["model"] != specs[0]["model"] for spec in specs):
        shown.append("dataset")  # which goes with the model
    strategies = [spec["strategy"] for spec in specs]
    return [
        option
        for option in specs[0]
        if option not in shown
        and any(spec[option] != specs[0][option] for spec in specs)
        and not says_nothing(option, strategies, [spec[option] for spec in specs])
    ]
