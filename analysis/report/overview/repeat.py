"""What the runs were made with, and the command that repeats each."""

from __future__ import annotations

import json
import shlex
from html import escape
from typing import Any

import pandas as pd

from analysis.report.context import Report
from analysis.report.overview.command import command
from analysis.report.overview.overview import labels_of
from analysis.report.page import Column, Section, details, table_html
from cluster.observe.units import bytes_text
from cluster.spec.run_folder import RunFolder
from cluster.spec.strategies import STRATEGIES

ENVIRONMENT = [
    Column("session", "session", left=True),
    Column("runs", "runs"),
    Column("engine", "engine", word=True),
    Column("machine", "machine", word=True),
    Column("cores", "cores"),
    Column("memory", "memory", bytes_text),
    Column("kernel", "kernel", word=True),
    Column("Python", "python", word=True),
    Column("torch", "torch", word=True),
    Column("commit", "commit", word=True),
]

STYLE = """
@media screen { #environment ~ .scroll td.left { min-width: 24rem } }
"""


def environment(report: Report) -> Section | None:
    rows: dict[str, dict[str, Any]] = {}
    for number, run in report.runs.table.iterrows():
        session = str(run["session"])
        found = _read(report.runs.folders[int(str(number))])
        if session in rows:
            rows[session]["runs"] += 1
        elif found:
            rows[session] = {"session": session, "runs": 1, **_environment(found)}
    if not rows:
        return None
    body = table_html(list(rows.values()), ENVIRONMENT)
    frame = pd.DataFrame(rows.values())
    return Section(
        "environment",
        "What it was measured with",
        body,
        style=STYLE,
        tables={"environment": frame},
    )


def _environment(found: dict[str, Any]) -> dict[str, Any]:
    """Whatever a run wrote down; not all engines know everything."""
    engine = found.get("engine")
    numbers = {
        name: value if isinstance(value := found.get(name), int) else None
        for name in ("cores", "memory_bytes")
    }
    packages = found.get("packages")
    asked = found.get("command")
    return {
        "session_note": shlex.join(map(str, asked)) if isinstance(asked, list) else None,
        "engine": engine.get("name") if isinstance(engine, dict) else engine,
        "machine": found.get("cpu"),
        "system": found.get("system"),
        "cores": numbers["cores"],
        "memory": numbers["memory_bytes"],
        "kernel": found.get("kernel"),
        "python": found.get("python"),
        "torch": packages.get("torch") if isinstance(packages, dict) else None,
        "commit": found.get("commit"),
    }


def _read(folder: RunFolder) -> dict[str, Any]:
    try:
        document = json.loads(folder.environment.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def commands(report: Report) -> Section | None:
    labels = labels_of(report.runs.table)
    rows, written = [], []
    for number, run in report.runs.table.iterrows():
        spec = _spec(report.runs.folders[int(str(number))])
        if spec is not None:
            text = command(spec)
            rows.append((f"{number}  {labels[number]}", text, str(run["strategy"])))
            written.append((run["session"], run["run"], rows[-1][0], text))
    if not rows:
        return None
    lines = "\n".join(
        f'<tr data-strategy="{escape(strategy)}"><td class="left">{escape(label)}</td>'
        f'<td class="left"><code>{escape(text)}</code></td></tr>'
        for label, text, strategy in rows
    )
    table = f'<div class="scroll"><table>\n<thead><tr><th class="left">run</th><th class="left">type</th></tr></thead>\n<tbody>{lines}</tbody>\n</table></div>'
    frame = pd.DataFrame(written, columns=["session", "run", "label", "command"])
    return Section(
        "repeat",
        "How to repeat each run",
        details(f"{len(rows)} commands", table),
        "The same spec and seed give the same accuracy. With Docker, a run's folder also holds the compose.yml.",
        tables={"commands": frame},
    )


def _spec(folder: RunFolder) -> dict[str, Any] | None:
    try:
        spec = json.loads(folder.spec.read_text())
    except (OSError, ValueError, RecursionError):
        return None
    return spec if isinstance(spec, dict) and spec.get("strategy") in STRATEGIES else None
