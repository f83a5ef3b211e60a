"""Measured numbers in order, as a sentence: the best, the next, the last; or why there is none."""

from collections.abc import Callable, Sequence

from analysis.tables.noise import Measured, mean_text, not_distinguishable, why_no_order

MOST_NAMES = 2


def listed(names: Sequence[str], most: int | None = None) -> str:
    """Names that contain commas are separated by semicolons."""
    between = "; " if any("," in name for name in names) else ", "
    if most is not None and len(names) > most:
        return f"{between.join(names[:most])} and {len(names) - most} more"
    return " and ".join([between.join(names[:-1]), names[-1]] if len(names) > 1 else names)


def ranked(
    found: Sequence[Measured], text: Callable[[float], str], repeated: str = "seed"
) -> tuple[str, str]:
    """The best, which comes first, and the rest: the runner-up, or what has no order with it."""
    best, others = found[0], found[1:]
    near = not_distinguishable(best, others)
    apart = [other for other in others if other not in near]
    lead, parts = value_text(best, text), [""]
    if near:
        last = value_text(near[-1], text)
        others_text = f"and {last}" if len(near) == 1 else f"to {last}, {len(near) + 1} in all"
        parts = [f": {lead} {others_text}, not distinguishable ({why_no_order([best, *near])})"]
        lead = "no clear winner"
    if apart and not_distinguishable(apart[0], apart[1:]) == apart[1:] != []:
        names = listed([value_text(number, text) for number in apart], MOST_NAMES)
        parts.append(f"then, in no order: {names}{_times(best, apart[0])}")
    elif apart:
        parts.append(f"next: {value_text(apart[0], text)}{_times(best, apart[0])}")
        if len(apart) > 1:
            parts.append(f"last: {value_text(apart[-1], text)}{_times(best, apart[-1])}")
    is_told = near and any(number.seeds == 1 for number in found)
    return lead, "; ".join(parts) + "." + ("" if is_told else _repetitions(found, repeated))


def value_text(number: Measured, text: Callable[[float], str]) -> str:
    value = text(number.mean) if number.sd is None else mean_text(text, number.mean, number.sd)
    return f"{number.label}, {value}"


def _times(best: Measured, other: Measured) -> str:
    """Of times and bytes, which are better when less."""
    ratio = other.mean / best.mean if best.is_time and best.mean else 0
    return f" ({ratio:.1f}×)" if ratio > 1 else ""


def _repetitions(found: Sequence[Measured], noun: str) -> str:
    counts = sorted({number.seeds for number in found})
    if counts == [1]:
        return f" One {noun} each." if len(found) > 1 else f" One {noun}."
    ends = " to ".join(dict.fromkeys(str(end) for end in (counts[0], counts[-1])))
    return f" Mean ± sd of {ends} {noun}s."
