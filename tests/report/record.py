"""Records the report of the recorded runs: python -m tests.report.record

Tables as they are written, and the structure of the page: sections, headings, tables with their
heads and numbers of rows, figures. Look at the differences (git diff) before you commit them.
"""

from __future__ import annotations

import shutil
import tempfile
from html.parser import HTMLParser
from pathlib import Path

from analysis.network_report import main

DATA = Path(__file__).resolve().parents[1] / "data"
RUNS, EXPECTED = DATA / "runs", DATA / "report"
TITLES = {
    "h2": "{id}: {text}",
    "h3": " {id}: {text}",
    "h4": "  {text}",
    "summary": "  + {text}",
    "caption": "  {text}",
}


class Structure(HTMLParser):
    """One line for each section, heading, table and figure of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._text: list[str] = []
        self._id = ""
        self._title = ""
        self._heads: list[str] = []
        self._rows = self._choices = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self._text = []
        self._id = found.get("id") or ""
        if tag in ("table", "figure"):
            self._heads, self._rows, self._choices = [], 0, 0
        self._rows += tag == "tr"
        self._choices += tag == "option" and "value" not in found  # not a width to save it at
        if found.get("class") == "plot":
            choices = f", {self._choices} choices" if self._choices else ""
            self.lines.append(f"  figure {self._id}: {self._title}{choices}")

    def handle_data(self, data: str) -> None:
        self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        text = "".join(self._text).strip()
        if tag in TITLES and text != "Save":  # the menu of every figure
            self.lines.append(TITLES[tag].format(id=self._id, text=text))
        elif tag == "span":
            self._title = text or self._title
        elif tag == "th":
            self._heads.append(text)
        elif tag == "table":
            self.lines.append(f"  table of {self._rows - 1} rows: {' | '.join(self._heads)}")
        self._text = []


def report(output: Path) -> dict[str, str]:
    """File -> content; of the page, its structure."""
    assert main([str(RUNS), "--output", str(output)]) == 0
    tables = _texts(output, "tables/*.csv")
    page = Structure((output / "report.html").read_text("utf-8"))
    return tables | {"structure.txt": "\n".join(page.lines) + "\n"}


def expected() -> dict[str, str]:
    return _texts(EXPECTED, "**/*.*")


def _texts(folder: Path, pattern: str) -> dict[str, str]:
    files = folder.glob(pattern)
    return {str(path.relative_to(folder)): path.read_text("utf-8") for path in files}


if __name__ == "__main__":
    shutil.rmtree(EXPECTED, ignore_errors=True)
    (EXPECTED / "tables").mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in report(Path(folder)).items():
            (EXPECTED / name).write_text(text, encoding="utf-8")
