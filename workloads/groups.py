"""python3 -m workloads.groups: who averages with whom, rounds to consensus, and bytes."""

import textwrap
from collections.abc import Iterator, Sequence

from cluster.spec.command_line import Parser, run
from cluster.spec.schedules.consensus import (
    HORIZON,
    SCHEDULE_CHOICES,
    Plan,
    available,
    choose_schedule,
    count_text,
    plan,
)
from cluster.spec.schedules.pairwise import SCHEDULES, Partition, groups, period


def _parser() -> Parser:
    about = "\n".join(f"  {name:<12}{text}" for name, text in SCHEDULE_CHOICES.items())
    parser = Parser(
        prog="python3 -m workloads.groups",
        description="Show who averages with whom, how fast that reaches everybody, and at what "
        "cost.\nEvery round cuts the workers into groups of at most passes + 1; a group averages "
        "its\nmembers' models. Schedules:\n\n" + about,
        epilog="exact       after how many rounds every worker holds the mean of all\n"
        "residual    distance from that mean, root mean square, relative to the start\n"
        "M           bytes of one model; in a group of g each member sends 2(g-1)/g M\n\n"
        "example: python3 -m workloads.groups --workers 6 --passes 2",
    )
    parser.add_argument("--workers", type=int, required=True, metavar="N", help="1 to 1024")
    parser.add_argument(
        "--passes", type=int, required=True, metavar="P", help="1 or more; N-1 is everybody"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random schedule (default: 0)")
    parser.add_argument(
        "--rounds", type=int, metavar="K", help="rounds to show, 1 to 1000 (default: one cycle)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    args = parser.parse_args(arguments)
    if not 1 <= args.workers <= 1024:
        parser.error(f"--workers must be 1 to 1024, not {args.workers}")
    if args.passes < 1:
        parser.error(f"--passes must be 1 or more, not {args.passes}")
    if args.rounds is not None and not 1 <= args.rounds <= 1000:
        parser.error(f"--rounds must be 1 to 1000, not {args.rounds}")
    print(_describe(args.workers, args.passes, args.seed, args.rounds))
    return 0


def _describe(workers: int, passes: int, seed: int, rounds: int | None) -> str:
    after = rounds or HORIZON
    names = available(passes)
    plans = [plan(workers, passes, name, seed, max(after, HORIZON)) for name in names]
    lines = [
        f"{count_text(workers, 'worker')}, {count_text(passes, 'pass')}: "
        f"groups of at most {min(passes + 1, workers)}",
        "",
        f"{'schedule':<13}{'exact after':<13}{f'residual after {after}':<20}"
        f"{'M per round':<13}M to exact consensus",
        *(_plan_line(found, after) for found in plans),
        *(f"{name:<13}only for passes 1" for name in SCHEDULES if name not in names),
    ]
    shown: dict[tuple[Partition, ...], str] = {}
    for found in plans:
        same = shown.setdefault(found.cycle, found.schedule)
        if same != found.schedule:
            lines += ["", f"{found.schedule}: as {same}"]
        else:
            lines += ["", *_round_lines(found, rounds)]
    choice = choose_schedule(workers, passes, seed)
    why = textwrap.wrap(f"auto takes {choice.schedule}: {choice.why}.", 100)
    return "\n".join([*lines, "", *why])


def _plan_line(found: Plan, after: int) -> str:
    exact, sent_m, left = found.rounds_to_exact, found.sent_m_to_exact, found.residuals[after - 1]
    return (
        f"{found.schedule:<13}"
        f"{'-' if exact is None else count_text(exact, 'round'):<13}"
        f"{'<1e-12' if 0 < left < 1e-12 else format(left, '.3g'):<20}"
        f"{found.sent_m_per_round:<13.4g}"
        f"{'-' if sent_m is None else format(sent_m, '.4g')}"
    )


def _round_lines(found: Plan, rounds: int | None) -> Iterator[str]:
    repeats = period(found.workers, found.passes, found.schedule)
    again = "never repeats" if repeats is None else f"repeats after {count_text(repeats, 'round')}"
    yield f"{found.schedule} ({again})"
    shown = rounds or min(len(found.cycle), 8)
    for t in range(shown):
        cut = groups(t, found.workers, found.passes, found.schedule, found.seed)
        yield f"  round {t:<4}{_row(cut)}"
    if repeats is None or shown < repeats:
        yield "  ..."


def _row(partition: Partition) -> str:
    """`0 1 | 2 3 | ... | 126 127  (64 groups)`, with the last group, which may be smaller."""
    texts = [_elide([str(member) for member in members], " ", 30) for members in partition]
    text = _elide(texts, " | ", 74)
    return text if "..." not in text else f"{text}  ({count_text(len(partition), 'group')})"


def _elide(parts: list[str], between: str, width: int) -> str:
    whole = between.join(parts)
    if len(whole) <= width:
        return whole
    kept = list(parts[:1])
    while len(between.join([*kept, parts[len(kept)], "...", parts[-1]])) <= width:
        kept.append(parts[len(kept)])
    return between.join([*kept, "...", parts[-1]])


if __name__ == "__main__":
    run(main)
