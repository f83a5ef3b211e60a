"""Run one benchmark: python3 -m bench NAME [OPTIONS]; python3 -m bench --list names them."""

from __future__ import annotations

from cluster.spec import own_environment

if __name__ == "__main__":
    own_environment.enter("bench")  # before anything that needs pandas

import importlib
import sys
from collections.abc import Sequence

from bench.tools.page import PAGE, write_section
from bench.tools.table import Benchmark
from cluster.spec.command_line import Parser, run

NAMES = (
    *("bytes", "exchange", "overlap", "step_time", "emulated_compute", "links"),
    *("startup", "predict", "report", "learning", "live", "codecs", "dilation"),
    *("collector", "slowdown", "continue_cost", "storm", "torchft", "free_links", "compositions"),
    "sites",
)


def load(name: str) -> Benchmark:
    """bench/NAME.py: its docstring describes it, add_options and run are its two parts."""
    module = importlib.import_module(f"bench.{name}")
    return Benchmark(name, module.__doc__ or "", module.add_options, module.run)


def make_parser() -> Parser:
    parser = Parser(prog="python3 -m bench", description="Run one benchmark and print its table.")
    parser.add_argument("--list", action="store_true", help="list the benchmarks and stop")
    names = parser.add_subparsers(dest="name", metavar="NAME", title="benchmarks")
    for name in NAMES:
        benchmark = load(name)
        command = names.add_parser(
            name, help=benchmark.title, description=benchmark.title, epilog=benchmark.text
        )
        benchmark.add_options(command)
        command.add_argument(
            "--write", action="store_true", help=f"write the table into {PAGE.name}, with the date"
        )
        command.set_defaults(benchmark=benchmark)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = make_parser()
    args = parser.parse_args(words)
    if args.list:
        for name in NAMES:
            print(f"{name:<18}{load(name).title}")
        return 0
    if args.name is None:
        parser.error(f"name a benchmark: {', '.join(NAMES)}")
    table = args.benchmark.run(args)
    print(table.as_text())
    if args.write:
        command = " ".join(
            ["python3", "-m", "bench", *(word for word in words if word != "--write")]
        )
        write_section(args.benchmark, command, table)
    return 0


if __name__ == "__main__":
    run(main)
