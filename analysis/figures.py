"""The report's figures. Text and grid take their colours from the page, light or dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import plotly.graph_objects as go

from analysis.load import Runs

# Three to one or better against both the white and the dark page.
COLOURS = ("#2f7ed8", "#d9730d", "#1f9d6b", "#c2417c", "#8b6cd9", "#a08300", "#1797a6", "#d64545")
DASHES = ("solid", "dash", "dashdot")
WIDE = 50
"""Byte counts further apart than this share a logarithmic axis."""


def accuracy_against_bytes(runs: Runs, labels: Sequence[str]) -> go.Figure:
    """A curve per run; one that sent nothing is a dotted level at what it reached."""
    curves = runs.curves.dropna()
    sent = curves["sent_bytes"][curves["sent_bytes"] > 0]
    wide = not sent.empty and sent.max() > WIDE * sent.min()
    figure = go.Figure()
    for number, label in enumerate(labels, start=1):
        curve = curves[curves["number"] == number]
        if curve.empty:
            continue
        x, y, epochs = (curve[name].tolist() for name in ("sent_bytes", "accuracy", "epoch"))
        silent = max(x) == 0 and not sent.empty
        if silent:
            x, y, epochs = [int(sent.min()), int(sent.max())], [y[-1]] * 2, [epochs[-1]] * 2
        run = runs.table.loc[number]
        symbols = ["diamond" if epoch == run["epochs"] else "circle" for epoch in epochs]
        turn, colour = divmod(number - 1, len(COLOURS))
        figure.add_scatter(
            x=x,
            y=y,
            customdata=epochs,
            mode="lines" if silent else "lines+markers",
            name=f"{number}  {escape(label)}",
            meta=[escape(label), escape(f"{run['engine']} {run['session']}/{run['run']}")],
            marker={"symbol": symbols, "size": 8, "opacity": 1, "line": {"width": 0}},
            line_color=COLOURS[colour],
            line_dash="dot" if silent else DASHES[turn % len(DASHES)],
            hovertemplate="<b>%{meta[0]}</b><br>%{meta[1]}<br>epoch %{customdata}: %{y:.2%}"
            + (", nothing sent" if silent else " after %{x:.4s}B")
            + "<extra></extra>",
        )
    figure.update_layout(
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 13},
        margin={"l": 60, "r": 16, "t": 16, "b": 60},
        # The legend is below, one run a line: as readable on a phone as on a desk.
        height=440 + 20 * len(figure.data),
        showlegend=True,
        legend={"x": 0, "y": -0.2, "yanchor": "top", "font": {"size": 12}},
        hovermode="closest",
        dragmode=False,  # a finger on the figure scrolls the page
    )
    figure.update_xaxes(title="sent in training, all nodes", tickformat="~s", ticksuffix="B")
    figure.update_xaxes(rangemode="tozero")
    if wide:
        steps = (1, 2, 5) if sent.max() < 1000 * sent.min() else (1,)
        marks = [(power, step * 10**power) for power in range(16) for step in steps]
        texts = [f"{mark // 1000 ** (power // 3)}{' kMGTP'[power // 3]}B" for power, mark in marks]
        figure.update_xaxes(type="log", tickvals=[mark for _, mark in marks], ticktext=texts)
    figure.update_yaxes(title="accuracy", tickformat=".0%")
    return figure
