"""The rate probe: slopes of arrivals, and real connections to a real reference."""

import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.links import gate, rate_probe
from cluster.links.rate_probe import ProbeTarget, Reference, rate_of_arrivals, slope, steady_slope

PROJECT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.xdist_group("rate_probe")  # the reference and the gate have one port each


def arrivals(rate: float, seconds: float, jitter_s: float = 0.0) -> list[tuple[float, int]]:
    dice = random.Random(1)
    count = int(rate * seconds / 1500)
    return [(1500 * k / rate + dice.uniform(0, jitter_s), 1500 * k) for k in range(count)]


def test_the_slope_of_steady_arrivals_is_their_rate() -> None:
    assert slope(arrivals(2.5e6, 0.4)) == pytest.approx(2.5e6)
    assert steady_slope(arrivals(2.5e6, 0.4)) == pytest.approx(2.5e6)


def test_late_readings_do_not_change_the_slope() -> None:
    assert steady_slope(arrivals(125e3, 0.4, jitter_s=0.003)) == pytest.approx(125e3, rel=0.01)
    assert steady_slope(arrivals(2.5e6, 0.4, jitter_s=0.003)) == pytest.approx(2.5e6, rel=0.01)


def test_a_machine_that_stalls_briefly_does_not_change_the_slope() -> None:
    points = arrivals(2.5e6, 0.4)
    stopped = [(t + 0.05 * (t > 0.2), n) for t, n in points]
    assert steady_slope(stopped) == pytest.approx(2.5e6, rel=0.001)
    assert slope(stopped) < 2.5e6 * 0.95


def test_a_link_of_half_the_rate_has_half_the_slope() -> None:
    slow = [(2 * t, n) for t, n in arrivals(2.5e6, 0.4)]
    assert steady_slope(slow) == pytest.approx(1.25e6)


@pytest.mark.timed
def test_arrivals_before_the_burst_is_spent_do_not_count() -> None:
    """A sender that starts with 200 kB at once and goes on with 1 MB/s."""
    tcp = socket.create_server(("127.0.0.1", 0))
    ours = socket.create_connection(tcp.getsockname())
    theirs, _ = tcp.accept()

    def send() -> None:
        theirs.sendall(bytes(200_000))
        started = time.perf_counter()
        for k in range(60):
            time.sleep(max(0.0, started + k / 100 - time.perf_counter()))
            theirs.sendall(bytes(10_000))

    with ours, theirs, tcp:
        sender = threading.Thread(target=send)
        sender.start()
        measured = rate_of_arrivals(ours, 210_000, 0.4)
        share = rate_probe._wire_share(ours)
        sender.join()
    assert measured / share == pytest.approx(8e6, rel=0.05)


@pytest.fixture
def reference() -> Iterator[str]:
    server = Reference("127.0.0.1")
    server.start()
    yield "127.0.0.1"
    server.close()


def test_an_unshaped_link_measures_much_more_than_its_target(reference: str) -> None:
    """What a throttle that was never applied looks like."""
    target = ProbeTarget(rate_bit=10**7, burst_bytes=28_000, queue_bytes=200_000)
    assert rate_probe.measure_sent(reference, target) > 1.5 * 10**7
    assert rate_probe.measure_received(reference, target) > 1.5 * 10**7


@pytest.mark.timed
def test_a_round_trip_on_this_machine_is_short(reference: str) -> None:
    assert 0 < rate_probe.measure_round_trip_s(reference) < 0.05


def test_the_reference_measures_only_what_the_machine_can_feed_at_a_time(reference: str) -> None:
    """Two links that need the whole capacity are measured one after the other."""
    everything = ProbeTarget(10**11, burst_bytes=0, queue_bytes=2**21)
    started = time.monotonic()
    both = [
        threading.Thread(target=rate_probe.measure_received, args=(reference, everything))
        for _ in range(2)
    ]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert time.monotonic() - started >= 2 * rate_probe.SHORTEST_S


def test_the_reference_ends_when_all_nodes_are_done() -> None:
    command = [sys.executable, "-m", "cluster.links.rate_probe", "2"]
    with subprocess.Popen(command, cwd=PROJECT) as program:
        rate_probe.report_done("127.0.0.1")
        assert program.poll() is None
        rate_probe.report_done("127.0.0.1")
        assert program.wait(300) == 0


# --- the gate ------------------------------------------------------------------------------------


def test_a_worker_starts_when_its_gate_is_opened_and_not_before() -> None:
    command = [sys.executable, "-m", "cluster.links.gate", "echo", "the worker runs"]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as program:
        time.sleep(0.5)
        assert program.poll() is None
        gate.open_gate()
        assert program.communicate(timeout=300)[0] == "the worker runs\n"


def test_a_gate_that_is_never_opened_ends_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "PATIENCE_S", 0.05)
    assert not gate.wait_until_open()
