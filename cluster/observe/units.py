"""Numbers as people read them. Decimal units: 1 MB is 10^6 bytes, 1 Mbit 10^6 bits. Stdlib only."""

from __future__ import annotations


def bytes_text(count: float, digits: int = 3) -> str:
    """146 kB, 1.46 MB; four digits show a ratio of 1.004."""
    return _scaled(count, ("B", "kB", "MB", "GB", "TB"), digits)


def bits_rate(bytes_per_second: float) -> str:
    return _scaled(8 * bytes_per_second, ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"), 3)


def seconds_text(seconds: float) -> str:
    return (
        f"{_three_digits(seconds * 1000)} ms" if seconds < 0.9995 else f"{_three_digits(seconds)} s"
    )


def four_digits(value: float) -> str:
    """19.98, 1000"""
    return _scaled(value, ("",), 4).strip()


def _three_digits(value: float) -> str:
    return _scaled(value, ("",), 3).strip()


def _scaled(value: float, units: tuple[str, ...], digits: int) -> str:
    """With so many significant digits; the smallest of several units has no fraction."""
    value = float(f"{value:.{digits}g}")
    power = 0
    while abs(value) >= 1000 and power < len(units) - 1:
        value /= 1000
        power += 1
    fraction = 0 if power == 0 and len(units) > 1 else max(0, digits - len(str(int(abs(value)))))
    return f"{value:.{fraction}f} {units[power]}"


def option_text(value: object) -> str:
    """A option's value as it is typed."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
