"""Counters add up, /proc/net/dev is read right, samples survive a table."""

import csv
import io
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cluster.spec.documents.records import (
    COUNTER_FIELDS,
    HEADER_BYTES,
    Counters,
    Sample,
    parse_net_dev,
    total,
)
from tests.own_network import in_own_network

numbers = some.integers(0, 2**63 - 1)
counters = some.builds(Counters, numbers, numbers, numbers, numbers)


@given(counters, counters)
def test_what_is_added_can_be_taken_away(first: Counters, other: Counters) -> None:
    assert first + other - other == first
    assert first + other == other + first
    assert first - first == Counters()


@given(some.lists(counters, max_size=8))
def test_a_total_is_the_sum_of_every_field(several: list[Counters]) -> None:
    for name in COUNTER_FIELDS:
        assert getattr(total(several), name) == sum(getattr(each, name) for each in several)


def test_the_total_of_nothing_is_nothing() -> None:
    assert total([]) == Counters(0, 0, 0, 0)


def test_fields_keep_their_order_in_values() -> None:
    first = Counters(sent_bytes=1, sent_packets=2, received_bytes=3, received_packets=4)
    assert first.values() == (1, 2, 3, 4)
    assert Counters(*first.values()) == first


def test_payload_is_bytes_less_66_for_every_packet() -> None:
    first = Counters(sent_bytes=1514, sent_packets=1, received_bytes=660, received_packets=10)
    assert first.sent_payload == 1448  # the segment of a full Ethernet frame with timestamps
    assert first.received_payload == 0  # bare acknowledgements


@given(counters, counters)
def test_payloads_add_up_like_bytes(first: Counters, other: Counters) -> None:
    assert (first + other).sent_payload == first.sent_payload + other.sent_payload
    assert (first + other).received_payload == first.received_payload + other.received_payload
    assert first.sent_bytes - first.sent_payload == HEADER_BYTES * first.sent_packets


@given(counters)
def test_the_other_end_of_the_cable_sees_sent_as_received(first: Counters) -> None:
    swapped = first.swapped()
    assert (swapped.sent_bytes, swapped.sent_packets) == (
        first.received_bytes,
        first.received_packets,
    )
    assert swapped.sent_payload == first.received_payload
    assert swapped.swapped() == first


def test_counters_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Counters().sent_bytes = 1  # type: ignore[misc]


RECORDED = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop \
fifo colls carrier compressed
    lo: 1234567    8901    0    0    0     0          0         0  1234567    8901    0    0   \
 0     0       0          0
  eth0: 98765432   65432    1    2    3     4          5         6 12345678   23456    7    8  \
  9    10      11         12
node12:4294967297 3000000000    0    0    0     0          0         0 18446744073709551615 5  \
  0    0    0     0       0          0
"""


def test_a_recorded_net_dev_is_read_in_the_right_columns() -> None:
    assert parse_net_dev(RECORDED) == {
        "lo": Counters(1234567, 8901, 1234567, 8901),
        "eth0": Counters(
            sent_bytes=12345678, sent_packets=23456, received_bytes=98765432, received_packets=65432
        ),
        "node12": Counters(
            sent_bytes=2**64 - 1,
            sent_packets=5,
            received_bytes=2**32 + 1,
            received_packets=3_000_000_000,
        ),
    }


def test_a_net_dev_without_interfaces_is_empty() -> None:
    assert parse_net_dev("".join(RECORDED.splitlines(keepends=True)[:2])) == {}


@in_own_network
def test_a_real_net_dev_has_every_interface_the_system_knows() -> None:
    found = parse_net_dev(Path("/proc/self/net/dev").read_text())
    assert set(found) == {name for _, name in socket.if_nameindex()}
    assert {"lo", "left", "right"} <= set(found)


def test_bytes_sent_over_a_real_interface_are_counted_on_it() -> None:
    def loopback() -> Counters:
        return parse_net_dev(Path("/proc/self/net/dev").read_text())["lo"]

    payload, packets = 1000, 50
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        before = loopback()
        for _ in range(packets):
            receiver.sendto(b"x" * payload, receiver.getsockname())
            receiver.recv(payload)
        passed = loopback() - before
    assert passed.sent_bytes >= packets * payload
    assert passed.sent_packets >= packets
    assert passed.received_bytes >= packets * payload


@given(
    t=some.integers(0, 10**14).map(lambda tenths_ms: tenths_ms / 10_000),
    source=some.sampled_from(["kernel", "docker"]),
    node=some.integers(0, 255).map("node{}".format),
    read=counters,
)
def test_a_sample_survives_a_table(t: float, source: str, node: str, read: Counters) -> None:
    sample = Sample(t, source, node, read)
    table = io.StringIO(newline="")
    csv.writer(table).writerow(sample.row())
    table.seek(0)
    (row,) = csv.reader(table)
    assert Sample.from_row(row) == sample
    assert len(row) == len(Sample.COLUMNS)


def test_a_row_has_its_values_under_the_right_headings() -> None:
    row = Sample(1.5, "kernel", "node3", Counters(1, 2, 3, 4)).row()
    assert dict(zip(Sample.COLUMNS, row, strict=True)) == {
        "t": "1.5000",
        "source": "kernel",
        "node": "node3",
        "sent_bytes": 1,
        "sent_packets": 2,
        "received_bytes": 3,
        "received_packets": 4,
    }
