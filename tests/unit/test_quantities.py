"""Quantities as people type them: strict, one line when wrong, one way of writing."""

import pytest

from cluster.spec.quantities import (
    DURATIONS,
    MEMORY,
    RATES,
    SIZES,
    TIMES,
    meant,
    parse_duration,
    parse_memory,
    parse_size,
    parse_time,
    write_memory,
)

GIB, MIB = 2**30, 2**20


@pytest.mark.parametrize(
    ("text", "size_bytes", "written"),
    [
        ("6g", 6 * GIB, "6g"),
        ("900m", 900 * MIB, "900m"),
        ("1.5g", 1536 * MIB, "1536m"),
        ("2048m", 2 * GIB, "2g"),
        ("0.1g", 102 * MIB, "102m"),
        ("999999999g", 999_999_999 * GIB, "999999999g"),
    ],
)
def test_a_size_is_read_and_always_written_the_same_way(
    text: str, size_bytes: int, written: str
) -> None:
    assert parse_memory(text) == size_bytes
    assert write_memory(size_bytes) == written
    assert parse_memory(written) == size_bytes


@pytest.mark.parametrize(
    "text",
    ["6", "6G", "6gb", "6 g", "-6g", "+6g", "1e3m", "nang", "g", "", "6g\n", "\u0666g", "6k"],
)
def test_anything_else_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(ValueError, match="such as 900m, 6g or"):
        parse_memory(text)


@pytest.mark.parametrize("text", ["0g", "0.0m", "0.5m"])
def test_no_memory_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no memory at all"):
        parse_memory(text)


@pytest.mark.parametrize(
    ("text", "size"), [("87160", 87_160), ("87k", 87_000), ("4.5M", 4_500_000), ("1G", 10**9)]
)
def test_a_size_is_a_whole_number_of_bytes_in_powers_of_1000(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["0", "-4k", "4.5", "1K", "k", "", "1e3", "0.0001k", "9" * 400])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="whole number of bytes"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20ms", 0.02), ("1.5s", 1.5), ("250us", 0.00025), ("1.5min", 90), ("2h", 7200)],
)
def test_a_time_is_in_seconds(text: str, seconds: float) -> None:
    assert parse_time(text) == parse_duration(text, "patience") == seconds


def test_m_is_minutes_of_a_duration_and_not_clear_of_a_time() -> None:
    """Who waits for 10m means minutes; a delay of 10m is a typo of milliseconds as well."""
    assert parse_duration("10m", "patience") == parse_duration("10min", "patience") == 600
    with pytest.raises(ValueError, match="did you mean 10ms or 10min"):
        parse_time("10m", "delay")


@pytest.mark.parametrize(
    ("text", "units", "right"),
    [
        ("200K", SIZES, "200k"),
        ("1m", SIZES, "1M"),
        ("4.50MB", SIZES, "4.5M"),
        ("2GiB", MEMORY, "2g"),
        ("20Mbit/s", RATES, "20mbit"),
        ("5msec", TIMES, "5ms"),
        ("5M", DURATIONS, "5m"),
        ("5H", TIMES, "5h"),
        ("200K", None, "200000"),
    ],
)
def test_a_unit_in_another_spelling_is_told_the_right_one(
    text: str, units: dict[str, int] | None, right: str
) -> None:
    assert meant(text, units) == f"; did you mean {right}?"


@pytest.mark.parametrize("text", ["", "5", "K", "-5K", "5min", "5K5", "9" * 400 + "K"])
def test_nothing_is_guessed_where_no_unit_is_near(text: str) -> None:
    assert meant(text, TIMES) == ""
