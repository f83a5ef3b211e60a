"""Run a test in a network of its own: on the host's, other tests' containers add interfaces."""

from __future__ import annotations

import functools
import multiprocessing
import os
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from cluster.namespaces import network

CLONE_NEWUSER = 0x10000000
OWN, NEIGHBOUR = "10.77.0.1", "10.77.0.2"


def in_own_network(test: Callable[[], None]) -> Callable[[], None]:
    """A decorator: the test runs in a new network namespace with a veth pair, left and right."""

    @functools.wraps(test)
    def forked() -> None:
        context = multiprocessing.get_context("fork")
        answer, to = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(test, to))
        process.start()
        to.close()
        kind, said = answer.recv()
        process.join()
        if kind == "skip":
            pytest.skip(said)
        assert kind == "passed", said

    return forked


def _run(test: Callable[[], None], to: Any) -> None:
    try:
        kind = network.CLONE_NEWNET | (0 if os.geteuid() == 0 else CLONE_NEWUSER)
        network.check(network.libc.unshare(kind), "unshare")
    except OSError as error:
        to.send(("skip", f"no network namespaces here: {error}"))
        return
    try:
        network.disable_ipv6()  # sends packets of its own
        network.ip_batch(
            "link set lo up",
            "link add left mtu 1400 type veth peer name right mtu 9000",
            "link set left up",
            f"addr add {OWN}/24 dev left",
            "link set right up",
        )
        test()
        to.send(("passed", ""))
    except BaseException:
        to.send(("failed", traceback.format_exc()))
