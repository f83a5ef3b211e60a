"""What is recorded and printed of shaped links: statistics of a run, one line, a warning. Pure."""

import dataclasses
from collections.abc import Sequence

from cluster.observe.units import bytes_text, four_digits, percent_text
from cluster.spec.documents.codec import Json
from cluster.spec.documents.links import COUNTS, LinkStatistics, MeasuredLink

LARGE_BURST = 0.1
"""A burst of more than this share of a message is no longer small beside what is throttled."""


def with_statistics(
    links: Sequence[MeasuredLink], before: Sequence[LinkStatistics], after: Sequence[LinkStatistics]
) -> list[MeasuredLink]:
    """The links, with what each dropped and held back between two readings; null without both."""
    earlier, later = ({entry.node: entry for entry in entries} for entries in (before, after))
    found = []
    for link in links:
        counts: Json = {}
        for name in COUNTS:
            first, last = (getattr(read.get(link.node), name, None) for read in (earlier, later))
            counts[name] = None if first is None or last is None else last - first
        found.append(dataclasses.replace(link, **counts))
    return found


def verdict(links: Sequence[MeasuredLink]) -> str:
    """One line for all links of a cluster."""
    worst = max(links, key=lambda link: abs(link.error))
    if len(links) == 1:
        return f"link of {worst.node}: {one_line(worst)}"
    return f"{len(links)} links verified; the furthest off is {worst.node}: {one_line(worst)}"


def one_line(link: MeasuredLink) -> str:
    return (
        f"{link.target} measures {four_digits(link.sent_mbit)} Mbit/s sent,"
        f" {four_digits(link.received_mbit)} received ({percent_text(link.error, signed=True)})"
    )


def burst_warning(links: Sequence[MeasuredLink], model_bytes: int) -> str | None:
    """Where a link lets through a good part of a message before it begins to throttle."""
    if not links or not model_bytes:
        return None
    largest = max(links, key=lambda link: link.burst_bytes or 0)
    burst_bytes = largest.burst_bytes or 0
    if burst_bytes / model_bytes <= LARGE_BURST:
        return None
    return (
        f"warning: the link of {largest.node} ({largest.target}) lets {bytes_text(burst_bytes)}"
        f" through at once, {percent_text(burst_bytes / model_bytes, 0)} of the"
        f" {bytes_text(model_bytes)} of a message: a message this small feels a faster link"
    )
