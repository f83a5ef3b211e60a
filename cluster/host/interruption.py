"""Ctrl-C, SIGTERM and a closed terminal: Interrupted is raised once, wherever the program is."""

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
    """Raise Interrupted on these signals, except ignored ones, as SIGHUP is under nohup."""
    for number in NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def listen_again() -> None:
    """After an interruption whose clean-up is over: another one ends what remains to be shown."""
    for number in NUMBERS:
        signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Once: a second Ctrl-C must not interrupt the clean-up."""
    for other in NUMBERS:
        signal.signal(other, signal.SIG_IGN)
    raise Interrupted(128 + number)


def raise_again(lost: Any) -> None:
    """For sys.unraisablehook: raise an interruption again that Python dropped.

    Python drops what is raised in a destructor or a callback; importing modules has callbacks.
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
    """Delay signals until the block ends: a process that is starting has no id to end it by."""
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
