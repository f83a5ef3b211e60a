"""What a node counts of itself, beside what the kernel says from outside."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import time
from pathlib import Path

from cluster.records import Counters, parse_net_dev, read_node_counters, total
from tests.own_network import NEIGHBOUR, in_own_network
from workloads.own_counters import full_segment, read_interfaces, read_repeated, read_segments


@in_own_network
def test_a_node_counts_the_same_from_inside_and_outside_without_what_it_says_to_itself() -> None:
    def others() -> Counters:
        text = Path("/proc/self/net/dev").read_text()
        return total(c for name, c in parse_net_dev(text).items() if name != "lo")

    with socket.socket(type=socket.SOCK_DGRAM) as sender:
        sender.sendto(b"is anybody there?", (NEIGHBOUR, 9))
    assert others().sent_bytes > 0
    before, inside, outside = others(), read_interfaces(), read_node_counters(os.getpid())
    after = others()
    for read in (inside, outside):
        for low, value, high in zip(before.values(), read.values(), after.values(), strict=True):
            assert low <= value <= high


def test_what_tcp_sent_again_is_counted_in_bytes_not_in_full_segments() -> None:
    """A lost message of Horovod's talk has 50 bytes; taken for 1448, it would pass for gradients."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(type=socket.SOCK_DGRAM):
        with socket.create_connection(server.getsockname()) as sender:
            receiver, _ = server.accept()
            with receiver:
                descriptors = set(os.listdir("/proc/self/fd"))
                before = read_repeated()
                _lose_everything(receiver)
                sender.sendall(b"x" * 50)
                deadline = time.monotonic() + 120
                while read_repeated() == before and time.monotonic() < deadline:
                    time.sleep(0.05)
                repeated = read_repeated() - before
                assert repeated > 0
                assert repeated % 50 == 0
                assert set(os.listdir("/proc/self/fd")) == descriptors


def _lose_everything(receiver: socket.socket) -> None:
    """By a filter of one instruction, "keep 0 bytes", for what arrives at this socket."""
    instruction = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0), 8)
    program = struct.pack("HL", 1, ctypes.addressof(instruction))
    receiver.setsockopt(socket.SOL_SOCKET, 26, program)  # SO_ATTACH_FILTER


def test_segments_with_data_are_counted_and_bare_acknowledgements_are_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as sender:
            receiver, _ = server.accept()
            with receiver:
                before = read_segments()
                for _ in range(20):
                    sender.sendall(b"x")
                    receiver.recv(1)
                assert read_segments() - before >= 20


@in_own_network
def test_a_full_segment_fits_the_smallest_interface() -> None:
    assert full_segment() == 1400 - 52
