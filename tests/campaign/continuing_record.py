"""Tries of tests.campaign.continuing in a file that only grows, and their table."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

HEADER = (
    "| nodes | fault | strategy | tries | right | noticed | trained again | back |",
    "|---|---|---|---|---|---|---|---|",
)


@dataclass(frozen=True)
class Row:
    """A try, or with fault `none` the run without faults."""

    engine: str
    fault: str
    strategy: str
    seed: int
    epochs: int
    flag: str | None = None
    accuracy: float | None = None
    noticed_s: float | None = None
    resumed_s: float | None = None
    back_s: float | None = None
    misses: tuple[str, ...] = ()


def append(record: Path | None, row: Row) -> None:
    if record is not None:
        with record.open("a") as file:
            file.write(json.dumps(asdict(row)) + "\n")


def read(record: Path | None) -> list[Row]:
    if record is None or not record.exists():
        return []
    return [Row(**json.loads(line)) for line in record.read_text().splitlines()]


def undisturbed(rows: Iterable[Row], engine: str, strategy: str, epochs: int) -> float | None:
    """Its accuracy, where it is known."""
    key = (engine, "none", strategy, epochs)
    found = [r.accuracy for r in rows if (r.engine, r.fault, r.strategy, r.epochs) == key]
    return found[0] if found else None


def table(rows: Sequence[Row]) -> str:
    """In Markdown; median and maximum of the seconds."""
    tries = sorted((r for r in rows if r.fault != "none"), key=_group)
    lines = list(HEADER)
    for key, group in itertools.groupby(tries, _group):
        of = list(group)
        right = sum(not row.misses for row in of)
        times = [[getattr(row, name) for row in of] for name in ("noticed_s", "resumed_s")]
        back = [row.back_s for row in of if row.fault != "kill"]
        cells = [*key, str(len(of)), str(right), *map(_seconds, [*times, back])]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _group(row: Row) -> tuple[str, str, str]:
    return row.engine, row.fault, f"`{row.strategy}`"


def _seconds(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{median(known):.2f}, {max(known):.2f} s" if known else ""
