"""python3 -m workloads.check star.py: does a strategy of your own obey the laws of ours?

The file runs in confined processes, as on a node of namespaces: no privileges, a loopback of its
own and no other network, a read-only file system without homes (cluster/namespaces/sandbox.py).
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypedDict

from cluster.spec import own_code
from cluster.spec.command_line import Parser, argument, parse_path
from cluster.spec.errors import one_line
from workloads.check import cases

PROJECT = Path(__file__).resolve().parents[2]
PATIENCE_S = 20.0
HARNESS = "workloads.check.harness"


class Answer(TypedDict):
    """What the harness says of one number of workers."""

    workers: int
    broken: dict[str, str]
    """Law -> how it does not hold."""
    has_messages: bool


def _parser() -> Parser:
    parser = Parser(
        prog="python3 -m workloads.check",
        description="Try the laws of a strategy on your own, with 1 to 6 workers:\n"
        + "\n".join(f"  {law:<22}{text}" for law, text in cases.LAWS.items()),
        epilog="exit code: 0 all laws hold, 1 one does not, 2 a mistake in the file\n"
        "example: python3 -m workloads.check docs/examples/star.py",
    )
    add = parser.add_argument
    add("file", type=argument(parse_path), metavar="FILE.py", help="with exchange(tensor, round)")
    add(
        "--patience",
        type=float,
        default=PATIENCE_S,
        metavar="SECONDS",
        help=f"after which an exchange counts as deadlocked (default: {PATIENCE_S:g})",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    args = parser.parse_args(arguments)
    if not 0.1 <= args.patience <= 3600:
        parser.error(f"--patience must be 0.1 to 3600 seconds, not {args.patience:g}")
    path = args.file.absolute()
    own_code.check_source("strategy", own_code.parse("strategy", path.name), path)
    workers = ", ".join(map(str, cases.WORKERS))
    sizes = ", ".join(f"{size:,}" for size in cases.SIZES)
    print(f"{path.name} with {workers} workers and tensors of {sizes} numbers:", flush=True)
    answers = list(_answers(path, args))
    return _report(answers)


def _answers(path: Path, args: argparse.Namespace) -> Iterator[Answer]:
    """What the harness says of each number of workers."""
    with tempfile.TemporaryDirectory(prefix="gradwire-check-") as folder:
        Path(folder).chmod(0o755)
        writable = Path(folder, "own")
        writable.mkdir()
        command = [sys.executable, "-m", "cluster.namespaces.sandbox", str(path.parent)]
        command += [str(writable), HARNESS, path.name, str(args.patience)]
        command += map(str, cases.WORKERS)
        process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        with process:
            for line in process.stdout:
                answer = json.loads(line)
                if sys.stderr.isatty():
                    print(f"  {answer['workers']} workers tried", end="\r", file=sys.stderr)
                yield answer
        if process.returncode:
            raise OSError(
                process.returncode, "the sandbox did not start; ./measure.sh --doctor says why"
            )


def _report(answers: Sequence[Answer]) -> int:
    """One line for each law; the first number of workers with which it does not hold."""
    broken: dict[str, str] = {}
    for answer in answers:
        for law, text in answer["broken"].items():
            broken.setdefault(law, one_line(text))
    ended = cases.ENDS not in broken
    up_to = max((a["workers"] for a in answers if cases.ENDS not in a["broken"]), default=0)
    for law in cases.LAWS:
        if law in broken:
            print(f"  {law:<22}does not hold: {broken[law]}")
        elif law == cases.MESSAGES and up_to and not any(a["has_messages"] for a in answers):
            print(f"  {law:<22}not given: no bytes, matrix or time will be predicted")
        elif not ended and law != cases.ENDS:
            print(f"  {law:<22}{f'holds with up to {up_to}' if up_to else 'not tried'}")
        else:
            print(f"  {law:<22}holds")
    return 1 if broken else 0
