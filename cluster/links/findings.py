"""What is said and recorded of shaped links: findings, what they dropped in a run, a warning. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cluster.observe.units import bytes_text, four_digits
from cluster.spec.records import LINK_STATISTICS

Findings = Sequence[dict[str, Any]]

LARGE_BURST = 0.1
"""Of a message: what is let through at once is then no longer small beside what is throttled."""


def with_statistics(findings: Findings, before: Findings, after: Findings) -> list[dict[str, Any]]:
    """The entries of the summary's `links`: what was found, and what was dropped and held back since.

    Counts are between two readings; null where one is missing.
    """
    earlier, later = ({entry["node"]: entry for entry in one} for one in (before, after))
    entries = []
    for found in findings:
        first, last = earlier.get(found["node"], {}), later.get(found["node"], {})
        counts = {
            name: last[name] - first[name]
            if None not in (first.get(name), last.get(name))
            else None
            for name in LINK_STATISTICS
        }
        entries.append({**found, **counts})
    return entries


def verdict(findings: Findings) -> str:
    """One line for all links of a cluster."""
    worst = max(findings, key=lambda found: abs(found["error"]))
    if len(findings) == 1:
        return f"link of {worst['node']}: {one_line(worst)}"
    return f"{len(findings)} links verified; the furthest off is {worst['node']}: {one_line(worst)}"


def one_line(found: dict[str, Any]) -> str:
    return (
        f"{found['asked']} measures {four_digits(found['sent_mbit'])} Mbit/s sent,"
        f" {four_digits(found['received_mbit'])} received ({found['error']:+.2%})"
    )


def burst_warning(findings: Findings, model_bytes: int) -> str | None:
    """Where a bucket lets through a good part of a message before it begins to throttle."""
    if not findings or not model_bytes:
        return None
    largest = max(findings, key=lambda found: found["burst_bytes"])
    share = largest["burst_bytes"] / model_bytes
    if share <= LARGE_BURST:
        return None
    return (
        f"warning: the link of {largest['node']} ({largest['asked']}) lets"
        f" {bytes_text(largest['burst_bytes'])} through at once, {share:.0%} of the"
        f" {bytes_text(model_bytes)} of a message: a message this small feels a faster link"
    )
