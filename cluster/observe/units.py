"""Numbers as text: three or four digits and a decimal unit. 1 MB is 10^6 bytes. Stdlib only."""

import re
from collections.abc import Callable, Sequence

PREFIXES = str.maketrans("mg", "MG")
MINUTES_FROM_S, HOURS_FROM_S = 300, 3 * 3600


def bytes_text(count: float, digits: int = 3) -> str:
    """146 kB, 1.46 MB; four digits show a ratio of 1.004."""
    return _scaled(count, ("B", "kB", "MB", "GB", "TB"), digits)


def bits_rate(bytes_per_second: float) -> str:
    return _scaled(8 * bytes_per_second, ("bit/s", "kbit/s", "Mbit/s", "Gbit/s"), 3)


def seconds_text(seconds: float) -> str:
    """12.3 ms, 1.23 s, 54.2 min, 5.10 h"""
    for least, size, unit in (
        (HOURS_FROM_S, 3600, "h"),
        (MINUTES_FROM_S, 60, "min"),
        (0.9995, 1, "s"),
        (0.9995e-3, 1e-3, "ms"),
        (1e-9, 1e-6, "µs"),
    ):
        if seconds >= least:
            return f"{_digits(seconds / size, 3)} {unit}"
    return "0 s"


def rounded_time(seconds: float) -> str:
    """An estimate in whole units: 40 s, 4 min, 1 h 20 min."""
    if seconds < 90:
        return f"{max(5, 5 * round(seconds / 5))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(10 * round(minutes / 10), 60)
    return f"{hours} h {minutes} min" if minutes and hours < 10 else f"{hours} h"


def bits_per_byte_text(value: float) -> str:
    return f"{value:.3f} bit/byte"


def percent_text(share: float, decimals: int = 2, *, signed: bool = False) -> str:
    """12.34 %; a share too small for so many decimals is "< 0.01 %"."""
    percent, least = 100 * share, 10.0**-decimals
    if percent == 0:
        return "0 %"
    if abs(percent) < least:
        return f"< {least:.{decimals}f} %"
    return f"{percent:{'+' if signed else ''}.{decimals}f} %"


def percents(decimals: int = 2, *, signed: bool = False) -> Callable[[float], str]:
    """percent_text as the format of a table's column."""
    return lambda share: percent_text(share, decimals, signed=signed)


def link_text(option: str) -> str:
    """20mbit/10ms/1% as 20 Mbit/s, 10 ms delay, 1 % loss; another text as it is."""
    rate = r"([\d.]+)([kmg])bit"
    match = re.fullmatch(rf"{rate}(?:/{rate})?(?:/([\d.]+)ms)?(?:/([\d.]+)%)?", option)
    if not match:
        return option
    number, prefix, down, down_prefix, delay, loss = match.groups()
    parts = [f"{number} {prefix.translate(PREFIXES)}bit/s"]
    if down:
        parts = [f"{parts[0]} up", f"{down} {down_prefix.translate(PREFIXES)}bit/s down"]
    parts += [f"{delay} ms delay"] if delay else []
    return ", ".join([*parts, f"{loss} % loss"] if loss else parts)


def four_digits(value: float) -> str:
    """19.98, 1000"""
    return _digits(value, 4)


def _digits(value: float, digits: int) -> str:
    return _scaled(value, ("",), digits).strip()


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
    """An option's value as it is typed."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def list_names(names: Sequence[str]) -> str:
    """node0, node1 and node2"""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
