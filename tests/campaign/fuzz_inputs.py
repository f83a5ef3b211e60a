"""Random command lines and damaged specs: each is accepted, or refused in one line.

    python -m tests.campaign.fuzz_inputs measure 6000      prints an Outcome as JSON

Nothing is started: the engines and all that fetches or trains are replaced. Memory and the CPU time
of a try are limited, so that a hang or an explosion is a failure with its input.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

from bench.__main__ import make_parser as bench_parser
from cluster import doctor, environment, measure, plan, presets
from cluster.engine import EngineRow, engine_names
from cluster.existing import prepare
from cluster.flags import make_parser
from cluster.host import leftovers
from cluster.spec.catalogue import MODELS, WORKLOADS
from cluster.spec.errors import LONGEST_LINE, SpecError
from cluster.spec.exchange.strategies import STRATEGIES
from cluster.spec.experiment import Experiment
from tests.campaign.fuzz import command_line, mutated_file
from tests.peak_memory import peak_bytes

PROJECT = Path(__file__).resolve().parents[2]
HANG_S = 20
"""CPU time of one try."""
MEMORY_BYTES = 4 * 2**30
SETTLED = 20
"""Of a sweep's runs, so many get their schedule."""

Known = dict[str, list[str]]
Command = Callable[[list[str]], int]


class Planned(BaseException):
    """Raised where a measure would go on to its engine: the command line was accepted."""


class Hang(BaseException):
    """A try took longer than HANG_S."""


@dataclass
class Outcome:
    tries: int = 0
    accepted: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)
    """Tracebacks, hangs, and refusals that are not one line, each with its input."""
    peak_mb: float = 0.0
    seconds: float = 0.0
    slowest_cpu_s: float = 0.0


def main(kind: str, tries: str, seed: str = "1") -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGPROF, _hang)
    outcome, start = Outcome(), time.monotonic()
    rng = random.Random(f"{kind} {seed}")
    with tempfile.TemporaryDirectory(prefix="gradwire-fuzz-") as folder:
        os.chdir(folder)
        make_attempt = {"measure": lines_of_measure, "others": lines_of_others, "specs": specs}
        with make_attempt[kind](rng) as attempt:
            for _ in range(int(tries)):
                _try(attempt, outcome)
        if made := list(Path(folder).iterdir()):
            outcome.failures.append(f"made {made}")
    outcome.peak_mb = peak_bytes() / 2**20
    outcome.seconds = time.monotonic() - start
    print(json.dumps(dataclasses.asdict(outcome)))
    return 0


Attempt = Callable[[], tuple[str, Callable[[], str | None]]]
"""Makes an input: its text, and what to do with it, which returns the refusal, or None."""


def _try(attempt: Attempt, outcome: Outcome) -> None:
    text, execute = attempt()
    began_s = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, HANG_S)
    problem = refusal = None
    try:
        refusal = execute()
    except BaseException:
        problem = traceback.format_exc()[-1500:]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    outcome.slowest_cpu_s = max(outcome.slowest_cpu_s, time.process_time() - began_s)
    outcome.tries += 1
    if refusal is not None and (len(refusal.splitlines()) != 1 or len(refusal) > 2 * LONGEST_LINE):
        problem = f"not one line: {refusal[:1500]!r}"
    if problem is not None:
        outcome.failures.append(f"{text[:500]}\n{problem}")
    elif refusal is None:
        outcome.accepted += 1
    else:
        outcome.refused += 1


def _hang(number: int, frame: object) -> NoReturn:
    raise Hang


