"""One call of ./measure.sh: a session of runs without a report."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from cluster.spec.documents.codec import parse_json
from cluster.spec.documents.summary import Summary

T = TypeVar("T")

PROJECT = Path(__file__).resolve().parents[2]


def measure(*flags: str) -> list[Summary]:
    """The summaries of one session, whose folder is temporary."""
    with tempfile.TemporaryDirectory(prefix="gradwire-bench-") as output:
        documents = parse_json(call(*flags, "--json", "--output", output))
    return [Summary.from_json(document) for document in documents]


def known(value: T | None) -> T:
    """A value that every completed run has."""
    assert value is not None
    return value


def call(*flags: str, program: Sequence[str] = ()) -> str:
    """Standard output of ./measure.sh; a failed call ends the benchmark with its messages."""
    words = [*flags, "--quiet", "--no-report", *(("--", *program) if program else ())]
    print(f"./measure.sh {' '.join(words)}", file=sys.stderr)
    command = [str(PROJECT / "measure.sh"), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stderr.strip(), file=sys.stderr)
        sys.exit(done.returncode)
    return done.stdout


def count(text: str) -> int:
    """A `type=` for argparse: a whole number from 1."""
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise argparse.ArgumentTypeError(f"must be a whole number from 1, not {text!r}")
    return int(text)


def counts(text: str) -> list[int]:
    """A `type=` for argparse: a list of them."""
    return [count(part) for part in text.split(",")]


def add_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine", default="netns", choices=("netns", "docker"), help="(default: %(default)s)"
    )


def sizes(workers: int, steps: int) -> tuple[str, ...]:
    """Options of a run of so many steps, for models whose data does not matter."""
    return ("--epochs", "1", "--batch-size", "1", "--train-size", str(workers * steps))
