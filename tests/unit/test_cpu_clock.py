"""What a worker reads of its own CPU time, run-queue waits and throttling."""

import threading
import time
from pathlib import Path

import pytest

from workloads.counters.cpu import (
    CpuClock,
    CpuReading,
    CpuUse,
    cpu_stat_paths,
    is_counted,
    longest_wait_s,
    throttled_s,
)

ROOT = Path("/sys/fs/cgroup")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (b"nr_periods 41\nnr_throttled 41\nthrottled_time 3669468956\n", 3.669468956),
        (b"usage_usec 500\nnr_throttled 2\nthrottled_usec 1500000\n", 1.5),
        (b"nr_periods 0\nnr_throttled 0\nthrottled_time 0\nnr_bursts 0\n", 0),
        (b"usage_usec 500\nuser_usec 300\n", None),
        (b"", None),
    ],
)
def test_throttled_time_of_both_versions_of_control_groups(
    text: bytes, seconds: float | None
) -> None:
    assert throttled_s(text) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("own_groups", "first"),
    [
        ("9:name=systemd:/\n3:cpu:/gradwire-x/node0\n0::/\n", "cpu/gradwire-x/node0/cpu.stat"),
        ("4:cpu,cpuacct:/docker/abc\n", "cpu/docker/abc/cpu.stat"),
        ("0::/user.slice/gradwire-x/node1\n", "user.slice/gradwire-x/node1/cpu.stat"),
        ("0::/\n", "cpu.stat"),
    ],
)
def test_the_own_control_group_is_looked_for_first(own_groups: str, first: str) -> None:
    assert cpu_stat_paths(own_groups, ROOT)[0] == ROOT / first


def test_a_container_may_see_its_group_as_the_root() -> None:
    assert ROOT / "cpu,cpuacct" / "cpu.stat" in cpu_stat_paths("4:cpu,cpuacct:/docker/abc\n", ROOT)


@pytest.mark.parametrize(
    ("before", "after", "seconds"),
    [
        ({"1": 10**9}, {"1": 3 * 10**9}, 2.0),
        ({"1": 0, "2": 0}, {"1": 10**9, "2": 4 * 10**9}, 4.0),  # of several, the longest
        ({"1": 0}, {"1": 10**9, "2": 2 * 10**9}, 2.0),  # one that is new
        ({"1": 0, "2": 9 * 10**9}, {"1": 10**9}, 1.0),  # one that has ended
        ({"1": 9 * 10**9}, {"1": 10**9}, 1.0),  # another thread with its number
        ({"1": 0}, {}, 0.0),
        (None, {"1": 1}, None),
        ({"1": 1}, None, None),
    ],
)
def test_the_longest_wait_of_a_thread_counts(
    before: dict[str, int] | None, after: dict[str, int] | None, seconds: float | None
) -> None:
    assert longest_wait_s(before, after) == seconds


def test_throttling_is_unknown_where_a_reading_is() -> None:
    before, after = CpuReading(1.0, {}, None), CpuReading(3.0, {}, 2.0)
    assert after.since(before) == CpuUse(2.0, 0.0, None)
    assert after.since(CpuReading(1.0, None, 0.5)) == CpuUse(2.0, None, 1.5)


def test_cpu_time_includes_threads_that_have_ended() -> None:
    clock = CpuClock()
    before = clock.read()
    thread = threading.Thread(target=_compute, args=(0.05,))
    thread.start()
    thread.join()
    passed = clock.read().since(before)
    clock.close()
    assert passed.cpu_s >= 0.05


@pytest.mark.skipif(not is_counted(), reason="this kernel does not count run-queue waits")
def test_threads_are_read_while_they_come_and_go() -> None:
    clock = CpuClock()
    for _ in range(20):
        before = clock.read()
        threads = [threading.Thread(target=_compute, args=(0.001,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        during = clock.read()
        for thread in threads:
            thread.join()
        assert during.since(before).wait_s is not None
        assert clock.read().waits_ns is not None
    clock.close()


def _compute(seconds: float) -> None:
    """Until this thread has had so much CPU."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
