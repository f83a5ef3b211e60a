"""What a step costs beside ddp's on links that nobody throttled: python -m bench.step_time

The MNIST network on a machine of a few cores: computing and the cost of many small messages decide here, not
bytes. Every strategy runs several times in one session, in turns; the median of its step times is divided by
ddp's. With them stands what each sends, since more bytes may take more time.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median

from bench.exchange import STRATEGIES, measure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engine", default="netns", choices=("netns", "docker"))
    parser.add_argument("--workers", type=int, default=4, help="(default: %(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="(default: %(default)s)")
    args = parser.parse_args()
    times: dict[str, list[float]] = {}
    sent: dict[str, float] = {}
    for _ in range(args.turns):
        common = ("--engine", args.engine, "--workers", str(args.workers), "--epochs", "2")
        for summary in measure(*common, "--strategy", STRATEGIES):
            strategy = summary["spec"]["strategy"]
            times.setdefault(strategy, []).append(summary["seconds"]["step_median"])
            sent[strategy] = summary["per_step"]["sent_max"]
    reference = median(times["ddp"])
    print(f"{args.workers} workers, the MNIST network, free links, {args.engine}")
    print(f"{'strategy':<18}{'step':>10}{'over ddp':>10}{'busiest sends':>16}")
    for strategy, values in times.items():
        print(
            f"{strategy:<18}{1000 * median(values):>7.1f} ms{median(values) / reference:>10.2f}"
            f"{sent[strategy] / 1000:>13.0f} kB"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
