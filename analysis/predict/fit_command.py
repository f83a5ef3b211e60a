"""python3 -m analysis.predict fit: fits the host's costs to measured runs and prints the errors."""

from collections.abc import Sequence
from pathlib import Path

from analysis.predict.fitted import error_text, save
from analysis.predict.fitting import FEWEST_RUNS, fit_to
from analysis.predict.observations import Observation, observe_all
from cluster.spec.command_line import Parser, argument, parse_path
from cluster.spec.documents.run_folder import find_runs

TO_MAKE_RUNS = (
    "./measure.sh --workers 2,4,6 --link 20mbit,100mbit --model synthetic:200k:8:40ms"
    " --epochs 1 --batch-size 1 --train-size 60"
)


def _parser() -> Parser:
    parser = Parser(
        prog="python3 -m analysis.predict fit",
        description="Fit what a message and a byte cost on this host to measured runs, best with"
        " --model synthetic:...\non links of several rates. Takes a minute or two.",
    )
    add = parser.add_argument
    path = argument(parse_path)
    add("runs", nargs="*", type=path, metavar="RUNS", help="run folders (default: runs)")
    others = "run folders to test the fit on (default: half of the numbers of workers in turn)"
    add("--held-out", nargs="+", type=path, default=[], metavar="RUNS", help=others)
    output = Path("fitted.json")
    add("--output", type=path, default=output, metavar="FILE", help=f"(default: {output})")
    return parser


def _seen(paths: Sequence[Path]) -> list[Observation]:
    return observe_all(folder for path in paths for folder in find_runs(path))


def main(arguments: Sequence[str]) -> int:
    parser = _parser()
    args = parser.parse_args(arguments)
    paths = args.runs or [Path("runs")]
    for path in (*paths, *args.held_out):
        if not path.is_dir():
            parser.error(f"no such folder: {path}; to make runs: {TO_MAKE_RUNS}")
    seen = _seen(paths)
    if len(seen) < FEWEST_RUNS:
        parser.error(
            f"not enough in {', '.join(map(str, paths))}: {FEWEST_RUNS} completed runs are needed,"
            f" whose host was not contended; to make them: {TO_MAKE_RUNS}"
        )
    print(f"fitting to {len(seen)} runs")
    model = fit_to(seen, _seen(args.held_out))
    print(f"a message takes {1e6 * model.message_s:.0f} us, a byte {1e9 * model.byte_s:.2f} ns")
    print(error_text(model))
    try:
        save(model, args.output)
    except OSError as error:
        parser.error(f"cannot write {args.output}: {error.strerror}")
    print(args.output)
    return 0
