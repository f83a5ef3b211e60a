"""The table at the end of a session: what was learned, what it cost, and what theory says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from cluster.records import Summary
from cluster.units import bytes_text, seconds_text

DASH = "-"


def print_table(summaries: Sequence[Summary], console: Console) -> None:
    knobs = differing([summary.spec for summary in summaries])
    table = Table(
        title="per worker: payload sent in a step, measured and predicted; all bytes sent in training",
        title_justify="left",
        box=None,
    )
    headings = ("strategy", "workers", "passes", *(knob.replace("_", " ") for knob in knobs))
    results = ("accuracy", "sent", "predicted", "ratio", "sent in all", "per step", "status")
    for heading in (*headings, *results):
        table.add_column(heading, justify="left" if heading in ("strategy", "status") else "right")
    for summary in summaries:
        style = None if summary.status == "completed" else "red"
        table.add_row(*row(summary, knobs), style=style)
    console.print(table)


def differing(specs: Sequence[dict[str, Any]]) -> list[str]:
    """Knobs in which these runs differ, beside the ones that every row shows."""
    shown = ("strategy", "schedule", "workers", "passes", "engine")
    return [k for k in specs[0] if k not in shown and any(s[k] != specs[0][k] for s in specs)]


def row(summary: Summary, knobs: Sequence[str]) -> list[str]:
    spec = summary.spec
    per_step = summary.per_step or {}
    seconds = summary.seconds or {}
    sent_in_all = summary.bytes["train"]["sent"] / spec["workers"] if summary.bytes else None
    strategy = spec["strategy"] + (f" ({spec['schedule']})" if spec["schedule"] else "")
    return [
        strategy,
        str(spec["workers"]),
        _show(spec["passes"], str),
        *(_show(spec[knob], lambda v: v if isinstance(v, str) else f"{v:g}") for knob in knobs),
        _show(summary.accuracy, lambda value: f"{value:.2%}"),
        _show(per_step.get("sent_mean"), bytes_text),
        _show(per_step.get("predicted_mean"), bytes_text),
        _show(per_step.get("ratio"), lambda value: f"{value:.3f}"),
        _show(sent_in_all, bytes_text),
        _show(seconds.get("step_median"), seconds_text),
        summary.status,
    ]


def _show(value: Any, text: Callable[[Any], str]) -> str:
    return DASH if value is None else text(value)
