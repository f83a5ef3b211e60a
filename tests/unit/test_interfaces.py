"""A node's own interface counters, compared with those read from the host."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from cluster.spec.documents.records import Counters, parse_net_dev, read_node_counters, total
from tests.own_network import NEIGHBOUR, in_own_network
from workloads.counters.interfaces import full_segment_bytes, read_interfaces, read_segments


@in_own_network
def test_the_worker_and_the_host_read_the_same_counters_without_loopback() -> None:
    def others() -> Counters:
        text = Path("/proc/self/net/dev").read_text()
        return total(c for name, c in parse_net_dev(text).items() if name != "lo")

    with socket.socket(type=socket.SOCK_DGRAM) as sender:
        while not others().sent_bytes:  # what is sent before the cable is there is lost
            sender.sendto(b"is anybody there?", (NEIGHBOUR, 9))
            time.sleep(0.01)
    before, inside, outside = others(), read_interfaces(), read_node_counters(os.getpid())
    after = others()
    for read in (inside, outside):
        for low, value, high in zip(before.values(), read.values(), after.values(), strict=True):
            assert low <= value <= high


@in_own_network
def test_traffic_between_workers_of_one_host_is_counted_exactly() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as sender:
            receiver, _ = server.accept()
            with receiver:
                before = read_interfaces(workers_on_host=2)
                for _ in range(20):
                    sender.sendall(b"x" * 40)
                    assert receiver.recv(40, socket.MSG_WAITALL) == b"x" * 40
                carried = read_interfaces(workers_on_host=2) - before
    assert carried.sent_packets >= 20
    assert carried.sent_payload == carried.received_payload == 20 * 40


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
    assert full_segment_bytes() == 1400 - 52
