"""One run as a row of the table: what was learned, what it cost, and what theory says. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.observe.units import bytes_text, option_text, seconds_text
from cluster.spec.records import Summary

DASH = "-"


@dataclass(frozen=True)
class Extra:
    """A column that not every table has."""

    applies: Callable[[Summary], bool]
    value: Callable[[Summary], Any]
    text: Callable[[Any], str]
    meaning: str = ""


def _bound(summary: Summary) -> Any:
    return (summary.seconds or {}).get("communication_bound")


def _rate(summary: Summary) -> Any:
    return (summary.training or {}).get("learning_rate")


def _label_skew(summary: Summary) -> Any:
    return ((summary.training or {}).get("shards") or {}).get("label_skew")


EXTRAS = {
    "bound": Extra(
        lambda s: bool(_bound(s)),
        _bound,
        seconds_text,
        "what a step's exchange must take on these links",
    ),
    "control": Extra(
        lambda s: bool(s.control),
        lambda s: (s.control or {}).get("per_second"),
        bytes_text,
        "what the launcher says beside it, a second",
    ),
    "lr (rule)": Extra(
        lambda s: s.spec.get("dataset") != "none" and bool(_rate(s)),
        _rate,
        lambda rate: f"{rate['full']:.3g} ({rate['rule']})",
    ),
    "uneven": Extra(
        lambda s: s.spec.get("partition", "iid") != "iid",
        _label_skew,
        lambda v: f"{v:.2f}",
        "how far workers' labels are from everybody's, 0 to 1",
    ),
}


def find_extras(summaries: Sequence[Summary]) -> list[str]:
    """Those that say something of one of these runs."""
    return [name for name, extra in EXTRAS.items() if any(map(extra.applies, summaries))]


def headings(options: Sequence[str], extras: Sequence[str] = ()) -> list[str]:
    return [
        *("strategy", "workers", "passes", *(option.replace("_", " ") for option in options)),
        *("accuracy", "sent", "predicted", "ratio", "sent in all", "per step", *extras, "status"),
    ]


def row(summary: Summary, options: Sequence[str], extras: Sequence[str] = ()) -> list[str]:
    spec = summary.spec
    per_step = summary.per_step or {}
    seconds = summary.seconds or {}
    sent_in_all = summary.bytes["train"]["sent"] / spec["workers"] if summary.bytes else None
    strategy = spec["strategy"] + (f" ({spec['schedule']})" if spec["schedule"] else "")
    return [
        strategy,
        str(spec["workers"]),
        _show(spec["passes"], str),
        *(_show(spec[option], option_text) for option in options),
        _show(summary.accuracy, lambda value: f"{value:.2%}"),
        _show(per_step.get("sent_mean"), bytes_text),
        _show(per_step.get("predicted_mean"), bytes_text),
        _show(per_step.get("ratio"), lambda value: f"{value:.3f}"),
        _show(sent_in_all, bytes_text),
        _show(seconds.get("step_median"), seconds_text),
        *(_show(EXTRAS[name].value(summary), EXTRAS[name].text) for name in extras),
        summary.status,
    ]


def _show(value: Any, text: Callable[[Any], str]) -> str:
    return DASH if value is None else text(value)
