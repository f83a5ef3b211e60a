"""What the GPUs did, and which way their bytes went; only where a run had some."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.report.context import Report
from analysis.report.overview.overview import labels_of
from analysis.report.page import Column, Section, table_html
from cluster.observe.units import bytes_text

COLUMNS = [
    Column("run", "label", left=True),
    Column("node", "node", word=True),
    Column("GPU", "gpu"),
    Column("busy", "utilisation_mean", "{:.0%}".format),
    Column("memory, at most", "memory_max_bytes", bytes_text),
    Column("sent over NVLink", "nvlink_sent_bytes", bytes_text),
    Column("received", "nvlink_received_bytes", bytes_text),
    Column("sent over PCIe", "pcie_sent_bytes", bytes_text),
    Column("received", "pcie_received_bytes", bytes_text),
    Column("sent over eth0", "train_sent_bytes", bytes_text),
]
TITLE = "GPUs: NVLink and PCIe instead of eth0"
UNREAD = "<p>Nobody could read what the GPUs did: no NVIDIA driver answered the collector.</p>"
NOTE = (
    "All over the training phase, as the NVIDIA driver counts it (NVML). What GPUs of one host exchange does not cross"
    " eth0: NCCL takes NVLink where there is one, else PCIe or the host's memory, and eth0 carries only how the workers"
    " found each other and wait for each other. Where less than half of what theory predicts crossed eth0, it is not held"
    " against theory; compare the prediction with NVLink instead, or with PCIe, which also carries every batch from the"
    " host to the GPU."
    " A column that is missing or empty is one that the driver does not count. PCIe bytes that it does not count are"
    " estimated: the mean of rates over 20 ms, read a few times a second, times the time."
)


def section(report: Report) -> Section | None:
    gpus = report.runs.gpus
    if gpus.empty:
        on_gpus = (report.runs.table["gpu"].fillna(0) > 0).any()
        return Section("gpus", TITLE, UNREAD, NOTE) if on_gpus else None
    labels = labels_of(report.runs.table)
    rows = [_row(report, one, labels) for _, one in gpus.iterrows()]
    return Section(
        "gpus",
        TITLE,
        table_html(rows, COLUMNS),
        NOTE,
        tables={"gpus": pd.DataFrame(rows)},
    )


def _row(report: Report, gpu: pd.Series[Any], labels: Any) -> dict[str, Any]:
    number, node = gpu["number"], gpu["node"]
    traffic = report.runs.traffic
    own = traffic[(traffic["number"] == number) & (traffic["node"] == node)]["train_sent_bytes"]
    values = {
        name: None if pd.isna(gpu[name]) else gpu[name] for name in gpu.index if name != "number"
    }
    small_print = {
        f"pcie_{way}_bytes_note": "estimated"
        for way in ("sent", "received")
        if gpu["pcie_estimated"]
    }
    return {
        "label": f"{number}\u2002{labels[number]}",
        "strategy": report.runs.table.loc[number, "strategy"],
        **values,
        **small_print,
        "train_sent_bytes": None if own.empty or pd.isna(own.iloc[0]) else int(own.iloc[0]),
    }
