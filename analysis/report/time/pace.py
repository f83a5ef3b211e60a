"""How far each worker came where no barrier keeps them in step, beside strategies with one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from analysis.report.context import Report
from analysis.report.page import Block, Column, Details, Row, Section, Table
from analysis.report.time.bottleneck_cases import slow_ranks
from analysis.tables.columns import OPTIONS
from analysis.tables.configurations import Configuration
from cluster.observe.units import percents

SLOW = ("bottleneck", "straggler")
NOTE = (
    "Samples a second: of a worker in training, mean over the nodes that are not slow, and the same"
    " over that of the same configuration without slow nodes. With a barrier all make the same"
    " steps. Participation: exchanges over those of the worker with most. Staleness: of"
    " async-pairwise, steps that a worker made during an exchange; of async-server, rounds that it"
    " was ahead of the slowest; of quorum, merges that it missed. Who exchanges when depends on"
    " timing: two runs of one seed differ, in accuracy too."
)
COLUMNS = [
    Column("configuration", "configuration", style="left"),
    Column("samples/s of the other nodes", "others_per_s", "{:,.0f}".format, from_times=True),
    Column("of undisturbed", "of_undisturbed", percents(0), from_times=True),
    Column("their steps", "others_steps"),
    Column("steps of slow nodes", "slow_steps"),
    Column("their participation", "slow_participation"),
    Column("staleness, mean", "staleness_mean", "{:.2f}".format),
    Column("staleness, most", "staleness_max"),
    Column("accuracy", "accuracy", percents()),
]
BY_WORKER = [
    Column("configuration", "configuration", style="left"),
    Column("seed", "seed"),
    Column("node", "rank"),
    Column("steps", "steps"),
    Column("samples/s", "samples_per_s", "{:,.0f}".format, from_times=True),
    Column("exchanges", "rounds"),
    Column("rounds left out", "skipped"),
    Column("participation", "participation", percents(0)),
    Column("staleness, mean", "staleness_mean", "{:.2f}".format),
    Column("staleness, most", "staleness_max"),
]


def section(report: Report) -> Section | None:
    """Where a run has no barrier; with the other runs of its session."""
    if report.runs.progress.empty:
        return None
    unpaced = report.runs.table.loc[report.runs.progress["number"].unique()]
    sessions = set(unpaced["session"])
    shown = [c for c in report.configurations if set(c.runs["session"]) & sessions]
    rates = {config.label: _rate(report, config) for config in shown}
    usual = {_alike(config): rates[config.label] for config in shown if not _slow(config)}
    rows = [_row(report, config, rates[config.label], usual) for config in shown]
    by_worker = list(_by_worker(report, shown))
    body: list[Block] = [
        Table(rows, COLUMNS),
        Details("Every worker", [Table(by_worker, BY_WORKER)]),
    ]
    tables = {"pace": pd.DataFrame(rows), "pace_by_worker": pd.DataFrame(by_worker)}
    return Section("pace", "Every worker at its own pace", body, NOTE, tables)


def _slow(config: Configuration) -> tuple[int, ...]:
    given = (None if pd.isna(config.row[name]) else str(config.row[name]) for name in SLOW)
    return slow_ranks(*given)


def _alike(config: Configuration) -> tuple[str, ...]:
    """Equal for configurations that differ only in their slow nodes."""
    options = [name for name in OPTIONS if name not in (*SLOW, "seed")]
    return (config.strategy, *config.values(["workers", "passes", "schedule", *options]))


def _others(report: Report, config: Configuration) -> pd.DataFrame:
    progress = config.rows(report.runs.progress)
    return progress[~progress["rank"].isin(_slow(config))]


def _rate(report: Report, config: Configuration) -> float | None:
    """Samples a second of the nodes that are not slow."""
    others = _others(report, config)
    if not others.empty:
        return float(others["samples_per_s"].mean())
    steps, train_s = config.mean("steps"), config.mean("train_s")
    return None if not steps or not train_s else steps * config.row["batch_size"] / train_s


def _row(
    report: Report, config: Configuration, rate: float | None, usual: dict[Any, float | None]
) -> Row:
    progress, slow = config.rows(report.runs.progress), _slow(config)
    others, of_slow = _others(report, config), progress[progress["rank"].isin(slow)]
    undisturbed = usual.get(_alike(config)) if slow else None
    rounds = progress["rounds"].sum()
    stale = (progress["staleness_mean"] * progress["rounds"]).sum()
    return {
        "configuration": config.label,
        "strategy": config.strategy,
        "others_per_s": rate,
        "of_undisturbed": rate / undisturbed if rate and undisturbed else None,
        "others_steps": _span(others["steps"]) or str(config.row["steps"]),
        "slow_steps": _span(of_slow["steps"]) or (str(config.row["steps"]) if slow else None),
        "slow_participation": _shares(of_slow["participation"]),
        "staleness_mean": float(stale / rounds) if rounds else None,
        "staleness_max": int(progress["staleness_max"].max()) if rounds else None,
        "accuracy": config.mean("accuracy"),
        "contended": report.is_contended(config),
    }


def _span(values: Iterable[int]) -> str:
    """142 to 171"""
    known = sorted(int(value) for value in values)
    return " to ".join(dict.fromkeys(f"{end:,}" for end in (known[0], known[-1]))) if known else ""


def _shares(values: pd.Series[float]) -> str | None:
    known = values.dropna()
    if known.empty:
        return None
    return " to ".join(dict.fromkeys(percents(0)(end) for end in (known.min(), known.max())))


def _by_worker(report: Report, shown: Iterable[Configuration]) -> Iterable[Row]:
    for config in shown:
        for _, entry in config.rows(report.runs.progress).iterrows():
            known: dict[Any, Any] = {
                name: None if pd.isna(value) else value for name, value in entry.items()
            }
            number = int(known["number"])
            yield {
                "configuration": config.label,
                "strategy": config.strategy,
                "seed": int(config.runs["seed"][number]),
                "contended": number in report.contended,
                **{column.key: known[column.key] for column in BY_WORKER[2:]},
            }
