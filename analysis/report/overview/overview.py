"""The first screen: the answers, and one row per configuration with its seeds folded inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.report.accuracy.curves import curve, reached, target_text
from analysis.report.context import Report
from analysis.report.overview.answers import answers
from analysis.report.page import Answers, Column, Details, Row, Section, Table
from analysis.tables.configurations import Configuration
from analysis.tables.labels import scored_on
from analysis.tables.noise import scores
from analysis.tables.score import BITS, score_of
from cluster.observe.units import bytes_text, percents, seconds_text
from cluster.spec.documents.records import HEADER_BYTES

MEANS = (
    *("accuracy", "train_payload_bytes", "step_median_s", "train_s", "sent_over_predicted"),
    *("compute_median_s", "exposed_communication_median_s"),
)
MOST_ROWS = 14
"""More are folded: the answers are above them."""
NOTE = (
    "Mean ± standard deviation over seeds; a click shows each seed. Accuracy: of the average of all"
    " workers' models, {scored_on}. Payload: what all interfaces counted in training less"
    f" {HEADER_BYTES} bytes of headers per packet. Step: median; training: all of its"
    " steps. Share of communication: exposed communication over the step. Sent / predicted: payload"
    " over the bytes of the strategy's message schedule. Numbers in grey italics are times of a"
    " contended host: nodes waited for cores, or equal computing took unequal times, so they allow"
    " no conclusion (docs/time.md)."
)


def problem(run: pd.Series[Any]) -> str:
    """Empty for a completed run; else its status and the error."""
    if run["status"] == "completed":
        return ""
    return str(run["status"]) + ("" if pd.isna(run["error"]) else f": {run['error']}")


def section(report: Report) -> Section:
    return Section("answers", "Answers", [Answers(answers(report))])


def results(report: Report) -> Section | None:
    """One row per configuration."""
    targets = _targets(report)
    rows = [_row(report, config, targets.get(config.task)) for config in report.configurations]
    if not rows:
        return None
    table = Table(rows, _columns(report, targets), folds=True, name="results")
    many = len(rows) > MOST_ROWS
    body = [Details(f"All {len(rows)} configurations", [table]) if many else table]
    frame = pd.DataFrame(rows).drop(columns=["by_seed", "contended"], errors="ignore")
    note = NOTE.format(scored_on=scored_on(report.runs.table))
    return Section("results", "Results", body, note, {"results": frame})


def _columns(report: Report, targets: Mapping[str, float | None]) -> list[Column]:
    known = {target for target in targets.values() if target}
    judged_by = {score_of(config.row) for config in report.configurations}
    one = len(known) == 1 and len(judged_by) == 1
    aim = target_text(known.pop(), *judged_by) if one else "the target"
    bits = (
        [
            Column("test loss", "loss", "{:.4f}".format),
            Column(BITS.name, "bits", "{:.3f}".format),
            Column("perplexity of a byte", "perplexity", "{:.4g}".format),
        ]
        if BITS in judged_by
        else []
    )
    return [
        Column("configuration", "configuration", style="left"),
        Column("accuracy", "accuracy", percents()),
        *bits,
        Column("payload sent, all nodes", "train_payload_bytes", bytes_text),
        Column(f"payload to {aim}".replace(" %", "\u00a0%"), "to_target_bytes", bytes_text),
        Column("payload, all nodes (predicted)", "predicted_payload_bytes", bytes_text),
        Column("median step", "step_median_s", seconds_text),
        Column("step (simulated)", "predicted_step_s", seconds_text),
        Column("share of communication", "share", percents(0), from_times=True),
        Column("training", "train_s", seconds_text),
        Column("sent / predicted", "sent_over_predicted", "{:.3f}".format),
    ]


def _targets(report: Report) -> dict[str, float | None]:
    """By task; None at chance level."""
    return {task: report.target_of(members) for task, members in report.tasks.items()}


def _row(report: Report, configuration: Configuration, target: float | None) -> Row:
    row: Row = {
        "configuration": configuration.label,
        "strategy": configuration.strategy,
        "contended": report.is_contended(configuration),
        **configuration.means(MEANS),
    }
    row["share"] = _share(row)
    if configuration.is_virtual:
        points = curve(report.runs, configuration)
        row["predicted_payload_bytes"] = points[-1].payload_bytes if points else None
        row["predicted_step_s"] = configuration.median("predicted_step_s")
    if score_of(configuration.row) is BITS:
        for bits in scores([configuration], BITS):
            row |= {"bits": bits.mean, "bits_sd": bits.sd, "accuracy": None}
            row |= {"perplexity": 2**bits.mean, "loss": bits.mean / BITS.factor}
    if target:
        got = reached(report.runs, configuration, target)
        row["to_target_bytes"] = got.payload_bytes
        row["to_target_bytes_sd"] = got.payload_bytes_sd
        if got.seeds < got.of:
            some = f"{got.seeds} of {got.of} runs reached it"
            row["to_target_bytes_note"] = some if got.seeds else "not reached"
    if len(configuration.numbers) > 1:
        row["by_seed"] = [
            {**run.to_dict(), "configuration": f"seed {run['seed']}", "share": _share(run)}
            | {"contended": row["contended"]}
            for _, run in configuration.runs.iterrows()
        ]
    return row


def _share(row: Any) -> float | None:
    exposed, step = row["exposed_communication_median_s"], row["step_median_s"]
    return None if pd.isna(exposed) or pd.isna(step) or not step else exposed / step
