"""python3 -m analysis.predict fit: fits the cost model to measured runs and prints its errors."""

from collections.abc import Sequence
from pathlib import Path

from analysis.predict.cost_model import TIME_TERMS
from analysis.predict.fitted import error_text, save
from analysis.predict.fitting import FEWEST_RUNS, fit_to
from analysis.predict.observations import observe_all
from cluster.spec.command_line import Parser, argument, parse_path
from cluster.spec.documents.run_folder import find_runs

TO_MAKE_RUNS = (
    "./measure.sh --workers 2,4,6 --link 50mbit,200mbit --model synthetic:600k,synthetic:2.4M"
    " --epochs 1 --batch-size 1 --train-size 60"
)


def _parser() -> Parser:
    parser = Parser(
        prog="python3 -m analysis.predict fit",
        description="Fit the cost model to measured runs, best with --model synthetic:... on links"
        " of several rates.",
    )
    add = parser.add_argument
    path = argument(parse_path)
    add("runs", nargs="*", type=path, metavar="RUNS", help="run folders (default: runs)")
    others = "run folders to test the fit on (default: each number of workers in turn)"
    add("--held-out", nargs="+", type=path, default=[], metavar="RUNS", help=others)
    output = Path("fitted.json")
    add("--output", type=path, default=output, metavar="FILE", help=f"(default: {output})")
    return parser


def main(arguments: Sequence[str]) -> int:
    parser = _parser()
    args = parser.parse_args(arguments)
    paths = args.runs or [Path("runs")]
    for path in (*paths, *args.held_out):
        if not path.is_dir():
            parser.error(f"no such folder: {path}; to make runs: {TO_MAKE_RUNS}")
    seen, held_out = (
        observe_all(folder for path in some for folder in find_runs(path))
        for some in (paths, args.held_out)
    )
    model = fit_to(seen, held_out)
    if not model.strategies:
        parser.error(
            f"not enough in {', '.join(map(str, paths))}: a strategy needs {FEWEST_RUNS} completed"
            f" runs without slow nodes; to make them: {TO_MAKE_RUNS}"
        )
    print(f"{'strategy':<18}{'runs':>6}" + "".join(f"{name:>14}" for name in TIME_TERMS))
    for strategy, found in model.strategies.items():
        terms = "".join(f"{value:>14.4g}" for value in found.time)
        print(f"{strategy:<18}{found.runs:>6}{terms}")
    print(error_text(model))
    try:
        save(model, args.output)
    except OSError as error:
        parser.error(f"cannot write {args.output}: {error.strerror}")
    print(args.output)
    return 0
