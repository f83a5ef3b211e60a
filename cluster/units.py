"""Numbers as people read them. Decimal units: 1 MB is 10^6 bytes, 1 Mbit 10^6 bits."""

from __future__ import annotations


def bytes_text(count: float) -> str:
    """Three significant digits: 146 kB, 1.46 MB."""
    return _scaled(count, ("B", "kB", "MB", "GB", "TB"))


def bits_rate(bytes_per_second: float) -> str:
    return _scaled(8 * bytes_per_second, ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"))


def seconds_text(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _scaled(value: float, units: tuple[str, ...]) -> str:
    power = 0
    while abs(value) >= 999.5 and power < len(units) - 1:
        value /= 1000
        power += 1
    digits = 0 if power == 0 or abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{digits}f} {units[power]}"
