"""Runs that go on without a node, and with one that is back: --on-failure continue.

    python -m tests.campaign.continuing                     20 kills of six strategies, namespaces
    python -m tests.campaign.continuing --engine docker --tries 5 --faults kill,freeze

A try does a fault to a random worker at a random exchange, and holds the run against the same one
without faults: it completes, every sample of every epoch counts once, the accuracy is within a
point, and the parameters of all workers are equal where the strategy makes them equal.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.summary.node_log import NodeLog
from analysis.summary.recorded_run import RecordedRun
from analysis.summary.training import samples_in
from cluster.spec.documents.events import Result, Step
from cluster.spec.documents.fault_events import Member
from cluster.spec.documents.run_folder import RunFolder, find_runs
from tests.measuring import measure

WORKERS = 6
EPOCHS = 6
SIZES = ("--train-size", "7680", "--test-size", "2000")
EXCHANGES_AN_EPOCH = {"local-sgd": 3}
"""Of a strategy that exchanges less often than in every of 20 steps."""
STRATEGIES = (
    *("allreduce", "allgather", "gather-scatter", "reduce-broadcast"),
    *("local-sgd", "pairwise"),
)
ALL = (*STRATEGIES, "ddp", "parameter-server", "ring", "halving-doubling")
OWN_MODELS = ("pairwise",)
"""Strategies whose workers' models differ by design."""
FAULTS = {
    "kill": "{rank}:kill@exchange{at}",
    "freeze": "{rank}:freeze@exchange{at}/10s",
    "unplug": "{rank}:unplug@exchange{at}/10s",
    "restart": "{rank}:restart@exchange{at}",
}
COMES_BACK = ("freeze", "unplug", "restart")
BACK_S = 15.0
POINT = 0.01


@dataclass(frozen=True)
class Try:
    engine: str
    fault: str
    strategy: str
    seed: int
    """Of the fault: which worker, and when."""
    epochs: int = EPOCHS

    @property
    def flag(self) -> str:
        chance = random.Random(f"{self.fault} {self.strategy} {self.seed}")
        most = EXCHANGES_AN_EPOCH.get(self.strategy, 20) * self.epochs // 2
        at, rank = chance.randint(2, most), chance.randrange(WORKERS)
        return FAULTS[self.fault].format(rank=rank, at=at)


@dataclass(frozen=True)
class Outcome:
    attempt: Try
    accuracy: float | None
    noticed_s: float | None
    """From the fault until the host noticed it."""
    resumed_s: float | None
    """From the fault to the first step of the next generation."""
    back_s: float | None
    """From the fault's end until the node trains again."""
    misses: tuple[str, ...]


def flags(case: Try, output: Path) -> list[str]:
    own = ("--engine", case.engine, "--workers", str(WORKERS), "--strategy", case.strategy)
    sizes = ("--epochs", str(case.epochs), *SIZES)
    return [*own, *sizes, "--on-failure", "continue", "--output", str(output)]


def undisturbed(case: Try, output: Path) -> float:
    summary = measure(*flags(case, output)).summaries[0]
    assert summary["status"] == "completed", summary["error"]
    return float(summary["accuracy"])


def attempt(case: Try, expected: float | None, output: Path) -> Outcome:
    measured = measure(*flags(case, output), "--fault", case.flag)
    if measured.code != 0:
        why = measured.summaries[0]["error"] if measured.summaries else measured.stderr[-300:]
        return Outcome(case, None, None, None, None, (f"{case.flag}: {why}",))
    (folder,) = find_runs(output)
    run = RecordedRun.read(folder, folder.read_experiment())
    accuracy = float(measured.summaries[0]["accuracy"])
    noticed_s, resumed_s, back_s = times(folder, run, case)
    wrong = {
        "no fault": len(run.generations) < 2,
        "samples": not reads_all_once(run),
        f"accuracy {accuracy:.4f}, not {expected}": expected is not None
        and accuracy < expected - POINT,
        "parameters": case.strategy not in OWN_MODELS and not all_equal(run),
        "not back": case.fault in COMES_BACK and not is_back(run),
        f"back after {back_s}": case.fault == "restart" and (back_s or 0) > BACK_S,
    }
    misses = tuple(f"{case.flag}: {what}" for what, is_wrong in wrong.items() if is_wrong)
    return Outcome(case, accuracy, noticed_s, resumed_s, back_s, misses)


