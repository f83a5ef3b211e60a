"""A person's mistake in an experiment, and the checks that find it."""

import difflib
from collections.abc import Iterable


class SpecError(ValueError):
    """A person's mistake in an experiment; the message is one line and names the option."""


def one_of(name: str, value: str, choices: Iterable[str]) -> None:
    """SpecError where `value` is none of the choices."""
    names = list(choices)
    if value not in names:
        raise SpecError(unknown(name, value, names))


def unknown(name: str, value: str, choices: Iterable[str]) -> str:
    """What an unknown name is told: what exists, and what was probably meant."""
    names = list(choices)
    meant = difflib.get_close_matches(value, names, n=1)
    hint = f"; did you mean {meant[0]}?" if meant else ""
    return f"unknown {name} {value!r}; there is: {', '.join(names)}{hint}"


def between(name: str, value: float, low: float, high: float) -> None:
    """SpecError where `value` is below `low`, above `high`, or not a number."""
    if not low <= value <= high:  # false for NaN too
        raise SpecError(f"{name} must be between {low:,} and {high:,}, not {value:,}")
