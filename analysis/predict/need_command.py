"""python3 -m analysis.predict need: which link is enough for a model, by strategy and codec.

python3 -m analysis.predict need --workers 16 --model-bytes 440M --compute 300ms --link 1gbit
"""

import argparse
from collections.abc import Iterator, Sequence

from analysis.predict.asking import (
    add_cluster,
    add_fit,
    carries,
    check,
    named,
    read_fit,
    refuse_codec,
)
from analysis.predict.fitted import Fitted, error_text, far_text
from analysis.predict.need import PAYS, RATES_BIT, UTILISATIONS, Need, best_first
from analysis.predict.simulation.nodes import Costs
from cluster.observe.units import bits_rate, bytes_text, percent_text, seconds_text
from cluster.spec.command_line import Parser, argument, parse_path
from cluster.spec.errors import SpecError
from cluster.spec.exchange.codecs import parse_codec

CODECS = "none,fp16,int8,topk:0.01"
MOST_WORKERS = 256


def _parser() -> Parser:
    parser = Parser(
        prog="python3 -m analysis.predict need",
        description="The link rate at which workers compute for 50, 75, 90 and 95 % of a step, for"
        " each strategy,\nlocal steps and codec; below which rate a codec pays; and with --link,"
        " the best of them at that rate.",
        epilog="example: python3 -m analysis.predict need --workers 16 --model-bytes 440M"
        " --compute 300ms --link 1gbit",
    )
    add = parser.add_argument
    add_cluster(parser, needs_link=False, most=MOST_WORKERS)
    add("--strategy", default="all", metavar="NAME[,NAME]", help="or all (default: all)")
    add("--passes", type=int, default=1, metavar="P", help="where there are passes (default: 1)")
    local = "steps from exchange to exchange, such as 1,8,64 (default: the strategy's own)"
    add("--local-steps", default="", metavar="H[,H]", help=local)
    add("--compress", default=CODECS, metavar="CODEC[,CODEC]", help=f"(default: {CODECS})")
    figure = "also write the curves as a page, such as need.html"
    add("--figure", type=argument(parse_path), metavar="FILE", help=figure)
    free = "leave out what messages and bytes cost on a host: only links take time"
    add("--links-only", action="store_true", help=free)
    add_fit(parser)
    return parser


def needs(args: argparse.Namespace, model: Fitted) -> list[Need]:
    """Every composition that there is; SpecError for what cannot be."""
    check(args)
    if args.workers > MOST_WORKERS or not args.compute:
        raise SpecError(
            f"need takes 2 to {MOST_WORKERS} workers and a computing time above 0, not"
            f" {args.workers} workers and {seconds_text(args.compute)}"
        )
    codecs = args.compress.split(",")
    for codec in codecs:
        parse_codec(codec)
    given = [text for text in args.local_steps.split(",") if text]
    for text in given:
        if not text.isdecimal():
            raise SpecError(f"--local-steps takes whole numbers, such as 1,8,64, not {text!r}")
    local: list[int | None] = [int(text) for text in given] or [None]
    costs = Costs() if args.links_only else model.costs
    for strategy in args.strategies:
        if not any(carries(strategy, codec) for codec in codecs):
            refuse_codec([strategy], codecs[0])
    return [
        Need(named(args, strategy, codec, steps), costs)
        for strategy in args.strategies
        for steps in local
        for codec in codecs
        if carries(strategy, codec)
    ]


def table(found: Sequence[Need]) -> Iterator[str]:
    shares = "".join(f"{percent_text(share, 0):>13}" for share in UTILISATIONS)
    yield f"{'composition':<36}{shares}{'codec pays':>19}"
    plain = {(n.cluster.strategy, n.cluster.local_steps): n for n in found if _is_plain(n)}
    for need in found:
        rates = "".join(f"{_rate(need.rate_bit(share)):>13}" for share in UTILISATIONS)
        same = plain.get((need.cluster.strategy, need.cluster.local_steps))
        yield f"{need.label:<36}{rates}{_pays(need, same):>19}".rstrip()
    yield ""
    yield "rate of every node's link at which a worker computes for that share of a step; -: at no"
    yield "rate, since delays and the host's costs alone take longer (--links-only: delays alone)"
    yield (
        f"codec pays: at rates below it, a step is more than {percent_text(PAYS, 0)} shorter than"
        " without it, encoding included (--links-only: without)"
    )
    yield "strategies that average less often, or in groups, and lossy codecs do not learn the same"


def _is_plain(need: Need) -> bool:
    return need.cluster.compress == "none"


def _pays(need: Need, plain: Need | None) -> str:
    if plain is None or plain is need:
        return ""
    found = need.pays_below_bit(plain)
    if found is None:
        return "never"
    return "always" if found >= RATES_BIT[-1] else f"below {_rate(found)}"


def _rate(rate_bit: float | None) -> str:
    if rate_bit is None:
        return "-"
    if rate_bit <= RATES_BIT[0]:
        return f"< {bits_rate(RATES_BIT[0] / 8)}"
    return bits_rate(rate_bit / 8)


def best(found: Sequence[Need], rate_bit: float) -> Iterator[str]:
    yield f"at {bits_rate(rate_bit / 8)}, the shortest step first"
    for need in best_first(found, rate_bit)[:8]:
        share = percent_text(need.utilisation(rate_bit), 0)
        yield f"  {need.label:<36}{seconds_text(need.step_s(rate_bit)):>10}, computing {share}"


def drawn_rates(found: Sequence[Need]) -> Sequence[float]:
    """From where some compute for a twentieth of a step to where all have come to their most."""
    highest = RATES_BIT[-1]
    low = min(need.rate_bit(0.05) or highest for need in found)
    high = max(need.rate_bit(0.99 * need.utilisation(highest)) or highest for need in found)
    return [rate for rate in RATES_BIT if low / 2 <= rate <= 2 * high]


def write_figure(found: Sequence[Need], args: argparse.Namespace) -> None:
    import plotly.graph_objects as draw

    figure = draw.Figure()
    for need in found:
        rates = drawn_rates(found)
        shares = [100 * need.utilisation(rate) for rate in rates]
        mbit = [rate / 1e6 for rate in rates]
        figure.add_scatter(x=mbit, y=shares, name=need.label, mode="lines")
    title = f"{args.workers} workers, {bytes_text(args.model_bytes)}"
    title += f", computing {seconds_text(args.compute)}"
    figure.update_layout(title=title, xaxis_type="log")
    figure.update_xaxes(title="link (Mbit/s)")
    figure.update_yaxes(title="computing, of a step (%)", range=[0, 100])
    figure.write_html(args.figure, include_plotlyjs=True)


def main(arguments: Sequence[str]) -> int:
    parser = _parser()
    args = parser.parse_args(arguments)
    model = read_fit(parser, args)
    try:
        found = needs(args, model)
    except ValueError as error:
        parser.error(str(error))
    print(
        f"N = {args.workers} workers, M = {args.model_bytes:,} bytes,"
        f" computing {seconds_text(args.compute)}\n"
    )
    print("\n".join(table(found)))
    print(error_text(model))
    if any("far" in model.outside(need.cluster) for need in found):
        print(far_text(model))
    if args.link is not None:
        print()
        print("\n".join(best(found, args.link.rate_bit)))
    if args.figure is not None:
        try:
            write_figure(found, args)
        except OSError as error:
            parser.error(f"cannot write {args.figure}: {error.strerror}")
        print(args.figure)
    return 0
