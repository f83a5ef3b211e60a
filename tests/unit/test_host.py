"""Readings of the host's cores, host.csv and the warning on a loaded machine."""

import dataclasses
from pathlib import Path

import pytest

from cluster.observe.host import (
    HostCollector,
    load_warning,
    parse_pressure,
    parse_stat,
    read_host,
)
from cluster.spec.documents.codec import DocumentError
from cluster.spec.documents.records import HostSample
from cluster.spec.documents.run_folder import RunFolder

STAT = """cpu  57456 3369 27556 1021665 447 10 2207 50 0 0
cpu0 25355 1551 12960 515559 85 5 1030 23 0 0
cpu1 32101 1817 14595 506106 362 5 1177 26 0 0
intr 123
"""


def test_busy_ticks_are_all_but_idle_waiting_for_disks_and_stolen_ones() -> None:
    assert parse_stat(STAT) == (57456 + 3369 + 27556 + 10 + 2207, 50, 2)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("some avg10=61.83 avg60=54.40 avg300=41.65 total=287544799\nfull total=0\n", 287.544799),
        ("full avg10=0.00 total=5\n", None),
        ("", None),
    ],
)
def test_pressure_is_the_total_of_some(text: str, seconds: float | None) -> None:
    assert parse_pressure(text) == seconds


@pytest.mark.parametrize("load", [None, 0.5])
def test_a_sample_is_read_as_it_was_written(load: float | None) -> None:
    sample = HostSample(1e9 + 0.5, 2, load, 123.25, 0.0, load)
    assert HostSample.from_row([str(cell) for cell in sample.row()]) == sample


def test_a_run_has_readings_of_its_host_from_begin_to_end(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    with HostCollector(run.host, 3600):
        pass
    first, last = run.read_host_samples()
    assert first.cores == read_host().cores >= 1
    assert first.t <= last.t
    assert first.busy_s <= last.busy_s


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.host.write_text(",".join(HostSample.COLUMNS) + "\n1.0,2,0.5,-3,0,\n")
    with pytest.raises(DocumentError, match=r"host.csv: line 2: must be a number from 0 on"):
        list(run.read_host_samples())


@pytest.mark.parametrize(
    ("busy_s", "steal_s", "told"),
    [(0.0, 0.0, ""), (0.14, 0.0, ""), (0.3, 0.0, "50 %"), (0.0, 0.3, "50 %"), (0.7, 0.0, "100 %")],
)
def test_a_loaded_machine_is_said_with_its_figure(busy_s: float, steal_s: float, told: str) -> None:
    before = HostSample(10.0, 2, 1.25, 100.0, 5.0, None)
    after = dataclasses.replace(before, t=10.3, busy_s=100.0 + busy_s, steal_s=5.0 + steal_s)
    warning = load_warning(before, after, 1.0)
    assert bool(warning) == bool(told)
    assert told in warning
    if told:
        assert "2 cores, load 1.25" in warning
        assert "--dilation 3" in warning
