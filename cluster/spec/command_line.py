"""The command lines of all programs: a person's mistake is one line and exit code 2."""

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

from cluster.spec.errors import unknown

T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """Reports a mistake in one line and says what was probably meant."""

    def __init__(self, *args: Any, speaker: str | None = None, **options: Any) -> None:
        """`speaker` begins every message, where it is shorter than `prog`."""
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **options)
        self._speaker = speaker or self.prog

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self._speaker}: {message}; see {self.prog} --help\n")

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        found, unrecognized = self.parse_known_args(args, namespace)
        if unrecognized:
            flag = unrecognized[0].partition("=")[0]
            meant = difflib.get_close_matches(flag, self._option_string_actions, n=1, cutoff=0.7)
            hint = f"; did you mean {meant[0]}?" if meant else ""
            self.error(f"unrecognized arguments: {' '.join(unrecognized)}{hint}")
        return found

    def action_of(self, flag: str) -> argparse.Action:
        """What a flag stands for."""
        return self._option_string_actions[flag]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            name = action.option_strings[-1] if action.option_strings else action.dest
            message = unknown(name.lstrip("-"), str(value), map(str, action.choices))
            raise argparse.ArgumentError(None, message)


def argument(parse: Callable[[str], T]) -> Callable[[str], T]:
    """A `type=` for argparse whose ValueError is told in its own words."""

    def value(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return value


def run(main: Callable[[], int]) -> NoReturn:
    """Exit with main's code; 130 after Ctrl-C, 0 where the reader of the output has closed it."""
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)
