"""The command lines of all programs: a person's mistake is one line and exit code 2."""

import argparse
import errno
import io
import os
import sys
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from cluster.spec.errors import SpecError, did_you_mean, file_problem, one_line, unknown

T = TypeVar("T")

LONGEST_PATH = 1000
"""Bytes; the system's limit is 4,096, and a run folder's own names come on top."""
LONGEST_NAME = 255
UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")
"""Unicode's control characters, lone surrogates (bytes that are not UTF-8) and line separators."""
GONE = (errno.EPIPE, errno.EIO, errno.EBADF)
"""Errors of an output whose reader or terminal is no longer there."""


class Parser(argparse.ArgumentParser):
    """Reports a mistake in one line and says what was probably meant."""

    def __init__(self, *args: Any, speaker: str | None = None, **options: Any) -> None:
        """`speaker` begins every message, where it is shorter than `prog`."""
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **options)
        self._speaker = speaker or self.prog

    def error(self, message: str) -> NoReturn:
        self.refuse(f"{message}; see {self.prog} --help")

    def refuse(self, message: str) -> NoReturn:
        self.exit(2, one_line(f"{self._speaker}: {message}") + "\n")

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> argparse.Namespace:
        found, unrecognized = self.parse_known_args(args, namespace)
        if unrecognized:
            flag = unrecognized[0].partition("=")[0]
            hint = did_you_mean(flag, self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(unrecognized)}{hint}")
        return found

    def action_of(self, flag: str) -> argparse.Action:
        """What a flag stands for."""
        return self._option_string_actions[flag]

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        if action.option_strings and "--" in arg_strings:  # argparse would make it an empty list
            raise argparse.ArgumentError(action, "-- is no value")
        return super()._get_values(action, arg_strings)

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


def parse_path(text: str) -> Path:
    """A file or folder whose name can be handed to nodes and printed; ValueError for others."""
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        raise ValueError(f"{text!r}: there is no such user") from None
    whole = str(path.absolute())
    if any(unicodedata.category(character) in UNPRINTABLE for character in whole):
        raise ValueError(f"{whole!r} has a line break or control character: choose another name")
    length = len(os.fsencode(whole))
    if length > LONGEST_PATH or any(len(os.fsencode(part)) > LONGEST_NAME for part in path.parts):
        raise ValueError(
            f"{whole!r} is too long, {length:,} bytes: a path has at most {LONGEST_PATH:,}, a name"
            f" {LONGEST_NAME}"
        )
    return path


def parse_port(text: str) -> int:
    """ValueError for what is no port."""
    if not (text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 2**16):
        raise ValueError(f"must be a port from 1 to 65535, not {text!r}")
    return int(text)


def run(main: Callable[[], int]) -> NoReturn:
    """Exit with main's code: 2 for a person's mistake, 1 for a file's trouble, 130 after Ctrl-C."""
    secure_streams()
    try:
        code = main()
        sys.stdout.flush()
    except SpecError as error:
        print(f"gradwire: {error}", file=sys.stderr)
        code = 2
    except OSError as error:
        print(f"gradwire: {file_problem(error)}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def secure_streams() -> None:
    """Standard output and error that never end the program: see _Lasting.

    One that was closed (`2>&-`) gets its number back, else the next open file would have it.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        raw = _Lasting(descriptor, "w", closefd=False)
        stream = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=getattr(getattr(sys, name), "encoding", None),
            errors="backslashreplace",
            line_buffering=name == "stderr" or raw.isatty(),
        )
        setattr(sys, name, stream)


class _Lasting(io.FileIO):
    """An output that outlives its reader: after `| head` has ended, the rest goes nowhere.

    A full disk is an error of standard output only: a sweep goes on without its progress.
    """

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), self.fileno())
            if self.fileno() == 1 and error.errno not in GONE:
                raise OSError(error.errno, error.strerror, "standard output") from None
            return len(data)
