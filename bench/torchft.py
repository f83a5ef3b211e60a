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

NUMBERS, COMPUTE_S, STEPS = 1_000_000, 0.05, 120
VICTIM, KILL_AT, DOWN_S = 2, 41, 2.0
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
    for line in run.log(rank).read_text().splitlines():
        if line.startswith("torchft "):
            yield json.loads(line.removeprefix("torchft "))


def describe_torchft(by_node: Sequence[Sequence[Line]], share: float) -> tuple[str, ...]:
    """`share` of the gradients' bytes is sent in a step, in theory."""
    steps = [[line for line in told if line["what"] == "step"] for told in by_node]
    victim = by_node[VICTIM]
    killed_t = next(line["t"] for line in victim if line["what"] == "killed")
    started_t = next(line["t"] for line in victim if line["what"] == "restarted")
    others = [s for rank, of in enumerate(steps) if rank != VICTIM for s in of]
    resumed_s = min(s["t"] for s in others if s["committed"] and s["t"] - s["step_s"] > killed_t)
    back_s = min(s["t"] for s in steps[VICTIM] if s["committed"] and s["t"] > started_t)
    quiet = [s for of in steps for s in of if s["committed"] and s["step"] < KILL_AT]
    sent = [(of[KILL_AT - 3]["sent"] - of[5]["sent"]) / (KILL_AT - 8) for of in steps]
    idle = [line["sent_per_s"] for told in by_node for line in told if line["what"] == "idle"]
    return (
        "torchft",
        f"{1000 * median(s['step_s'] for s in quiet):.1f} ms",
        f"{fmean(sent) / (share * 4 * NUMBERS):.3f}",
        bytes_text(fmean(idle)) + "/s",
        f"{resumed_s - killed_t:.2f} s",
        f"{back_s - started_t:.2f} s",
        str(sum(not s["committed"] for s in others)),
    )


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
    share = 2 * (args.workers - 1) / args.workers
    columns = (
        *("what", "step", "sent / theory", "sent idle, a node", "others' next step after the kill"),
        *("victim's first step after its start", "steps made in vain"),
    )
    rows = [describe_torchft(of_torchft(args), share), of_ours(args)]
    return Table(f"{args.engine}, {args.workers} nodes, 4 MB, {COMPUTE_S:g} s", columns, rows)
