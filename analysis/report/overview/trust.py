"""How far to trust the numbers: counters against each other and theory, links against targets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from analysis.report.context import Report
from analysis.report.figures import axis, points, rounded
from analysis.report.page import Block, Chart, Column, Details, Row, Section, Table
from cluster.observe.units import bytes_text, four_digits, percent_text, percents

COUNTERS_AGREE = 0.01
THEORY_AGREES, SMALL_AGREES, SMALL_BYTES = 0.02, 0.03, 10**6
LINKS_AGREE = 0.03
AGREES = "agrees"
NOT_OVER_ETH0 = "not over eth0"
"""GPUs of one host exchange over NVLink or PCIe; eth0 sees next to nothing."""

COLUMNS = [
    Column("run", "label", style="left"),
    Column("verdict", "verdict", style="word"),
    Column("worker's own counter", "counter_worker_bytes", bytes_text),
    Column("kernel", "kernel_off", percents(3, signed=True)),
    Column("Docker", "docker_off", percents(3, signed=True)),
    Column("received / sent", "received_over_sent", "{:.5f}".format),
    Column("sent / predicted", "sent_over_predicted", "{:.4f}".format),
    Column("retransmitted by TCP", "retransmitted_share", percents()),
]
LINKS = [
    Column("run", "label", style="left"),
    Column("node", "node", style="word"),
    Column("target (Mbit/s)", "target_mbit", four_digits),
    Column("sent (Mbit/s)", "sent_mbit", four_digits),
    Column("received (Mbit/s)", "received_mbit", four_digits),
    Column("error", "error", percents(signed=True)),
]
NOTE = (
    f"Criteria: counters within {percent_text(COUNTERS_AGREE, 0)} of each other; received within"
    f" {percent_text(COUNTERS_AGREE, 0)} of sent; payload within {percent_text(THEORY_AGREES, 0)}"
    f" of theory and framing ({percent_text(SMALL_AGREES, 0)} for models under 1 MB), without what"
    " TCP retransmitted; links within"
    f" {percent_text(LINKS_AGREE, 0)} of their target rate, measured with real TCP before training."
    " The worker reads its own interface at every phase boundary. The host reads the kernel's"
    " counters: in Docker containers of the same interface, so that agreement shows that no byte"
    " was missed, not that the count is right; with network namespaces of the switch's ports, which"
    " count by themselves. Docker's API reads the same interface, too. Framing is what"
    " the communication library adds to its messages; Horovod's and NCCL's is not predicted, and"
    " neither is Gloo's in runs recorded before 2026-11-18."
)


def section(report: Report) -> Section | None:
    table = report.runs.completed
    table = table[[is_measured(run) for _, run in table.iterrows()]]
    if table.empty:
        return None
    rows: list[Row] = [
        {"label": report.run_names[int(str(n))], **vars(compared(run))}
        for n, run in table.iterrows()
    ]
    body: list[Block] = [_chart(rows), Table(rows, COLUMNS)]
    names = table[["session", "run"]].to_dict("records")
    tables = {"trust": pd.DataFrame([name | row for name, row in zip(names, rows, strict=True)])}
    links = report.runs.links
    links = links[links["number"].isin(table.index)]
    if not links.empty:
        entries: list[Row] = [
            {
                "label": report.run_names[int(link["number"])],
                "strategy": table.loc[link["number"], "strategy"],
                **{column.key: link[column.key] for column in LINKS[1:]},
            }
            for _, link in links.iterrows()
        ]
        worst = percent_text(float(links["error"].abs().max()))
        summary = f"Links: {len(links)} verified before training, largest error {worst}"
        body.append(Details(summary, [Table(entries, LINKS)]))
        tables["links"] = pd.DataFrame(entries)
    return Section("trust", "Agreement of counters, theory and links", body, NOTE, tables)


def is_measured(run: pd.Series[Any]) -> bool:
    """Something was sent, and counted."""
    return not pd.isna(run["counter_worker_bytes"]) and run["counter_worker_bytes"] > 0


@dataclass(frozen=True)
class Compared:
    """The ratios that a measured run is judged by, and the verdict."""

    verdict: str
    strategy: str
    counter_worker_bytes: int
    kernel_off: float | None
    docker_off: float | None
    received_over_sent: float | None
    sent_over_predicted: float | None
    retransmitted_share: float | None


def compared(run: pd.Series[Any]) -> Compared:
    own = run["counter_worker_bytes"]
    kernel, docker = (_share(run[f"counter_{kind}_bytes"], own) for kind in ("kernel", "docker"))
    found = Compared(
        verdict=AGREES,
        strategy=str(run["strategy"]),
        counter_worker_bytes=int(own),
        kernel_off=None if kernel is None else kernel - 1,
        docker_off=None if docker is None else docker - 1,
        received_over_sent=_share(run["train_received_bytes"], run["train_sent_bytes"]),
        sent_over_predicted=_share(run["sent_over_predicted"], 1),
        retransmitted_share=_share(run["retransmitted_per_step_bytes"], run["sent_per_step_bytes"]),
    )
    on_gpus = pd.notna(run["gpu"]) and bool(run["gpu"])
    if on_gpus and found.sent_over_predicted is None:
        return replace(found, verdict=NOT_OVER_ETH0)
    model_bytes = 0 if pd.isna(run["model_bytes"]) else int(run["model_bytes"])
    return replace(found, verdict=", ".join(_failed(found, model_bytes)) or AGREES)


def _share(part: Any, whole: Any) -> float | None:
    return None if pd.isna(part) or pd.isna(whole) or not whole else float(part) / float(whole)


def _failed(found: Compared, model_bytes: int) -> Iterator[str]:
    """The criteria that a run does not meet."""
    off = [abs(value) for value in (found.kernel_off, found.docker_off) if value is not None]
    if off and max(off) > COUNTERS_AGREE:
        yield "counters differ"
    arrived = found.received_over_sent
    if arrived is None or abs(arrived - 1) > COUNTERS_AGREE:
        yield "received differs from sent"
    allowed = SMALL_AGREES if model_bytes < SMALL_BYTES else THEORY_AGREES
    ratio = found.sent_over_predicted
    if ratio is not None:
        sent_once = ratio - (found.retransmitted_share or 0) * ratio
        if abs(sent_once - 1) > allowed:
            yield "sent differs from theory"


def _chart(rows: list[Row]) -> Chart:
    def numbers(members: Any) -> list[str]:
        return [row["label"].partition("\u2002")[0] for row in members]

    traces = points(
        rows,
        numbers,
        lambda members: rounded(row["sent_over_predicted"] for row in members),
        lambda row: f"{row['sent_over_predicted'] or 0:.4f}",
    )
    order = {"categoryorder": "array", "categoryarray": numbers(rows)}
    x, y = axis("run", type="category", **order), axis("sent / predicted", tickformat=".3f")
    title = "Measured over predicted bytes of each run"
    return Chart(traces, 320, x, y, name="measured-over-predicted", title=title)
