"""How long from the command to the first training step: python -m bench.startup

    python -m bench.startup --engine netns --workers 6,32,128
    python -m bench.startup --engine docker --workers 6

Starts ./measure.sh as a person would, with everything warm, and takes the time of the first step from
the event log. The machine is shared and noisy: read the numbers beside each other, not by themselves.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
BATCH = 16


def first_step_s(engine: str, workers: int) -> float:
    """Seconds from starting the command to the end of the first step on node 0."""
    with tempfile.TemporaryDirectory(prefix="gradwire-bench-") as output:
        sizes = ["--epochs", "1", "--batch-size", str(BATCH), "--train-size", str(BATCH * workers)]
        command = [str(PROJECT / "measure.sh"), "--engine", engine, "--workers", str(workers)]
        started = time.time()
        subprocess.run([*command, *sizes, "--quiet", "--output", output], check=True)
        (events,) = Path(output).glob("*/*/events/node0.jsonl")
        lines = [json.loads(line) for line in events.read_text().splitlines()]
        return float(next(e["t"] for e in lines if e["event"] == "step")) - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", default="netns", choices=("netns", "docker"))
    parser.add_argument("--workers", default="6,32,128", help="a list (default: %(default)s)")
    args = parser.parse_args()
    results = {n: first_step_s(args.engine, n) for n in map(int, args.workers.split(","))}
    first = next(iter(results.values()))
    print(f"{'workers':>8}{'first step':>12}{'ratio':>8}")
    for workers, seconds in results.items():
        print(f"{workers:>8}{seconds:>10.1f} s{seconds / first:>8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
