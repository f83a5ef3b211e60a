"""A person's mistake in an experiment, and the checks that find it."""

import difflib
import re
from collections.abc import Iterable

LONGEST_LINE = 1000
LONG_NUMBER = re.compile(r"[0-9]{40,}")


class SpecError(ValueError):
    """A person's mistake in an experiment; the message is one line and names the option."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class FileError(SpecError):
    """A mistake in a file that a person wrote; the message names its keys as they are there."""


def one_line(text: str) -> str:
    """What was given may be anything: escapes for control characters, a long middle left out."""
    text = LONG_NUMBER.sub(lambda digits: f"{digits[0][:9]}... ({len(digits[0])} digits)", text)
    if len(text) > LONGEST_LINE:
        text = f"{text[: LONGEST_LINE - 200]} ... {text[-100:]}"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def file_problem(error: OSError) -> str:
    """Which file could not be read or written, and why."""
    return one_line(f"{error.filename}: {error.strerror}" if error.filename else str(error))


def one_of(name: str, value: str, choices: Iterable[str]) -> None:
    """SpecError where `value` is none of the choices."""
    names = list(choices)
    if value not in names:
        raise SpecError(unknown(name, value, names))


def unknown(name: str, value: str, choices: Iterable[str]) -> str:
    """What an unknown name is told: what exists, and what was probably meant."""
    names = list(choices)
    hint = did_you_mean(value, names)
    return f"unknown {name} {value!r}; there is: {', '.join(names)}{hint}"


def did_you_mean(value: str, choices: Iterable[str]) -> str:
    """; did you mean allreduce? Or nothing, where no name is like it."""
    names = {name.casefold(): name for name in choices}
    alike = difflib.get_close_matches(value.casefold(), names, n=1)
    return f"; did you mean {names[alike[0]]}?" if alike else ""


def between(name: str, value: float, low: float, high: float) -> None:
    """SpecError where `value` is below `low`, above `high`, or not a number."""
    if not low <= value <= high:  # false for NaN too
        given = f"{value:,}" if abs(value) < 10**15 else str(value)
        raise SpecError(f"{name} must be between {low:,} and {high:,}, not {given}")
