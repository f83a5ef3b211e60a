"""The N x N matrix of a configuration, theory's and the measured one beside it, and what they say."""

from __future__ import annotations

from html import escape
from typing import Any

import pandas as pd

from analysis.report.figures import axis
from analysis.report.page import Chart, Column
from analysis.report.traffic.pair_words import Beside, pair_name
from analysis.tables.configurations import Configuration
from analysis.tables.load import Runs
from analysis.theory.traffic_matrix import Matrix, matrix
from cluster.observe.units import bytes_text
from cluster.spec.message_schedules import Setting
from cluster.spec.strategies import facts_of

MOST_NODES = 48
"""A larger matrix is not drawn: its squares would be smaller than a finger."""
ADDS_UP = 0.01
"""Theory's matrix must be what was predicted, but for this; buffers of a run that did not say their size are missing."""
COLOURS = [[0, "rgba(217,115,13,.05)"], [0.02, "rgba(217,115,13,.2)"], [1, "rgba(217,115,13,1)"]]
"""What is next to nothing looks so."""

COUNTED = (
    *("pairs_interface_payload_bytes", "pairs_interface_header_bytes"),
    "pairs_closed_connections",
)
COLUMNS = [
    Column("configuration", "configuration", left=True),
    Column("busiest pair", "pair", word=True),
    Column("it carried", "bytes", bytes_text),
    Column("over theory", "ratio", "{:.4f}".format),
    Column("furthest from theory", "furthest", word=True),
    Column("over theory", "furthest_ratio", "{:.4f}".format),
    Column("pairs without traffic in theory, at most", "beside", "{:.2%}".format),
    Column("all pairs / interfaces' payload sent once", "whole", "{:.4f}".format),
    Column("headers / payload", "headers", "{:.1%}".format),
]

MISSING = 0.5
"""Of what the interfaces counted: pairs that carried less are no account of it, most ends did not find each other."""


def measured(runs: Runs, one: Configuration) -> Beside | None:
    """Its first run whose connections were counted; its seeds send alike."""
    for number in one.numbers:
        pairs = runs.pairs[runs.pairs["number"] == number]
        run: dict[str, Any] = runs.table.loc[number].to_dict()  # type: ignore[assignment]
        if not pairs["predicted_bytes"].sum() or any(pd.isna(run[name]) for name in COUNTED):
            continue
        if pairs["sent_bytes"].sum() <= MISSING * run["pairs_interface_payload_bytes"]:
            continue
        nodes = int(one.row["workers"]) + facts_of(one.strategy).has_server
        return Beside(
            one.label,
            _square(pairs, (pairs["sent_bytes"] - pairs["control_bytes"]).clip(lower=0), nodes),
            _square(pairs, pairs["predicted_bytes"], nodes),
            counted=int(pairs["sent_bytes"].sum()),
            differ=int((pairs["sent_bytes"] - pairs["received_bytes"]).abs().max()),
            payload=int(run["pairs_interface_payload_bytes"]),
            headers=int(run["pairs_interface_header_bytes"]),
            closed=int(run["pairs_closed_connections"]),
            talked=bool(pairs["control_bytes"].any()),
        )
    return None


def _square(pairs: pd.DataFrame, values: pd.Series[Any], nodes: int) -> Matrix:
    at = dict(zip(zip(pairs["sender"], pairs["receiver"], strict=True), values, strict=True))
    return [[float(at.get((i, j), 0)) for j in range(nodes)] for i in range(nodes)]


def table_row(one: Configuration, found: Beside) -> dict[str, Any]:
    i, j = found.busiest
    return {
        "configuration": one.label,
        "strategy": one.strategy,
        "pair": pair_name(found.busiest),
        "bytes": found.measured[i][j],
        "ratio": found.ratio(found.busiest) if found.predicted[i][j] else None,
        "furthest": pair_name(found.furthest),
        "furthest_ratio": found.ratio(found.furthest),
        "beside": found.beside,
        "whole": found.counted / found.payload,
        "headers": found.headers / found.payload,
    }


def chart(one: Configuration, found: Beside | None) -> Chart | None:
    """Bytes of a round; theory alone where nobody counted, and nothing where that does not add up."""
    theory = _theory(one) if found is None else _per_round(one, found.predicted)
    if theory is None or len(theory) > MOST_NODES:
        return None
    maps = {"theory": theory}
    if found is not None:
        maps["measured"] = _per_round(one, found.measured)
    most = max(cell for each in maps.values() for row in each for cell in row)
    names = [f"node{rank}" for rank in range(len(theory))]
    traces = []
    layout: dict[str, Any] = {"height": 240 + 18 * min(len(names), 24)}
    for place, (word, values) in enumerate(maps.items()):
        number = "" if place == 0 else str(place + 1)
        other = maps.get("measured" if word == "theory" else "theory")
        beside = f", {'measured' if word == 'theory' else 'theory'} %{{customdata:.4s}}B"
        traces.append(
            {
                "type": "heatmap",
                "name": word,
                "x": names,
                "y": names,
                "xaxis": f"x{number}",
                "yaxis": f"y{number}",
                "z": [[round(value) or None for value in row] for row in values],
                "colorscale": COLOURS,
                "zmin": 0,
                "zmax": most,
                "xgap": 2,
                "ygap": 2,
                "showscale": place == len(maps) - 1,
                "colorbar": {"ticksuffix": "B", "tickformat": "~s", "thickness": 12},
                "hovertemplate": f"{escape(one.label)}<br>%{{y}} to %{{x}}: {word} %{{z:.4s}}B"
                f"{beside if other else ''} a round<extra></extra>",
            }
        )
        if other:
            traces[-1]["customdata"] = [[round(value) for value in row] for row in other]
        side = {"anchor": f"y{number}", "domain": [[0, 0.44], [0.56, 1]][place]}
        layout[f"xaxis{number}"] = axis(
            f"receives: {word}",
            type="category",
            showgrid=False,
            **(side if len(maps) > 1 else {}),
        )
        layout[f"yaxis{number}"] = axis(
            "sends",
            type="category",
            autorange="reversed",
            showgrid=False,
            **({"anchor": f"x{number}"} if len(maps) > 1 else {}),
        )
    return Chart("", "", traces, layout)


def _per_round(one: Configuration, of_training: Matrix) -> Matrix:
    rounds = max(1, int(one.row["rounds"]))
    return [[cell / rounds for cell in row] for row in of_training]


def _theory(one: Configuration) -> Matrix | None:
    row = one.row
    workers, rounds = int(row["workers"]), max(1, int(row["rounds"]))
    found = matrix(
        one.strategy,
        Setting(
            workers=workers,
            model_bytes=int(row["model_bytes"]),
            passes=None if pd.isna(row["passes"]) else int(row["passes"]),
            schedule=None if pd.isna(row["schedule"]) else str(row["schedule"]),
            seed=int(row["seed"]),
        ),
        rounds,
    )
    mean = sum(map(sum, found[:workers])) / workers
    predicted = row["predicted_per_step_bytes"]
    if pd.isna(predicted) or abs(mean * rounds / int(row["steps"]) - predicted) > ADDS_UP * mean:
        return None
    return found
