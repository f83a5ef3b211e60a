"""python3 -m analysis.summary RUN_FOLDER: the summary of a run on hosts without ./measure.sh.

For a run on several hosts (docs/several-hosts.md), whose events have been copied to one folder.
There is no collector, so only the workers' own counters are in it. Standard library only: any
Python will do.
"""

import sys

from analysis.summary.node_log import NodeLog
from analysis.summary.summarise import summarise
from cluster.observe.result_row import find_extras, headings, row
from cluster.spec.command_line import Parser, argument, parse_path
from cluster.spec.documents.codec import DocumentError
from cluster.spec.documents.events import End, Failure
from cluster.spec.documents.run_folder import RunFolder, node_name, write_json
from cluster.spec.documents.summary import Summary
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment


def _parser() -> Parser:
    parser = Parser(
        prog="python3 -m analysis.summary",
        description="Write summary.json of a run whose events/ are complete, print its row.",
    )
    parser.add_argument("folder", metavar="RUN_FOLDER", type=argument(parse_path))
    return parser


def main(arguments: list[str] | None = None) -> int:
    try:
        summary = write_summary(RunFolder(_parser().parse_args(arguments).folder.resolve()))
    except SpecError as error:
        print(f"summary: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"summary: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    print(table(summary))
    if summary.error is not None:
        print(f"summary: {summary.status}: {summary.error}", file=sys.stderr)
    return 0 if summary.status == "completed" else 1


def write_summary(folder: RunFolder) -> Summary:
    experiment = read_experiment(folder)
    logs = [read_log(folder, rank) for rank in range(experiment.started_nodes)]
    error = find_error(logs) or find_shared_host(logs)
    try:
        summary = summarise(folder, experiment, "failed" if error else "completed", error)
    except DocumentError as damage:
        raise SpecError(f"{folder.path}: {damage}") from None
    write_json(folder.summary, summary)
    return summary


def read_experiment(folder: RunFolder) -> Experiment:
    try:
        return folder.read_experiment()
    except OSError as error:
        raise SpecError(f"{folder.path} is no run folder: spec.json: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise SpecError(f"{folder.spec}: {error}") from None


def read_log(folder: RunFolder, rank: int) -> NodeLog:
    path = folder.events(rank)
    try:
        log = NodeLog(folder.read_events(rank))
    except ValueError as error:
        raise SpecError(f"{path} is damaged: {error}") from None
    if not log.events:
        raise SpecError(f"{path} is missing or empty: copy it here from host {rank}")
    if log.hello and log.hello.rank != rank:
        raise SpecError(f"{path} is that of {node_name(log.hello.rank)}")
    return log


def find_error(logs: list[NodeLog]) -> str | None:
    """A node without an end is the cause: the others then fail, too. Else the first failure."""
    failures = {rank: failure for rank, log in enumerate(logs) if (failure := log.first(Failure))}
    for rank, log in enumerate(logs):
        if rank not in failures and not isinstance(log.events[-1], End):
            return (
                f"{node_name(rank)} has no end: it was stopped, or its events were copied too early"
            )
    if not failures:
        return None
    first = min(failures, key=lambda rank: failures[rank].t)
    return f"{node_name(first)} {failures[first].message}"


def find_shared_host(logs: list[NodeLog]) -> str | None:
    """Nodes on one host exchange through its lo, which is not counted, and count the rest twice."""
    found: dict[str, int] = {}
    for rank, log in enumerate(logs):
        network = log.hello.network if log.hello else None
        if network is not None and found.setdefault(network, rank) != rank:
            return (
                f"{node_name(found[network])} and {node_name(rank)} ran on one host, where their"
                " bytes cannot be told apart: give each a host of its own"
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
