"""python -m analysis.summary RUN_FOLDER: make the summary of a run that nobody watched, and print its row.

For a run on several hosts (docs/several-hosts.md), whose events have been brought together in one folder. There is no
collector, so only the workers' own counters are in it. Standard library only: any Python will do.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from analysis.summary.summarise import summarise
from cluster.observe.result_row import find_extras, headings, row
from cluster.spec.command_line import Parser
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment
from cluster.spec.records import Summary
from cluster.spec.run_folder import RunFolder, node_name, write_json


class Unready(Exception):
    """What the folder lacks; one line."""


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(
        prog="python -m analysis.summary",
        description="Write summary.json of a run whose events/ are complete, and print its row of the table.",
    )
    parser.add_argument("folder", metavar="RUN_FOLDER", type=Path)
    try:
        summary = write_summary(RunFolder(parser.parse_args(arguments).folder.resolve()))
    except Unready as error:
        print(f"summary: {error}", file=sys.stderr)
        return 2
    print(table(summary))
    if summary.error is not None:
        print(f"summary: {summary.status}: {summary.error}", file=sys.stderr)
    return 0 if summary.status == "completed" else 1


def write_summary(folder: RunFolder) -> Summary:
    experiment = read_experiment(folder)
    events = [read_events(folder, rank) for rank in range(experiment.nodes)]
    error = find_error(events) or find_sharers(events)
    summary = summarise(folder, experiment, "failed" if error else "completed", error)
    write_json(folder.summary, summary.to_json())
    return summary


def read_experiment(folder: RunFolder) -> Experiment:
    try:
        return folder.read_experiment()
    except OSError as error:
        raise Unready(f"{folder.path} is no run folder: spec.json: {error.strerror}") from None
    except (SpecError, ValueError) as error:
        raise Unready(f"{folder.spec}: {error}") from None


def read_events(folder: RunFolder, rank: int) -> list[dict[str, Any]]:
    path = folder.events(rank)
    try:
        events = folder.read_events(rank)
    except json.JSONDecodeError as error:
        raise Unready(f"{path} is damaged: {error}") from None
    if not events:
        raise Unready(f"{path} is missing or empty: copy it here from host {rank}")
    own = next((e["rank"] for e in events if e["event"] == "hello"), rank)
    if own != rank:
        raise Unready(f"{path} is that of {node_name(own)}")
    return events


def find_error(events: list[list[dict[str, Any]]]) -> str | None:
    """Of a node that stopped without a word, since the others then complain of it; else the first complaint."""
    complaints = {
        rank: next(e for e in of_one if e["event"] == "error")
        for rank, of_one in enumerate(events)
        if any(e["event"] == "error" for e in of_one)
    }
    for rank, of_one in enumerate(events):
        if rank not in complaints and of_one[-1]["event"] != "end":
            return (
                f"{node_name(rank)} has no end: it was stopped, or its events were copied too early"
            )
    if not complaints:
        return None
    first = min(complaints, key=lambda rank: complaints[rank]["t"])
    return f"{node_name(first)} {complaints[first]['message']}"


def find_sharers(events: list[list[dict[str, Any]]]) -> str | None:
    """Of nodes on one host: they talk through its lo, which nobody counts, and count the rest twice."""
    found: dict[str, int] = {}
    for rank, of_one in enumerate(events):
        network = next((e.get("network") for e in of_one if e["event"] == "hello"), None)
        if network is not None and found.setdefault(network, rank) != rank:
            return (
                f"{node_name(found[network])} and {node_name(rank)} ran on one host, where their bytes cannot be"
                " told apart: give each a host of its own"
            )
    return None


def table(summary: Summary) -> str:
    extras = find_extras([summary])
    rows = [headings([], extras), row(summary, [], extras)]
    columns = []
    for column in zip(*rows, strict=True):
        justify = str.ljust if column[0] in ("strategy", "status") else str.rjust
        columns.append([justify(cell, max(map(len, column))) for cell in column])
    return "\n".join("  ".join(cells).rstrip() for cells in zip(*columns, strict=True))
