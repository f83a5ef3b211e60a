"""The traffic matrix of all configurations side by side, measured and from theory."""

import pandas as pd

from analysis.report import page
from analysis.report.context import Report
from analysis.report.figures import BYTES
from analysis.report.traffic import matrix
from analysis.tables.configurations import Configuration
from analysis.tables.load import Runs
from cluster.observe.units import bytes_text

MOST_PANELS = 12
"""More are folded."""
NOTE = (
    "Payload of a round; rows send, columns receive. Nodes of a site stand together. Auxiliary"
    " services (Spark's master and driver) do not train and are in no other figure. The busiest"
    " node: what its interface counted in training, headers included."
    " Measured: every worker reads the bytes of each of its TCP connections from the kernel"
    " (TCP_INFO) at the beginning and end of training; this includes the library's framing, but"
    " neither headers nor retransmitted bytes. Control traffic coordinates a launcher's workers"
    " (Horovod, every millisecond); it is estimated and subtracted from the measured matrix. All"
    " nodes of all runs are in tables/nodes.csv, all pairs in tables/pairs.csv."
)
NOT_OVER_ETH0 = (
    "Not shown: GPUs of one host exchange over NVLink, PCIe or host memory, and eth0 carries only"
    " rendezvous and synchronisation (see the section on GPUs). This applies to"
)
COLUMNS = [
    page.Column("configuration", "configuration", style="left"),
    page.Column("busiest node", "node", style="word"),
    page.Column("sent by it", "train_sent_bytes", bytes_text),
    page.Column("received by it", "train_received_bytes", bytes_text),
    page.Column("sent, mean of workers", "mean_bytes", bytes_text),
    page.Column("busiest / mean", "ratio", "{:.2f}".format),
    page.Column("sent by auxiliary services", "auxiliary_bytes", bytes_text),
    page.Column("control traffic per worker", "control_bytes", bytes_text),
    page.Column("control traffic per second", "control_rate", bytes_text),
]


def section(report: Report) -> page.Section | None:
    runs = report.runs
    sent = [
        config for config in report.configurations if _nodes(runs, config)["train_sent_bytes"].sum()
    ]
    if not sent:
        return None
    unseen = [config for config in sent if pd.isna(config.row["train_sent_bytes"])]
    shown = [config for config in sent if config not in unseen]
    names = "; ".join(config.label for config in unseen)
    body: list[page.Block] = page.texts(f"{NOT_OVER_ETH0} {names}.") if unseen else []
    tables = {}
    if shown:
        body += _by_pair(runs, shown)
        rows = [_busiest(config, _nodes(runs, config)) for config in shown]
        body.append(page.Details("Busiest node of each configuration", [page.Table(rows, COLUMNS)]))
        tables = {"nodes": runs.named(runs.traffic)}
        if not runs.pairs.empty:
            tables["pairs"] = runs.named(runs.pairs)
    return page.Section("traffic", "Traffic matrix", body, NOTE, tables)


def _by_pair(runs: Runs, shown: list[Configuration]) -> list[page.Block]:
    """Heat maps side by side, those that were measured first; then how far they agree."""
    pairs = [(config, matrix.measured(runs, config)) for config in shown]
    known = [(config, found) for config, found in pairs if found is not None]
    pairs.sort(key=lambda pair: pair[1] is None)
    panels = [panel for pair in pairs if (panel := matrix.panel(*pair)) is not None]
    body: list[page.Block] = _heat_maps(panels[:MOST_PANELS])
    if len(panels) > MOST_PANELS:
        rest = panels[MOST_PANELS:]
        more = f"{len(rest)} more configuration{'' if len(rest) == 1 else 's'}"
        body.append(page.Details(more, _heat_maps(rest)))
    if panels and len(known) < len(shown):
        body += page.texts(_unmeasured(len(shown) - len(known), len(shown)))
    between = [row for pair in pairs for row in matrix.between_sites(*pair)]
    if between:
        body.append(page.Details("Bytes between sites", [page.Table(between, matrix.SITE_COLUMNS)]))
    if known:
        rows = [matrix.table_row(config, found) for config, found in known]
        summary = f"Pairs, measured and theory: {len(rows)} of {len(shown)} configurations"
        findings = page.Bullets(matrix.findings([found for _, found in known]))
        body.append(page.Details(summary, [findings, page.Table(rows, matrix.COLUMNS)]))
    return body


def _heat_maps(panels: list[matrix.Panel]) -> list[page.Block]:
    if not panels:
        return []
    most = max(float(panel.values.max()) for panel in panels)
    unit = max((size for size in BYTES if size <= most), default=1.0)
    values = {"panels": panels, "most": most, "bytes": bytes_text, "unit": unit}
    return [page.Fragment("traffic_matrix.html", values | {"unit_name": BYTES[unit]})]


def _unmeasured(missing: int, shown: int) -> str:
    which = "these runs" if missing == shown else f"{missing} of {shown} configurations"
    return (
        f"Theory only for {which}: bytes per connection were not counted (an older gradwire, or a"
        " kernel before Linux 4.19), or the two ends of connections could not be matched."
    )


def _nodes(runs: Runs, configuration: Configuration) -> pd.DataFrame:
    """Of its first run: all seeds send the same."""
    traffic = runs.traffic
    return traffic[traffic["number"] == configuration.numbers[0]]


def _busiest(configuration: Configuration, nodes: pd.DataFrame) -> page.Row:
    exchanging = nodes[nodes["rank"].notna()]
    busy = exchanging[["train_sent_bytes", "train_received_bytes"]].max(axis=1)
    top = exchanging.iloc[int(busy.astype(float).to_numpy().argmax())]
    workers = exchanging[exchanging["role"] == "worker"]["train_sent_bytes"]
    mean = float(workers.astype(float).mean())
    auxiliary = nodes[nodes["rank"].isna()]["train_sent_bytes"]
    return {
        "configuration": configuration.label,
        "strategy": configuration.strategy,
        "node": f"{top['node']} ({top['role']})",
        "train_sent_bytes": int(top["train_sent_bytes"]),
        "train_received_bytes": int(top["train_received_bytes"]),
        "mean_bytes": mean,
        "ratio": float(busy.max()) / mean if mean else None,
        "auxiliary_bytes": None if auxiliary.empty else int(auxiliary.sum()),
        "control_bytes": configuration.row["control_sent_bytes"],
        "control_rate": configuration.row["control_bytes_per_second"],
    }
