"""Traffic by node, and the traffic matrix: measured, and from theory."""

import pandas as pd

from analysis.report import page
from analysis.report.context import Report
from analysis.report.figures import PALETTE, axis, bytes_scale, hover
from analysis.report.traffic import matrix
from analysis.tables.configurations import Configuration
from analysis.tables.load import Runs
from cluster.observe.units import bytes_text

SENT, RECEIVED = PALETTE[:2]
NOTE = (
    "Bars: what each interface counted in training, headers included. Auxiliary services (Spark's"
    " master and driver) do not train: their bytes are in no other figure. The traffic matrix is"
    " the payload of a round; rows add up to what a node sends, columns to what it receives."
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
        rows = [_busiest(config, _nodes(runs, config)) for config in shown]
        bars = {config.label: _bars(_nodes(runs, config)) for config in shown}
        title = "Sent and received in training, by node"
        body += [page.Table(rows, COLUMNS), page.Choice("bytes-by-node", title, "run", bars)]
        body += _by_pair(runs, shown)
        tables = {"nodes": runs.named(runs.traffic)}
        if not runs.pairs.empty:
            tables["pairs"] = runs.named(runs.pairs)
    return page.Section("by-node", "Traffic by node, traffic matrix", body, NOTE, tables)


def _by_pair(runs: Runs, shown: list[Configuration]) -> list[page.Block]:
    """Measured configurations come first, so that the figure opens with one of them."""
    pairs = [(config, matrix.measured(runs, config)) for config in shown]
    known = [(config, found) for config, found in pairs if found is not None]
    drawn: dict[str, page.Chart] = {}
    for config, found in sorted(pairs, key=lambda pair: pair[1] is None):
        chart = matrix.chart(config, found)
        if chart is not None:
            drawn[config.label + (" (theory only)" if known and found is None else "")] = chart
    body: list[page.Block] = []
    if known:
        rows = [matrix.table_row(config, found) for config, found in known]
        summary = f"Pairs, measured and theory: {len(rows)} of {len(shown)} configurations"
        body.append(page.Bullets(matrix.findings([found for _, found in known])))
        body.append(page.Details(summary, [page.Table(rows, matrix.COLUMNS)]))
    if drawn:
        if len(known) < len(shown):
            body += page.texts(_unmeasured(len(shown) - len(known), len(shown)))
        sources = "theory and measured" if known else "from theory"
        title = f"Traffic matrix: payload of a round, {sources}"
        body.append(page.Choice("traffic-matrix", title, "run", drawn))
    return body


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


def _bars(nodes: pd.DataFrame) -> page.Chart:
    names = [str(name) for name in nodes["node"]]
    values = {way: [int(v) for v in nodes[f"train_{way}_bytes"]] for way in ("sent", "received")}
    y = bytes_scale(
        "traffic in training", [v for of in values.values() for v in of], may_be_log=False
    )
    traces = [
        {
            "type": "bar",
            "x": names,
            "y": y(values[way]),
            "customdata": [bytes_text(value, 4) for value in values[way]],
            "name": way,
            "marker": {"color": colour},
            "hovertemplate": hover("%{x} {} %{customdata}", way),
        }
        for way, colour in (("sent", SENT), ("received", RECEIVED))
    ]
    x = axis("node", type="category", showgrid=False)
    return page.Chart(traces, 330, x, y.axis, {"barmode": "group"})
