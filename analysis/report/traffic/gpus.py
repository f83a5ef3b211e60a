"""GPUs: utilisation, memory, and bytes over NVLink and PCIe; only for runs that used GPUs."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.report.context import Report
from analysis.report.page import Column, Row, Section, Table, texts
from cluster.observe.units import bytes_text, percents

COLUMNS = [
    Column("run", "label", style="left"),
    Column("node", "node", style="word"),
    Column("GPU", "gpu"),
    Column("utilisation", "utilisation_mean", percents(0)),
    Column("memory, maximum", "memory_max_bytes", bytes_text),
    Column("NVLink sent", "nvlink_sent_bytes", bytes_text),
    Column("NVLink received", "nvlink_received_bytes", bytes_text),
    Column("PCIe sent", "pcie_sent_bytes", bytes_text),
    Column("PCIe received", "pcie_received_bytes", bytes_text),
    Column("eth0 sent", "train_sent_bytes", bytes_text),
]
TITLE = "GPUs: NVLink and PCIe"
UNREAD = "GPU counters were not read: no NVIDIA driver answered the collector."
NOTE = (
    "Over the training phase, as the NVIDIA driver counts (NVML). GPUs of one host do not exchange"
    " over eth0: NCCL uses NVLink where available, else PCIe or host memory, and eth0 carries only"
    " rendezvous and synchronisation. Where less than half of the predicted bytes crossed eth0,"
    " eth0 is not compared with theory; compare the prediction with NVLink, or with PCIe, which"
    " also carries every batch from host to GPU. A missing or empty column is not counted by the"
    " driver; PCIe bytes are then estimated: the mean of rates over 20 ms, read a few times a"
    " second, times the duration."
)


def section(report: Report) -> Section | None:
    gpus = report.runs.gpus
    if gpus.empty:
        on_gpus = (report.runs.table["gpu"].fillna(0) > 0).any()
        return Section("gpus", TITLE, texts(UNREAD), NOTE) if on_gpus else None
    rows = [_row(report, gpu) for _, gpu in gpus.iterrows()]
    return Section("gpus", TITLE, [Table(rows, COLUMNS)], NOTE, {"gpus": pd.DataFrame(rows)})


def _row(report: Report, gpu: pd.Series[Any]) -> Row:
    number, node = gpu["number"], gpu["node"]
    traffic = report.runs.traffic
    own = traffic[(traffic["number"] == number) & (traffic["node"] == node)]["train_sent_bytes"]
    values = {
        name: None if pd.isna(gpu[name]) else gpu[name] for name in gpu.index if name != "number"
    }
    notes = {
        f"pcie_{way}_bytes_note": "estimated"
        for way in ("sent", "received")
        if gpu["pcie_estimated"]
    }
    return {
        "label": report.run_names[int(number)],
        "strategy": report.runs.table.loc[number, "strategy"],
        **values,
        **notes,
        "train_sent_bytes": None if own.empty or pd.isna(own.iloc[0]) else int(own.iloc[0]),
    }
