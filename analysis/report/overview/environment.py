"""What the runs were made with: machine, kernel, versions."""

import shlex

import pandas as pd

from analysis.report.context import Report
from analysis.report.page import Column, Row, Section, Table
from cluster.observe.units import bytes_text
from cluster.spec.documents.environment import Environment

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
    counts = report.runs.table["session"].value_counts()
    rows: list[Row] = [
        {"session": session, "runs": int(counts[session]), **_row(found)}
        for session, found in report.environments.items()
    ]
    if not rows:
        return None
    tables = {"environment": pd.DataFrame(rows)}
    return Section("environment", "Environment", [Table(rows, COLUMNS)], tables=tables)


def _row(found: Environment) -> Row:
    return {
        "session_note": shlex.join(found.command),
        "engine": found.engine.get("name"),
        "machine": found.cpu,
        "system": found.system,
        "cores": found.cores,
        "memory": found.memory_bytes,
        "kernel": found.kernel,
        "python": found.python,
        "torch": found.packages.get("torch"),
        "commit": found.commit,
    }
