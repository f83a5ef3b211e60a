"""Numbers as people read them: three digits, decimal units, no exponents."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cluster.observe.units import bits_rate, bytes_text, link_text, percent_text, seconds_text

SIZES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (999.4, "999 B"),
        (999.5, "1.00 kB"),
        (1000, "1.00 kB"),
        (9994, "9.99 kB"),
        (9995, "10.0 kB"),
        (99_949, "99.9 kB"),
        (99_950, "100 kB"),
        (146_000, "146 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (1_460_000, "1.46 MB"),
        (87_160, "87.2 kB"),
        (2.5e9, "2.50 GB"),
        (3e12, "3.00 TB"),
        (5e15, "5000 TB"),
        (-1500, "-1.50 kB"),
    ],
)
def test_bytes_are_shown_with_three_digits(count: float, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(87_160, "87.16 kB"), (87_509, "87.51 kB"), (999_949, "999.9 kB"), (999_951, "1.000 MB")],
)
def test_bytes_may_be_shown_with_four_digits(count: float, text: str) -> None:
    assert bytes_text(count, digits=4) == text


@given(some.floats(1000, 9.99e14))
def test_bytes_are_shown_true_to_half_a_percent(count: float) -> None:
    number, unit = bytes_text(count).split(" ")
    assert float(number) * SIZES[unit] == pytest.approx(count, rel=0.00501)
    assert len(number.replace(".", "")) == 3
    assert 1 <= float(number) <= 999


@given(some.floats(0, 1e15), some.floats(0, 1e15))
def test_more_bytes_are_never_shown_as_fewer(first: float, second: float) -> None:
    def shown(count: float) -> float:
        number, unit = bytes_text(count).split(" ")
        return float(number) * SIZES[unit]

    low, high = sorted((first, second))
    assert shown(low) <= shown(high)


@pytest.mark.parametrize(
    ("bytes_per_second", "text"),
    [
        (0, "0 bit/s"),
        (1, "8 bit/s"),
        (125, "1.00 kbit/s"),
        (125_000, "1.00 Mbit/s"),
        (2_500_000, "20.0 Mbit/s"),
        (1.25e9, "10.0 Gbit/s"),
        (1.25e12, "10000 Gbit/s"),
    ],
)
def test_rates_are_bits_of_which_a_byte_has_eight(bytes_per_second: float, text: str) -> None:
    assert bits_rate(bytes_per_second) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.000_12, "120 µs"),
        (0.0123, "12.3 ms"),
        (0.5, "500 ms"),
        (1, "1.00 s"),
        (1.2345, "1.23 s"),
        (59.96, "60.0 s"),
        (0.9994, "999 ms"),
        (0.9996, "1.00 s"),
        (299, "299 s"),
        (3250, "54.2 min"),
        (18_360, "5.10 h"),
    ],
)
def test_times_have_three_digits_and_the_unit_that_fits(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@given(some.floats(1e-6, 86_400))
def test_a_time_from_a_microsecond_to_a_day_needs_no_exponent(seconds: float) -> None:
    assert re.fullmatch(r"\d+(\.\d+)? (µs|ms|s|min|h)", seconds_text(seconds))


@pytest.mark.parametrize(
    ("share", "decimals", "text"),
    [
        (0.12345, 2, "12.35 %"),
        (0.5, 0, "50 %"),
        (0, 2, "0 %"),
        (0.000_001, 3, "< 0.001 %"),
        (-0.000_001, 3, "< 0.001 %"),
        (0.000_012, 3, "0.001 %"),
    ],
)
def test_a_share_is_percent_and_never_a_row_of_zeros(
    share: float, decimals: int, text: str
) -> None:
    assert percent_text(share, decimals) == text
    assert percent_text(0.5, 1, signed=True) == "+50.0 %"


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("20mbit", "20 Mbit/s"),
        ("1.5gbit/10ms", "1.5 Gbit/s, 10 ms delay"),
        ("100kbit/10ms/0.5%", "100 kbit/s, 10 ms delay, 0.5 % loss"),
        ("of another version", "of another version"),
    ],
)
def test_a_link_has_the_units_of_all_other_numbers(option: str, text: str) -> None:
    assert link_text(option) == text
