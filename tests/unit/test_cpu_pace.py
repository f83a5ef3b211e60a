"""A worker with a part of a core takes as long to compute as that part would."""

import time

import pytest

from workloads.counters.cpu_pace import CpuPace

WORK_S = 0.02


def compute() -> None:
    begin = time.thread_time()
    while time.thread_time() - begin < WORK_S:
        pass


@pytest.mark.parametrize("cores", [0.25, 0.5])
def test_computing_takes_no_less_than_on_the_part_of_a_core(cores: float) -> None:
    pace = CpuPace(cores)
    for _ in range(3):
        begin = time.perf_counter()
        pace.begin()
        compute()
        pace.wait()
        assert time.perf_counter() - begin >= WORK_S / cores
    assert pace.reset() >= 0.0
    assert pace.reset() == 0.0


def test_who_is_late_already_or_has_a_core_does_not_wait() -> None:
    for cores, asleep_s in ((0.5, 5 * WORK_S), (1.0, 0.0), (2.0, 0.0)):
        pace = CpuPace(cores)
        compute()
        time.sleep(asleep_s)
        pace.wait()
        assert pace.reset() == 0.0
