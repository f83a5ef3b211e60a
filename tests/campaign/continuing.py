"""Runs that go on without a node, and with one that is back: --on-failure continue.

    python -m tests.campaign.continuing                     20 kills of six strategies, namespaces
    python -m tests.campaign.continuing --engine docker --tries 5 --faults kill,freeze
    python -m tests.campaign.continuing --record FILE --most-s 240     a part of them; again goes on
    python -m tests.campaign.continuing --record FILE --table          what FILE has

A try does a fault to a random worker at a random exchange, and holds the run against the same one
without faults: it completes, every sample of every epoch counts once, the accuracy is within a
point, and the parameters of all workers are equal where the strategy makes them equal. Tries of a
strategy are runs of one session on one cluster; the run without faults is made once.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from analysis.summary.node_log import NodeLog
from analysis.summary.recorded_run import RecordedRun
from analysis.summary.training import samples_in
from cluster.spec.documents.events import Result, Step
from cluster.spec.documents.fault_events import Member
from cluster.spec.documents.run_folder import RunFolder, find_runs
from tests.campaign import continuing_record
from tests.campaign.continuing_record import Row
from tests.measuring import measure
from workloads.data.deal import deal_numbered

WORKERS = 6
EPOCHS = 6
LONG_EPOCHS = 10
"""Where a node is away for ten seconds, and is to be back before the end: of a network that sleeps
instead of computing, so that several sessions fit on a machine."""
SLEEPS = ("--model", "workloads/presets/light.py:Faster", "--dataset", "mnist")
SIZES = ("--train-size", "7680", "--test-size", "2000")
EXCHANGES_AN_EPOCH = {"local-sgd": 3, "quorum": 3}
"""Of a strategy that exchanges less often than in every of 20 steps."""
STRATEGIES = (
    *("allreduce", "allgather", "gather-scatter", "reduce-broadcast"),
    *("local-sgd", "pairwise"),
)
FREE = ("async-pairwise", "async-server", "quorum")
"""Without a barrier."""
OWN_MODELS = ("pairwise", "async-pairwise")
"""Strategies whose workers' models differ by design."""
FAULTS = {
    "kill": "{rank}:kill@exchange{at}",
    "freeze": "{rank}:freeze@exchange{at}/10s",
    "unplug": "{rank}:unplug@exchange{at}/10s",
    "restart": "{rank}:restart@exchange{at}",
}
AWAY = ("freeze", "unplug")
COMES_BACK = (*AWAY, "restart")
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
        part = 6 if self.fault in AWAY else 2
        most = EXCHANGES_AN_EPOCH.get(self.strategy, 20) * self.epochs // part
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
    sizes = ("--epochs", str(case.epochs), *SIZES, *(SLEEPS if case.epochs > EPOCHS else ()))
    return [*own, *sizes, "--on-failure", "continue", "--output", str(output)]


def attempt(case: Try, expected: float | None, output: Path) -> Outcome:
    (outcome,) = attempt_all([case], expected, output)
    return outcome


def attempt_all(cases: Sequence[Try], expected: float | None, output: Path) -> list[Outcome]:
    """Tries of one strategy that differ in their faults: one session."""
    faults = [part for case in cases for part in ("--fault", case.flag)]
    measured = measure(*flags(cases[0], output), *faults)
    found = {folder.read_experiment().fault: folder for folder in find_runs(output)}
    return [
        judge(case, expected, found[case.flag])
        if case.flag in found
        else Outcome(case, None, None, None, None, (f"{case.flag}: {measured.stderr[-300:]}",))
        for case in cases
    ]


def undisturbed(case: Try, output: Path) -> float:
    summary = measure(*flags(case, output)).summaries[0]
    assert summary["status"] == "completed", summary["error"]
    return float(summary["accuracy"])


def judge(case: Try, expected: float | None, folder: RunFolder) -> Outcome:
    summary = json.loads(folder.summary.read_text())
    if summary["status"] != "completed":
        return Outcome(case, None, None, None, None, (f"{case.flag}: {summary['error']}",))
    run = RecordedRun.read(folder, folder.read_experiment())
    accuracy = float(summary["accuracy"])
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
    if experiment.is_unpaced:
        return all(is_read_once(run, epoch) for epoch in range(1, experiment.epochs + 1))
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


def is_read_once(run: RecordedRun, epoch: int) -> bool:
    """Without a barrier: every sample of an epoch, by the numbers of the steps that count. In a
    part of it that was not cut short workers have told of all of them."""
    experiment, read = run.experiment, Counter[int]()
    per_epoch = experiment.workers * experiment.steps_per_epoch
    deck = torch.arange(per_epoch * experiment.batch_size)
    for count, generation in enumerate(run.generations, start=1):
        following = next(iter(run.generations[count:]), None)
        if generation.start.epoch > epoch or (following and following.start.epoch < epoch):
            continue
        dealt = deal_numbered(
            deck, run.generations[:count], epoch, experiment.batch_size, epoch * per_epoch
        )
        is_cut = following is not None and following.start.epoch == epoch
        counts = set(following.read if following and is_cut else dealt.numbers)
        found = [n for log in run.workers for n in numbers_told(log, generation.number, epoch)]
        is_told = is_cut or counts == set(found)
        if len(found) > len(set(found)) or not set(found) <= counts or not is_told:
            return False
        read.update(sample for number in counts for sample in dealt.of(number).tolist())
    return read == dict.fromkeys(deck.tolist(), 1)


