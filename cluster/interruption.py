"""What Ctrl-C, SIGTERM and a closed terminal do: Interrupted is raised once, wherever the program is."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN_S = 0.01


class Interrupted(KeyboardInterrupt):
    """Carries the exit code."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code


def listen() -> None:
    """But to what is ignored, as a closed terminal is under nohup."""
    for number in NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Once: a second Ctrl-C must not interrupt the cleaning up."""
    for one in NUMBERS:
        signal.signal(one, signal.SIG_IGN)
    raise Interrupted(128 + number)


def say_again(lost: Any) -> None:
    """For sys.unraisablehook: what is raised in the middle of a destructor or a callback, Python drops.

    Importing a module has such callbacks. An interruption that fell into one comes again in a moment.
    """
    if not isinstance(lost.exc_value, Interrupted):
        sys.__unraisablehook__(lost)
        return
    code = lost.exc_value.code

    def again(number: int, frame: FrameType | None) -> NoReturn:
        raise Interrupted(code)

    signal.signal(signal.SIGALRM, again)
    signal.setitimer(signal.ITIMER_REAL, AGAIN_S)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Signals that come meanwhile count afterwards: a process that is half started has no number to end it by."""
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, frame: came.append(number))
        for number in (*NUMBERS, signal.SIGALRM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])
