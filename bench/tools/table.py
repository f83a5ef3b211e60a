"""A benchmark and the table it returns, as plain text and as Markdown."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Cells are text already; the first column is a name and is aligned left, the others right."""

    setting: str
    """What was measured: workers, model, links, engine."""
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def as_text(self) -> str:
        widths = [max(map(len, column)) for column in zip(self.columns, *self.rows, strict=True)]
        lines = [self.setting]
        for row in (self.columns, *self.rows):
            first, *others = zip(row, widths, strict=True)
            cells = [f"{first[0]:<{first[1]}}", *(f"{cell:>{width}}" for cell, width in others)]
            lines.append("  ".join(cells).rstrip())
        return "\n".join([*lines, *self.notes])

    def as_markdown(self) -> str:
        rule = ["---", *["---:"] * (len(self.columns) - 1)]
        rows = [f"| {' | '.join(row)} |" for row in (self.columns, rule, *self.rows)]
        return "\n".join([f"{self.setting}:", "", *rows, *(f"\n{note}" for note in self.notes)])


@dataclass(frozen=True)
class Benchmark:
    name: str
    docstring: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Table]

    @property
    def title(self) -> str:
        return self.docstring.partition("\n")[0].rstrip(".")

    @property
    def text(self) -> str:
        return self.docstring.partition("\n")[2].strip()