def numbers_told(log: NodeLog, generation: int, epoch: int) -> list[int]:
    """Of a generation's steps in an epoch, without a barrier."""
    return [step.of_all for step in told(log, generation, epoch) if step.of_all is not None]


def steps_told(log: NodeLog, generation: int, epoch: int) -> int:
    return len(told(log, generation, epoch))


def told(log: NodeLog, generation: int, epoch: int) -> list[Step]:
    """Of a generation, in an epoch."""
    present, found = 0, []
    for event in log.events:
        if isinstance(event, Member):
            present = event.generation
        elif isinstance(event, Step) and (present, event.epoch) == (generation, epoch):
            found.append(event)
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


@dataclass(frozen=True)
class Plan:
    """Which tries are made, and how many of them in a session."""

    engine: str
    faults: Sequence[str]
    strategies: Sequence[str]
    tries: int
    seed: int = 1
    a_session: int = 10
    most_s: float = float("inf")
    """No session begins after this."""

    def sessions(self, known: Sequence[Row]) -> Iterator[list[Try]]:
        """Of tries that are not known yet; no two of a session have the same fault."""
        done = {(row.engine, row.fault, row.strategy, row.seed) for row in known}
        for fault, strategy in itertools.product(self.faults, self.strategies):
            epochs = LONG_EPOCHS if fault in AWAY else EPOCHS
            left = [
                Try(self.engine, fault, strategy, number, epochs)
                for number in range(self.seed, self.seed + self.tries)
                if (self.engine, fault, strategy, number) not in done
            ]
            while left:
                session = list({case.flag: case for case in left}.values())[: self.a_session]
                left = [case for case in left if case not in session]
                yield session


def conduct(plan: Plan, record: Path | None = None, keep: Path | None = None) -> list[Outcome]:
    """Tries whose sessions have a miss stay in `keep`."""
    began = time.monotonic()
    rows = continuing_record.read(record)
    outcomes: list[Outcome] = []
    for session in plan.sessions(rows):
        if time.monotonic() - began > plan.most_s:
            print("the time is over: some tries are left", flush=True)
            break
        first = session[0]
        expected = continuing_record.undisturbed(rows, first.engine, first.strategy, first.epochs)
        if expected is None:
            with _output(None) as output:
                expected = undisturbed(first, output)
            calm = Row(first.engine, "none", first.strategy, 0, first.epochs, accuracy=expected)
            rows.append(calm)
            continuing_record.append(record, calm)
            print(f"{first.engine:7} {first.strategy:16} without faults {expected}", flush=True)
        with _output(keep) as output:
            found = attempt_all(session, expected, output)
            if keep and not any(outcome.misses for outcome in found):
                shutil.rmtree(output)
        for outcome in found:
            print(line(outcome), flush=True)
            continuing_record.append(record, row_of(outcome))
        outcomes += found
    return outcomes


@contextlib.contextmanager
def _output(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield Path(tempfile.mkdtemp(dir=keep))
        return
    with tempfile.TemporaryDirectory(prefix="gradwire-continuing-") as folder:
        yield Path(folder)


def row_of(outcome: Outcome) -> Row:
    case = outcome.attempt
    return Row(
        case.engine,
        case.fault,
        case.strategy,
        case.seed,
        case.epochs,
        flag=case.flag,
        accuracy=outcome.accuracy,
        noticed_s=outcome.noticed_s,
        resumed_s=outcome.resumed_s,
        back_s=outcome.back_s,
        misses=outcome.misses,
    )


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
    parser.add_argument("--a-session", type=int, default=10, help="tries in a session")
    parser.add_argument("--most-s", type=float, default=float("inf"), help="begin none after it")
    parser.add_argument("--record", type=Path, help="append tries, and skip those that it has")
    parser.add_argument("--keep", type=Path, help="keep sessions with a miss in this folder")
    parser.add_argument("--table", action="store_true", help="print what --record has, and end")
    given = parser.parse_args()
    if given.table:
        print(continuing_record.table(continuing_record.read(given.record)))
        return 0
    plan = Plan(
        engine=given.engine,
        faults=given.faults.split(","),
        strategies=given.strategies.split(","),
        tries=given.tries,
        seed=given.seed,
        a_session=given.a_session,
        most_s=given.most_s,
    )
    outcomes = conduct(plan, given.record, given.keep)
    wrong = sum(bool(outcome.misses) for outcome in outcomes)
    print(f"{len(outcomes)} tries, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
