"""Writes what the report of the recorded runs must be: python -m tests.report.record

Look at the differences (git diff) before you commit them.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from plotly.offline import get_plotlyjs

from analysis.network_report import main

DATA = Path(__file__).resolve().parents[1] / "data"
RUNS, EXPECTED = DATA / "runs", DATA / "report"


def report(output: Path) -> dict[str, str]:
    """File -> content; the library that draws, which is the same in all pages, is left out."""
    assert main([str(RUNS), "--output", str(output)]) == 0
    files = sorted(path for path in output.rglob("*") if path.is_file())
    texts = {str(path.relative_to(output)): path.read_text(encoding="utf-8") for path in files}
    page = texts["report.html"]
    assert page.count(get_plotlyjs()) == 1
    return texts | {"report.html": page.replace(get_plotlyjs(), "")}


def expected() -> dict[str, str]:
    files = sorted(path for path in EXPECTED.rglob("*") if path.is_file())
    return {str(path.relative_to(EXPECTED)): path.read_text(encoding="utf-8") for path in files}


if __name__ == "__main__":
    shutil.rmtree(EXPECTED, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in report(Path(folder)).items():
            path = EXPECTED / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