def reads_all_once(run: RecordedRun) -> bool:
    """By the steps that count: as many samples in every epoch as without faults.

    A worker that was killed while the others completed its step has not told of that one.
    """
    experiment = run.experiment
    whole = experiment.steps_per_epoch * experiment.batch_size * experiment.workers
    steps = list(itertools.chain(*run.steps))
    untold: Counter[int] = Counter()
    for before, after in itertools.pairwise(run.generations):
        for rank, done in after.done.items():
            told = steps_told(run.logs[rank], before.number, after.start.epoch)
            if not 0 <= done - told <= (rank not in after.members or rank in after.joiners):
                return False
            untold[after.start.epoch] += done - told
    for epoch in range(1, experiment.epochs + 1):
        missing = whole - samples_in(experiment, [s for s in steps if s.epoch == epoch])
        if not 0 <= missing <= untold[epoch] * experiment.batch_size:
            return False
    return True


def steps_told(log: NodeLog, generation: int, epoch: int) -> int:
    """Of a generation, in an epoch."""
    present, found = 0, 0
    for event in log.events:
        if isinstance(event, Member):
            present = event.generation
        elif isinstance(event, Step):
            found += (present, event.epoch) == (generation, epoch)
    return found


def all_equal(run: RecordedRun) -> bool:
    results = [result for log in run.workers for result in log.all(Result)]
    return len({result.parameters_sha256 for result in results}) == 1


def is_back(run: RecordedRun) -> bool:
    return len(run.generations[-1].members) == run.experiment.nodes


def times(
    folder: RunFolder, run: RecordedRun, case: Try
) -> tuple[float | None, float | None, float | None]:
    lines = [json.loads(line) for line in folder.host_events.read_text().splitlines()]
    begun = next((line["t"] for line in lines if line["event"] == "fault_begun"), None)
    over = next((line["t"] for line in lines if line["event"] == "fault_over"), None)
    if begun is None or len(run.generations) < 2:
        return None, None, None
    noticed = run.generations[1].noticed_t
    first_step = min((_first_step(log, 1) for log in run.workers), default=None)
    returned = run.generations[-1].number if case.fault in COMES_BACK else None
    rank = int(case.flag.partition(":")[0])
    back = None if returned is None else _first_step(run.logs[rank], returned)
    return (
        None if noticed is None else round(noticed - begun, 3),
        None if first_step is None else round(first_step - begun, 3),
        None if back is None or over is None else round(back - over, 3),
    )


def _first_step(log: NodeLog, generation: int) -> float:
    """When a node made its first step in a generation; never: infinity."""
    joined = [event.t for event in log.all(Member) if event.generation == generation]
    after = [step.t for step in log.steps if joined and step.t > joined[-1]]
    return min(after, default=float("inf"))


def conduct(
    engine: str, faults: Sequence[str], strategies: Sequence[str], tries: int, seed: int
) -> list[Outcome]:
    outcomes = []
    for strategy in strategies:
        with tempfile.TemporaryDirectory(prefix="gradwire-continuing-") as folder:
            expected = undisturbed(Try(engine, "", strategy, seed), Path(folder))
        print(f"{engine:7} {strategy:16} without faults {expected:.4f}", flush=True)
        for fault, number in itertools.product(faults, range(seed, seed + tries)):
            case = Try(engine, fault, strategy, number)
            with tempfile.TemporaryDirectory(prefix="gradwire-continuing-") as folder:
                outcomes.append(attempt(case, expected, Path(folder)))
            print(line(outcomes[-1]), flush=True)
    return outcomes


def line(outcome: Outcome) -> str:
    case = outcome.attempt
    seconds = " ".join(
        f"{name} {value}"
        for name, value in (
            ("noticed", outcome.noticed_s),
            ("resumed", outcome.resumed_s),
            ("back", outcome.back_s),
        )
        if value is not None
    )
    what = "; ".join(outcome.misses) or "right"
    return f"{case.engine:7} {case.strategy:16} {case.flag:24} {outcome.accuracy} {seconds} {what}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--engine", default="netns")
    parser.add_argument("--faults", default="kill")
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--tries", type=int, default=20, help="of each fault and strategy")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    strategies, faults = given.strategies.split(","), given.faults.split(",")
    outcomes = conduct(given.engine, faults, strategies, given.tries, given.seed)
    wrong = sum(bool(outcome.misses) for outcome in outcomes)
    print(f"{len(outcomes)} tries, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
