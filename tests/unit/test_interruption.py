"""An interruption is raised once, is not lost, and waits where it must not come."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator

import pytest

from cluster.host import interruption
from cluster.host.interruption import NUMBERS, Interrupted


@pytest.fixture(autouse=True)
def _listening(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in (*NUMBERS, signal.SIGALRM)}
    for number in NUMBERS:  # nohup ignores SIGHUP
        signal.signal(number, signal.SIG_DFL)
    monkeypatch.setattr(sys, "unraisablehook", interruption.raise_again)
    interruption.listen()
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_it_carries_the_exit_code_and_comes_once(number: signal.Signals) -> None:
    with pytest.raises(Interrupted) as caught:
        signal.raise_signal(number)
    assert caught.value.code == 128 + number
    for later in NUMBERS:
        signal.raise_signal(later)


class Dying:
    """Python drops what a destructor raises."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def test_one_that_falls_into_a_destructor_is_not_lost() -> None:
    def die() -> None:
        Dying()
        time.sleep(60)

    with pytest.raises(Interrupted) as caught:
        die()
    assert caught.value.code == 128 + signal.SIGTERM


def test_one_that_is_held_back_comes_afterwards() -> None:
    reached = []

    def start() -> None:
        with interruption.held_back():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            reached.append("the end")
        time.sleep(60)

    with pytest.raises(Interrupted) as caught:
        start()
    assert reached == ["the end"]
    assert caught.value.code == 128 + signal.SIGINT


def test_where_none_came_nothing_changes() -> None:
    before = [signal.getsignal(number) for number in NUMBERS]
    with interruption.held_back():
        pass
    assert [signal.getsignal(number) for number in NUMBERS] == before
