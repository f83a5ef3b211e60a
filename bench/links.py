"""Are links what they say? python -m bench.links

    python -m bench.links --engine netns,docker --rates 1mbit,10mbit,100mbit,1gbit --repeat 3

Raises a real cluster with a node for each rate, as ./measure.sh --bottleneck does, and prints what
verifying its links found: asked, sent and received, and how far off the worst of all readings is.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
RATES = "1mbit,2mbit,5mbit,10mbit,20mbit,50mbit,100mbit,200mbit,500mbit,1gbit"


def verified_links(engine: str, rates: list[str]) -> list[dict[str, Any]]:
    """All at once, each the link of another node; the run itself is one step."""
    nodes = str(len(rates))
    links = ",".join(f"{rank}:{rate}" for rank, rate in enumerate(rates))
    with tempfile.TemporaryDirectory(prefix="gradwire-bench-") as output:
        command = [str(PROJECT / "measure.sh"), "--engine", engine, "--workers", nodes]
        command += ["--passes", "1", "--epochs", "1", "--train-size", nodes, "--batch-size", "1"]
        command += ["--bottleneck", links, "--quiet", "--json", "--output", output]
        answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode != 0:
        sys.exit(answer.stderr)
    (summary,) = json.loads(answer.stdout)
    found: list[dict[str, Any]] = summary["links"]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", default="netns", help="a list (default: %(default)s)")
    parser.add_argument("--rates", default=RATES, help="a list (default: %(default)s)")
    parser.add_argument("--repeat", default=1, type=int, help="(default: %(default)s)")
    args = parser.parse_args()
    rates = args.rates.split(",")
    print(
        f"{'engine':<8}{'asked':>9}{'sent Mbit/s':>13}{'received':>11}{'worst error':>13}{'tries':>7}"
    )
    for engine in args.engine.split(","):
        series = [verified_links(engine, rates) for _ in range(args.repeat)]
        for readings in zip(*series, strict=True):
            worst = max(readings, key=lambda link: abs(link["error"]))
            tries = max(link["attempts"] for link in readings)
            print(
                f"{engine:<8}{worst['asked']:>9}{worst['sent_mbit']:>13.4f}"
                f"{worst['received_mbit']:>11.4f}{worst['error']:>+13.3%}{tries:>7}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
