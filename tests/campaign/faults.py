"""Faults of nodes while a real run trains: which node and cause the run's failure names, and when.

    python -m tests.campaign.faults                        10 tries of each fault on both engines
    python -m tests.campaign.faults --tries 2 --engines netns --faults freeze,cut

A try starts a run, waits for a random step, does a fault to a random node, and holds what
./measure.sh says against it. Everything random follows from the seed of the try.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.campaign import nodes
from tests.measuring import await_steps, finish, start

STRATEGIES = ("allreduce", "gather-scatter", "pairwise", "parameter-server", "local-sgd")
WORKERS = 3
LAST_STEP = 12
MOST_S = 10.0
ENGINES: dict[str, type[nodes.NetnsNodes] | type[nodes.DockerNodes]] = {
    "netns": nodes.NetnsNodes,
    "docker": nodes.DockerNodes,
}
FAULTS = {
    "kill": ("kill_training", "kill_node"),
    "freeze": ("stop_training", "stop_node", "pause"),
    "cut": ("set_link_down", "drop_packets", "unplug"),
    "memory": ("exhaust_memory",),
}
"""Fault -> ways to do it: methods of the engine's nodes, where it has them."""
SAID = {
    "kill_training": " was ended by SIGKILL",
    "kill_node": " was ended by SIGKILL",
    "stop_training": " is frozen (stopped)",
    "stop_node": " is frozen (stopped)",
    "pause": " is frozen (paused)",
    "set_link_down": "'s link is down",
    "drop_packets": " is cut off",
    "unplug": "'s link is unplugged",
    "exhaust_memory": " ran out of memory",
}
"""What the run's error says after the node's name."""


@dataclass(frozen=True)
class Try:
    engine: str
    way: str
    strategy: str
    seed: int
    """Decides the node, and the step in which it happens."""


@dataclass(frozen=True)
class Outcome:
    attempt: Try
    node: str
    seconds: float
    """From the fault to the line that names the node."""
    ended_s: float
    """From the fault to the end of ./measure.sh."""
    miss: str | None
    """What was not as it should be."""


def attempt(case: Try, output: Path, most_s: float = MOST_S) -> Outcome:
    chance = random.Random(f"{case.way} {case.seed}")
    count = WORKERS + (case.strategy == "parameter-server")
    rank = chance.randrange(count)
    process = start(*flags(case, output))
    try:
        await_steps(output, chance.randint(1, LAST_STEP))
        time.sleep(chance.random() / 4)
        cluster = ENGINES[case.engine](output)
        before = time.monotonic()
        getattr(cluster, case.way)(rank)
        seconds = await_failure(process) - before
        measured = finish(process)
        ended_s = time.monotonic() - before
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate()
    error = measured.summaries[0]["error"] or "" if measured.summaries else ""
    left = cluster.leftovers()
    wrong = {
        f"exit code {measured.code}": measured.code != 1,
        f"not node{rank}{SAID[case.way]}": not error.startswith(f"node{rank}{SAID[case.way]}"),
        f"{seconds:.1f} s": seconds > most_s,
        f"left {left}": bool(left),
    }
    misses = [text for text, is_wrong in wrong.items() if is_wrong]
    miss = f"{', '.join(misses)}: {error}" if misses else None
    return Outcome(case, f"node{rank}", seconds, ended_s, miss)


def await_failure(process: subprocess.Popen[str]) -> float:
    """When it says that the run failed, or ends."""
    assert process.stderr is not None
    for line in process.stderr:
        if ": failed: " in line:
            break
    return time.monotonic()


def flags(case: Try, output: Path) -> list[str]:
    """A run that does not end by itself; nodes need limits so that memory can run out."""
    options = ["--engine", case.engine, "--workers", str(WORKERS), "--strategy", case.strategy]
    if case.way in FAULTS["memory"]:
        options += ["--total-memory", "1600m"]
    return [*options, "--epochs", "2000", "--test-size", "200", "--output", str(output)]


def tries(engines: Sequence[str], faults: Sequence[str], count: int, seed: int) -> list[Try]:
    found = []
    for index, engine, fault in itertools.product(range(count), engines, faults):
        ways = [way for way in FAULTS[fault] if hasattr(ENGINES[engine], way)]
        strategy = STRATEGIES[index % len(STRATEGIES)]
        found.append(Try(engine, ways[index % len(ways)], strategy, seed + index))
    return found


def conduct(cases: Sequence[Try], at_once: int) -> list[Outcome]:
    def conduct_one(case: Try) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="gradwire-campaign-") as folder:
            outcome = attempt(case, Path(folder))
        print(
            f"{case.engine:7} {case.strategy:16} {case.way:14} {outcome.node}"
            f" {outcome.seconds:5.1f} s  {outcome.miss or 'right'}",
            flush=True,
        )
        return outcome

    with ThreadPoolExecutor(max_workers=at_once) as pool:
        return list(pool.map(conduct_one, cases))


def table(outcomes: Sequence[Outcome]) -> str:
    """A row for each fault and engine, in Markdown."""
    rows = ["| fault | engine | tries | right | median | worst | worst to the end |"]
    rows.append("|---|---|---|---|---|---|---|")
    for fault, engine in itertools.product(FAULTS, ENGINES):
        done = [
            o for o in outcomes if o.attempt.engine == engine and o.attempt.way in FAULTS[fault]
        ]
        if done:
            seconds = [outcome.seconds for outcome in done]
            right = sum(outcome.miss is None for outcome in done)
            rows.append(
                f"| {fault} | {engine} | {len(done)} | {right}"
                f" | {statistics.median(seconds):.1f} s | {max(seconds):.1f} s"
                f" | {max(outcome.ended_s for outcome in done):.1f} s |"
            )
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tries", type=int, default=10, help="of each fault and engine")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=2, help="runs side by side")
    given = parser.parse_args()
    cases = tries(given.engines.split(","), given.faults.split(","), given.tries, given.seed)
    outcomes = conduct(cases, given.at_once)
    print(table(outcomes))
    return 1 if any(outcome.miss for outcome in outcomes) else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
