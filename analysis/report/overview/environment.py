"""What the runs were made with: machine, kernel, versions."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pandas as pd

from analysis.report.context import Report
from analysis.report.page import Column, Row, Section, Table
from cluster.observe.units import bytes_text
from cluster.spec.run_folder import RunFolder

COLUMNS = [
    Column("session", "session", style="left"),
    Column("runs", "runs"),
    Column("engine", "engine", style="word"),
    Column("machine", "machine", style="word"),
    Column("cores", "cores"),
    Column("memory", "memory", bytes_text),
    Column("kernel", "kernel", style="word"),
    Column("Python", "python", style="word"),
    Column("torch", "torch", style="word"),
    Column("commit", "commit", style="word"),
]


def section(report: Report) -> Section | None:
    rows: dict[str, Row] = {}
    for number, run in report.runs.table.iterrows():
        session = str(run["session"])
        found = _read(report.runs.folders[int(str(number))])
        if session in rows:
            rows[session]["runs"] += 1
        elif found:
            rows[session] = {"session": session, "runs": 1, **_row(found)}
    if not rows:
        return None
    found_rows = list(rows.values())
    tables = {"environment": pd.DataFrame(found_rows)}
    return Section("environment", "Environment", [Table(found_rows, COLUMNS)], tables=tables)


def _row(found: dict[str, Any]) -> Row:
    """Whatever a run wrote down; not all engines know everything."""
    engine = found.get("engine")
    numbers = {
        name: value if isinstance(value := found.get(name), int) else None
        for name in ("cores", "memory_bytes")
    }
    packages = found.get("packages")
    command = found.get("command")
    return {
        "session_note": shlex.join(map(str, command)) if isinstance(command, list) else None,
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
