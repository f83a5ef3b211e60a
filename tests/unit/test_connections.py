"""Bytes of a process's TCP connections, as the kernel counts them."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.spec.documents.events import ConnectionBytes
from workloads.counters.connections import Connection, read_connections
from workloads.program.on_path.gradwire_tcp import parse_tcp_info

RECORDED = Path(__file__).resolve().parents[1] / "data" / "tcp_info"
"""tcp_info of both ends of a connection, Linux 6.18; the first sent 70000 bytes, received 300."""


def recorded(sent: int, received: int) -> bytes:
    return bytes.fromhex((RECORDED / f"sent-{sent}-received-{received}.hex").read_text())


def test_acknowledged_and_received_bytes_are_read() -> None:
    assert parse_tcp_info(recorded(70000, 300)) == (70001, 300, 0)  # it opened the connection
    assert parse_tcp_info(recorded(300, 70000)) == (300, 70000, 0)


def test_retransmitted_bytes_are_read() -> None:
    state = bytearray(recorded(70000, 300))
    state[208:216] = struct.pack("<Q", 1448)
    assert parse_tcp_info(bytes(state)) == (70001, 300, 1448)


@pytest.mark.parametrize("length", [104, 192, 208])  # as of Linux 2.6, 4.10 and 4.18
def test_an_older_kernel_does_not_count_retransmitted_bytes(length: int) -> None:
    assert parse_tcp_info(recorded(70000, 300)[:length]) is None


@contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as sender:
            receiver, _ = server.accept()
            with receiver:
                yield sender, receiver


def connection_of(end: socket.socket) -> Connection:
    address, port = end.getsockname()
    own = f"{address}:{port}"
    (connection,) = [c for c in read_connections() or () if c.counted.local == own]
    return connection


def found(end: socket.socket) -> ConnectionBytes:
    return connection_of(end).counted


def test_both_ends_count_the_same_and_name_each_other() -> None:
    with connected() as (sender, receiver):
        before = found(sender), found(receiver)
        sender.sendall(b"x" * 50_000)
        assert len(receiver.recv(50_000, socket.MSG_WAITALL)) == 50_000
        receiver.sendall(b"y" * 7)
        assert sender.recv(7) == b"y" * 7
        one, other = found(sender), found(receiver)
    assert (one.local, one.remote) == (other.remote, other.local)
    assert gone(before[0], one) == (50_000, 7)
    assert gone(before[1], other) == (7, 50_000)


def gone(before: ConnectionBytes, after: ConnectionBytes) -> tuple[int, int]:
    return (
        after.sent_bytes - before.sent_bytes,
        after.received_bytes - before.received_bytes,
    )


def test_an_ipv6_socket_names_an_ipv4_address_as_the_other_end_does() -> None:
    """As torch's store listens."""
    with socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as sender:
            receiver, _ = server.accept()
            with receiver:
                ends = {(c.local, c.remote) for c, _ in read_connections() or ()}
                own = sender.getsockname()[1]
                assert (f"127.0.0.1:{port}", f"127.0.0.1:{own}") in ends
                assert (f"127.0.0.1:{own}", f"127.0.0.1:{port}") in ends


def test_other_descriptors_are_ignored_and_none_is_left_open() -> None:
    before = read_connections()
    with (
        socket.create_server(("127.0.0.1", 0)),
        socket.socket(type=socket.SOCK_DGRAM),
        socket.socket(socket.AF_UNIX),
        socket.socket(),
    ):
        descriptors = set(os.listdir("/proc/self/fd"))
        assert read_connections() == before
        assert set(os.listdir("/proc/self/fd")) == descriptors


def test_retransmissions_are_counted_in_bytes_not_in_full_segments() -> None:
    """A lost control message of Horovod has 50 bytes; counted as 1448 it would be a gradient's."""
    with connected() as (sender, receiver):
        before = found(sender)
        _lose_everything(receiver)
        sender.sendall(b"x" * 50)
        deadline = time.monotonic() + 120
        while not connection_of(sender).retransmitted_bytes and time.monotonic() < deadline:
            time.sleep(0.05)
        after = connection_of(sender)
        assert after.retransmitted_bytes > 0
        assert after.retransmitted_bytes % 50 == 0
        assert gone(before, after.counted) == (50, 0)


def _lose_everything(receiver: socket.socket) -> None:
    """By a filter of one instruction, "keep 0 bytes", for what arrives at this socket."""
    instruction = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0), 8)
    program = struct.pack("HL", 1, ctypes.addressof(instruction))
    receiver.setsockopt(socket.SOL_SOCKET, 26, program)  # SO_ATTACH_FILTER
