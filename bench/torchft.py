"""A killed worker, survived by torchft and by `--on-failure continue`: bytes, steps and seconds.

The same nodes, gradients and pretended computing; one worker is killed at the begin of a step and
starts again two seconds later. torchft 0.2.0 (one replica a node, ProcessGroupGloo, the lighthouse
beside node 0) runs as a program (bench/programs/torchft_steps.py): its bytes are those of the
interfaces; what managers and lighthouse send while nobody makes steps is given apart.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from bench.tools.session import PROJECT, add_engine, call, count, known, measure
from bench.tools.table import Table
from cluster.observe.units import bytes_text
from cluster.spec.documents.run_folder import RunFolder, find_runs

NUMBERS, COMPUTE_S, STEPS = 1_000_000, 0.05, 240
VICTIM, KILL_AT, DOWN_S = 2, 41, 2.0
MARK = "torchft told "
PROGRAMS = PROJECT / "bench" / "programs"
Line = dict[str, Any]


def add_options(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument("--workers", type=count, default=4, help="(default: %(default)s)")


def of_torchft(args: argparse.Namespace) -> list[list[Line]]:
    """By node, what it told."""
    kill = f"{VICTIM}:{KILL_AT}:{DOWN_S}"
    program = (str(PROGRAMS / "torchft_steps.py"), str(STEPS), str(NUMBERS), str(COMPUTE_S), kill)
    with tempfile.TemporaryDirectory(prefix="gradwire-bench-") as output:
        flags = ("--engine", args.engine, "--workers", str(args.workers), "--output", output)
        call(*flags, "--requirements", str(PROGRAMS / "torchft.txt"), program=program)
        (run,) = find_runs(Path(output))
        return [list(_told(run, rank)) for rank in range(args.workers)]


def _told(run: RunFolder, rank: int) -> Iterator[Line]:
    """torchft's own messages may stand on the same line."""
    for line in run.log(rank).read_text().splitlines():
        if (at := line.find(MARK)) >= 0:
            yield json.JSONDecoder().raw_decode(line, at + len(MARK))[0]


def describe_torchft(by_node: Sequence[Sequence[Line]]) -> tuple[str, ...]:
    steps = [[line for line in told if line["what"] == "step"] for told in by_node]
    killed_t = next(line["t"] for line in by_node[VICTIM] if line["what"] == "killed")
    started_t = next(line["t"] for line in by_node[VICTIM] if line["what"] == "restarted")
    others = [s for rank, of in enumerate(steps) if rank != VICTIM for s in of]
    resumed_s = min(s["t"] for s in others if s["committed"] and s["t"] - s["step_s"] > killed_t)
    back_s = [s["t"] for s in steps[VICTIM] if s["committed"] and s["t"] > started_t]
    quiet = [[s for s in of if s["committed"] and 5 < s["step"] < KILL_AT] for of in steps]
    sent = sum(of[-1]["sent"] - of[0]["sent"] for of in quiet)
    theory = sum(4 * NUMBERS * share_of(s["members"]) for of in quiet for s in of[1:])
    idle = [line["sent_per_s"] for told in by_node for line in told if line["what"] == "idle"]
    return (
        "torchft",
        f"{1000 * median(s['step_s'] for of in quiet for s in of):.1f} ms",
        f"{sent / theory:.3f}",
        bytes_text(fmean(idle)) + "/s",
        f"{resumed_s - killed_t:.2f} s",
        f"{min(back_s) - started_t:.2f} s" if back_s else "-",
        str(sum(not s["committed"] for s in others)),
    )


def share_of(members: int) -> float:
    """Of the gradients' bytes, what a member sends in a ring."""
    return 2 * (members - 1) / members


def of_ours(args: argparse.Namespace) -> tuple[str, ...]:
    (summary,) = measure(
        *("--engine", args.engine, "--workers", str(args.workers), "--strategy", "allreduce"),
        *("--model", f"synthetic:{4 * NUMBERS}:1:{COMPUTE_S}s", "--epochs", "1"),
        *("--batch-size", "1", "--train-size", str(args.workers * STEPS)),
        *("--on-failure", "continue", "--fault", f"{VICTIM}:kill@step{KILL_AT}/{DOWN_S}s"),
    )
    found = known(summary.faults)
    (fault,) = found.faults
    per_step = known(summary.per_step)
    return (
        "allreduce, --on-failure continue",
        f"{1000 * known(known(summary.seconds).step_median_s):.1f} ms",
        f"{known(per_step.ratio):.3f}",
        "0 B/s",
        f"{known(fault.resumed_s):.2f} s",
        f"{known(fault.back_s) - known(fault.over_s):.2f} s",
        str(found.repeated_steps),
    )


def run(args: argparse.Namespace) -> Table:
    columns = (
        *("what", "step", "sent / theory", "sent idle, a node", "others' next step after the kill"),
        *("victim's first step after its start", "steps made in vain"),
    )
    rows = [describe_torchft(of_torchft(args)), of_ours(args)]
    return Table(f"{args.engine}, {args.workers} nodes, 4 MB, {COMPUTE_S:g} s", columns, rows)