def _refusal_of(command: Command, arguments: list[str]) -> str | None:
    """What is said on standard error with exit code 2; None with 0."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            code: Any = command(arguments)
        except SystemExit as ended:
            code = ended.code
        except Planned:
            code = 0
        except SpecError as error:  # as cluster.spec.command_line.run reports it
            code = 2
            print(error, file=stderr)
    if code == 0:
        return None
    assert code == 2, f"exit code {code}: {stderr.getvalue()}"
    assert stdout.getvalue() == ""
    return stderr.getvalue()


# ----------------------------------------------------------------------------- ./measure.sh's flags


def known_values() -> Known:
    """Values worth trying: names, bounds, what is just outside them, lists."""
    known: Known = {
        "engine": [*engine_names(), "netns"],
        "preset": presets.names(),
        "workload": [*WORKLOADS],
        "model": [*MODELS, "synthetic:4M", "synthetic:gpt2:1s", "synthetic:16M:64:0s+2s"],
        "link": ["20mbit", "100mbit/5ms/0.1%", "none", "1gbit", "99kbit", "20Mbit"],
        "bottleneck": ["2:20mbit", "0:5mbit,1:1gbit", "none", "256:1mbit"],
        "straggler": ["1:0.5", "0:0.01,3:1024", "none"],
        "total_memory": ["6g", "900m", "none", "1t", "6G"],
        "partition": ["iid", "label", "dirichlet:0.5"],
        "global_batch_size": ["0", "1", "64", "256", str(10**9 + 1)],
        "repeat": ["0", "1", "3", "999", "1000"],
        "momentum": ["0", "0.5", "1"],
        "test_size": ["0", "1", "10000"],
        "output": ["runs", "/dev/null", "/proc/x", "a/" * 2000, "x" * 256, "a\nb", "~nobody-x/y"],
        "prepare": ["new", "/dev/null", "/", "x" * 256],
        "data_dir": ["data", "/dev/null", "a\tb"],
        "spark_master": ["yarn", "spark://host:7077", "http://x"],
    }
    for option in dataclasses.fields(Experiment):
        values = known.setdefault(option.name, [])
        values += map(str, option.metadata["choices"])
        if option.metadata["within"] is not None:
            low, high = option.metadata["within"]
            values += map(str, (low, low - 1, low + 1, high, high + 1, 2, 4))
    return known


@contextlib.contextmanager
def lines_of_measure(rng: random.Random) -> Iterator[Attempt]:
    parser, known = make_parser(), known_values()

    def attempt() -> tuple[str, Callable[[], str | None]]:
        arguments = [*command_line(rng, parser, known), "--quiet"]
        return repr(arguments), lambda: _refusal_of(measure.main, arguments)

    with _nothing_starts():
        yield attempt


@contextlib.contextmanager
def _nothing_starts() -> Iterator[None]:
    """The first thing after planning ends the measure."""

    def settle_and_stop(experiments: Any = (), *_: object) -> NoReturn:
        plan.settle(list(experiments)[:SETTLED], "netns", lambda _: None)
        raise Planned

    engine = mock.Mock(check=settle_and_stop, limited_cores=lambda: 2)
    chooser = mock.Mock(side_effect=presets.take_last, lines={})
    with (
        mock.patch.object(EngineRow, "load", return_value=engine),
        mock.patch.object(measure, "Chooser", return_value=chooser),
        mock.patch.object(environment, "describe"),
        mock.patch.object(prepare, "describe"),
        mock.patch.object(environment, "version", return_value="0"),
        mock.patch.object(leftovers, "clean", return_value=0),
        mock.patch.object(leftovers, "remove_leftovers"),
        mock.patch.object(subprocess, "Popen", side_effect=AssertionError("a process is started")),
        mock.patch.object(socket, "socket", side_effect=AssertionError("a socket is opened")),
        mock.patch.object(prepare, "prepare", side_effect=Planned),
        mock.patch.object(doctor, "report", return_value=0),
    ):
        yield


# ------------------------------------------------------------------------------ the other programs


@contextlib.contextmanager
def lines_of_others(rng: random.Random) -> Iterator[Attempt]:
    from analysis import network_report
    from analysis.export import command as export
    from analysis.predict import command as predict
    from analysis.predict import fit_command as fit
    from analysis.summary import command as summary
    from analysis.tables.find import find_all
    from analysis.theory import table as theory
    from workloads import groups
    from workloads.data import command as data
    from workloads.data.dataset import DataError

    def find_runs(arguments: list[str]) -> int:
        """Of the report, without writing one."""
        parser = network_report._parser()
        find_all(parser, parser.parse_args(arguments).runs)
        return 0

    def parse_benchmark(arguments: list[str]) -> int:
        bench_parser().parse_args(arguments)
        return 0

    known: Known = {
        "workers": ["1", "2", "6", "33", "0", "1025", "65537"],
        "model_bytes": ["1", "87k", "4.5M", "200K", "1m", "9" * 400],
        "passes": ["1", "2", "5", "0", "100000", "9" * 400],
        "schedule": ["ring", "grid", "auto", "random", "exponential"],
        "rounds": ["1", "7", "0", "10001", "9" * 400],
        "link": ["100mbit", "10gbit/1ms", "1gbit/1ms/1%", "20Mbit"],
        "bottleneck": ["0:5mbit", "6:1gbit", "900:1mbit"],
        "strategy": ["all", *STRATEGIES],
        "compute": ["20ms", "0s", "5m", "1e3s"],
        "local_steps": ["1", "8", "9" * 400],
        "to": ["tensorboard", "mlflow", "perfetto", "parquet", "x"],
        "fit": ["/dev/null", "/dev/zero", "/", "nowhere.json", "x" * 300],
        "folder": ["/", "nowhere", "/dev/null", "x" * 300, "a\nb"],
        "runs": ["/dev/null", "nowhere", "x" * 300],
        "data_dir": ["nowhere", "/dev/null", "~nobody-x", "x" * 300],
    }
    programs: dict[str, tuple[argparse.ArgumentParser, Command]] = {
        "theory": (theory._parser(), theory.main),
        "predict": (predict._parser(), predict.main),
        "predict fit": (fit._parser(), fit.main),
        "groups": (groups._parser(), groups.main),
        "data": (data._parser(), data.main),
        "summary": (summary._parser(), summary.main),
        "network_report": (network_report._parser(), find_runs),
        "export": (export._parser(), export.main),
        "bench": (bench_parser(), parse_benchmark),
    }

    def attempt() -> tuple[str, Callable[[], str | None]]:
        name = rng.choice(list(programs))
        parser, command = programs[name]
        arguments = command_line(rng, parser, known)
        for action in parser._actions:
            if action.required and action.dest in known:
                arguments += [*action.option_strings[:1], rng.choice(known[action.dest])]
        return f"{name} {arguments!r}", lambda: _refusal_of(command, arguments)

    with mock.patch.object(data, "fetch", side_effect=DataError("not fetched")):
        yield attempt


# -------------------------------------------------------------------------------------------- specs


@contextlib.contextmanager
def specs(rng: random.Random) -> Iterator[Attempt]:
    real = [path.read_bytes() for path in sorted((PROJECT / "tests" / "data").rglob("spec.json"))]
    real += [json.dumps(Experiment(strategy=s, workers=1).to_json()).encode() for s in STRATEGIES]

    def attempt() -> tuple[str, Callable[[], str | None]]:
        text = mutated_file(rng, "spec.json", rng.choice(real))
        return repr(text), lambda: _read_spec(text)

    yield attempt


def _read_spec(text: bytes) -> str | None:
    """What is accepted can be used: written and read again, named, and its nodes listed."""
    try:
        experiment = Experiment.parse(text)
    except SpecError as refused:
        return str(refused)
    again = json.dumps(experiment.to_json(), allow_nan=False)
    assert Experiment.parse(again) == experiment
    assert len(experiment.label) < 200
    assert len(experiment.node_names) >= experiment.workers
    assert experiment.links.keys() | experiment.cpus_by_rank.keys() <= set(range(experiment.nodes))
    hash(experiment.cluster)
    return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
