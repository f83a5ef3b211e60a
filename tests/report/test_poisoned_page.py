"""Names, labels and errors that try to run a script in the page, in a real browser."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from analysis.network_report import main
from cluster.spec.documents.run_folder import RunFolder, find_runs
from cluster.spec.experiment import Experiment
from tests.browser import chromium
from tests.report.record import RUNS
from tests.report.test_browser import LOOK_AT_ALL

POISONS = (
    "<script>window.poisoned=1</script>",
    "</script><script>window.poisoned=1</script>",
    "<img src=x onerror=window.poisoned=1>",
    '"><svg onload="window.poisoned=1">',
    "' onmouseover='window.poisoned=1",
    '<a href="javascript:window.poisoned=1">see</a>',
    "javascript:window.poisoned=1",
    "{{ 7*7 }}{% raise %}${window.poisoned=1}%{customdata}",
    "<!--<script>",
    "]]></style><style>*{display:none}</style>",
)
KEPT = (
    *("status", "target", "link", "bottleneck", "straggler", "total_memory", "role", "partition"),
    *("compress", "strategy"),
)
"""Texts that are checked when they are read, beside options with choices."""
CHOSEN = {field.name for field in dataclasses.fields(Experiment) if field.metadata["choices"]}


ACTIVE = """element => [...element.attributes].some(attribute =>
    attribute.name.startsWith('on') ||
    (/href|src/.test(attribute.name) && /script/i.test(attribute.value)))"""
"""Whether an element has an event handler or points to a script."""


SAVE_ALL = """(async () => {
    const found = [];
    for (const figure of document.querySelectorAll('figure.chart')) {
        const content = JSON.parse(figure.querySelector('script').textContent);
        const svg = await Export.picture(figure, content.choices?.[0] ?? content, 1);
        document.body.append(svg);
        found.push(new XMLSerializer().serializeToString(svg));
        svg.remove();
    }
    return found;
})()"""
"""Every figure as it is saved, and shown in the page for a moment."""
POISON_IN_PICTURE = re.compile(r"<[^>]*(<script|\son[a-z]+=|javascript:)", re.IGNORECASE)
"""In a tag, not in a text."""


class Poison:
    """Puts one poison after the other in the place of every text that is not checked."""

    def __init__(self) -> None:
        self._given = 0

    def next(self) -> str:
        self._given += 1
        return POISONS[self._given % len(POISONS)]

    def into(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self.into(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.into(inner, key) for inner in value]
        if isinstance(value, str) and key not in (*KEPT, *CHOSEN):
            return self.next()
        return value

    def into_run(self, run: RunFolder) -> None:
        for path in (run.summary, run.environment):
            path.write_text(json.dumps(self.into(json.loads(path.read_text()))))
        samples = run.samples.read_text()
        run.samples.write_text(samples.replace("node0", self.next().replace(",", "")))


@pytest.fixture
def page(tmp_path: Path) -> Path:
    shutil.copytree(RUNS, tmp_path / "runs")
    poison = Poison()
    for run in find_runs(tmp_path / "runs"):
        poison.into_run(run)
    own = find_runs(tmp_path / "runs")[2]
    document = json.loads(own.summary.read_text())
    document["spec"]["strategy"] = f"{POISONS[0]}.py"  # a file of the user's own
    own.summary.write_text(json.dumps(document))
    failed = find_runs(tmp_path / "runs")[0]
    document = json.loads(failed.summary.read_text())
    failed.summary.write_text(json.dumps(document | {"status": "failed", "error": POISONS[1]}))
    damaged = find_runs(tmp_path / "runs")[1]
    damaged.environment.write_text(json.dumps({"schema": 2, "command": POISONS[2]}))
    assert main([str(tmp_path / "runs"), "--output", str(tmp_path / "report")]) == 0
    return tmp_path / "report" / "report.html"


def test_no_script_of_a_run_is_executed_and_nothing_is_requested(page: Path) -> None:
    with chromium() as browser:
        browser.open(page)
        browser.run(LOOK_AT_ALL)
        assert browser.run("typeof window.poisoned") == "undefined"
        shown = browser.run("document.body.textContent")
        assert shown.count("window.poisoned=1") > len(POISONS)
        assert browser.run(f"[...document.querySelectorAll('*')].filter({ACTIVE}).length") == 0
        assert browser.run("getComputedStyle(document.body).display") == "block"
        saved = browser.run(SAVE_ALL)
        assert len(saved) > 10
        assert [text for text in saved if POISON_IN_PICTURE.search(text)] == []
        assert "window.poisoned=1" in "".join(saved)  # as text
        assert browser.run("typeof window.poisoned") == "undefined"
        assert browser.errors == []
        assert browser.requests == [page.as_uri()]
