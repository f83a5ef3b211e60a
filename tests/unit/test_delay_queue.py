"""The delay line between sites, and when it takes the place of netem."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from socket import inet_aton

import pytest

from cluster.engine import EngineUnavailable
from cluster.links import delay_line, kernel_support, router
from cluster.spec.links import Link, parse_link
from cluster.spec.sites import Pair

PATHS: dict[Pair, Link] = {
    ("a", "b"): parse_link("50mbit/200ms"),
    ("b", "c"): parse_link("50mbit"),
}
ADDRESSES = {"a": ["10.0.0.1", "10.0.0.2"], "b": ["10.0.0.3"], "c": ["10.0.0.4"]}


def test_both_directions_of_a_path_with_a_delay_are_held() -> None:
    found = delay_line.delays(PATHS, ADDRESSES)
    there = [inet_aton(node) + inet_aton("10.0.0.3") for node in ADDRESSES["a"]]
    back = [inet_aton("10.0.0.3") + inet_aton(node) for node in ADDRESSES["a"]]
    assert found == dict.fromkeys([*there, *back], 0.2)


def packet(sender: str, receiver: str, text: bytes) -> bytes:
    return bytes(delay_line.ADDRESSES.start) + inet_aton(sender) + inet_aton(receiver) + text


@pytest.fixture
def line() -> Iterator[socket.socket]:
    """The other end of what a delay line reads and writes."""
    ours, device = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    device.setblocking(False)
    process = os.fork()
    if process == 0:
        delay_line.hold(device.fileno(), delay_line.delays(PATHS, ADDRESSES))
    device.close()
    ours.settimeout(60)
    yield ours
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    ours.close()


def test_packets_of_a_path_come_back_in_order_after_its_delay(line: socket.socket) -> None:
    far = [packet("10.0.0.1", "10.0.0.3", b"%d" % number) for number in range(100)]
    near = packet("10.0.0.3", "10.0.0.4", b"near")
    began = time.monotonic()
    for sent in (*far, near):
        line.send(sent)
    assert line.recv(100) == near
    assert [line.recv(100) for _ in far] == far
    assert time.monotonic() - began >= 0.2


def test_a_path_is_delayed_by_netem_or_else_by_the_line() -> None:
    addresses, pair = ADDRESSES, ("a", "b")
    by_line = [" ".join(c) for c in router.delay_commands(PATHS, pair, addresses, delay_line=True)]
    assert len(by_line) == 4
    assert all(command.endswith(f"dev {delay_line.DEVICE}") for command in by_line)
    by_netem = [" ".join(c) for c in router.delay_commands(PATHS, pair, addresses)]
    assert [" netem " in command for command in by_netem] == [True, True]
    assert router.delay_commands(PATHS, ("b", "c"), addresses, delay_line=True) == []


def test_only_a_delay_between_sites_does_without_netem() -> None:
    far, lossy = parse_link("50mbit/40ms"), parse_link("50mbit/40ms/1%")
    modules = {*kernel_support.FOR_RATES, "tun"}
    kernel_support.check([], modules, [far])
    assert kernel_support.needs_delay_line([far], modules)
    assert not kernel_support.needs_delay_line([far], modules | {"sch_netem"})
    assert not kernel_support.needs_delay_line([parse_link("50mbit")], modules)
    for links, paths in (([far], []), ([], [lossy])):
        with pytest.raises(EngineUnavailable, match="a delay between sites, too"):
            kernel_support.check(links, modules, paths)
    with pytest.raises(EngineUnavailable, match="sch_netem"):
        kernel_support.check([], modules - {"tun"}, [far])
