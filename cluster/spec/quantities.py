"""Quantities as people type them, parsed in one place: sizes, memory, rates, times, shares, cores.

    size      250k, 16M, 1.5G       bytes, powers of 1000
    memory    900m, 6g, 1.5g        bytes, powers of 1024 as Docker has them, whole MiB
    rate      500kbit, 20mbit       bits a second, powers of 1000
    time      50us, 5ms, 1.5s, 2min seconds
    duration  30s, 10m, 2h          seconds: a time in which m is minutes, too
    share     0.1%                  a fraction
    cores     0.5, 2                CPU cores

Every parser raises ValueError, in one line, for anything else. Upper and lower case differ (1m is
no 1M): a unit in another spelling is refused with the one that was probably meant.
"""

import re
from collections.abc import Mapping
from decimal import Decimal

SIZES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
MEMORY = {"m": 2**20, "g": 2**30}
RATES = {"kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
TIMES = {
    "us": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "min": Decimal(60),
    "h": Decimal(3600),
}
"""Without m: after 5m of a delay or of computing, milliseconds may have been meant."""
DURATIONS = TIMES | {"m": Decimal(60)}
ENDINGS = ("", "b", "ib", "bit", "b/s", "bit/s", "ec")
"""What people write after a unit or its first letter: MB, MiB, Mbit/s, msec."""
LONGEST_NUMBER = 20
FEWEST_CORES, MOST_CORES = 0.01, 1024

_QUANTITY = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)([a-zA-Z/%]*)")
_CORES = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?|\.[0-9]{1,9}")


def parse_size(text: str) -> int:
    """A whole number of bytes, at least 1."""
    size = size_bytes(text)
    if size < 1 or size != int(size):
        raise ValueError(
            f"must be a whole number of bytes such as 87160, 87k, 4.5M or 1G, not {text!r}"
            f"{meant(text, SIZES)}"
        )
    return int(size)


def size_bytes(text: str) -> Decimal:
    """Bytes, not necessarily a whole number; 0 for what is no size."""
    number, unit = _split(text)
    return number * SIZES[unit] if number is not None and unit in SIZES else Decimal(0)


def parse_memory(text: str) -> int:
    """Bytes, a whole number of MiB."""
    number, unit = _split(text)
    if number is None or number < 0 or unit not in MEMORY:
        raise ValueError(f"write MiB or GiB, such as 900m, 6g or 1.5g{meant(text, MEMORY)}")
    mebibytes = int(number * MEMORY[unit]) // MEMORY["m"]
    if mebibytes == 0:
        raise ValueError("that is no memory at all")
    return mebibytes * MEMORY["m"]


def write_memory(size_bytes: int) -> str:
    """As a person would type it, to the MiB; the same size is always the same text."""
    unit = "m" if size_bytes % MEMORY["g"] else "g"
    return f"{size_bytes // MEMORY[unit]}{unit}"


def parse_rate(text: str, highest: int) -> int:
    """Bits a second, from 100kbit to `highest`."""
    unit = _split(text)[1]
    if unit.lower() in ("bps", "kbps", "mbps", "gbps", "tbps"):
        meant = unit.lower().replace("bps", "bit")
        raise ValueError(
            f"rate {text!r}: in tc, {unit} is bytes a second; write {meant}, which is bits a second"
        )
    bits = _scaled(text, RATES, "rate", "20mbit")
    if not 10**5 <= bits <= highest:
        raise ValueError(
            f"rate must be between 100kbit and {write_scaled(highest, RATES)}, not {text}"
        )
    return int(bits)


def parse_time(text: str, name: str = "time", longest_s: int = 10**6) -> float:
    """Seconds of a delay or of computing, from 0 to `longest_s`."""
    return _seconds(_scaled(text, TIMES, name, "5ms"), text, name, longest_s)


def parse_duration(text: str, name: str, longest_s: int = 10**6) -> float:
    """Seconds in which a person waits, or a fault lasts: m is minutes."""
    return _seconds(_scaled(text, DURATIONS, name, "30s"), text, name, longest_s)


def _seconds(seconds: Decimal, text: str, name: str, longest_s: int) -> float:
    if not 0 <= seconds <= longest_s:
        raise ValueError(f"{name} must be between 0 and {longest_s}s, not {text}")
    return float(seconds)


def parse_loss(text: str) -> float:
    """The share of packets that is lost: at least 0% and below 100%."""
    percent = _scaled(text, {"%": 1}, "loss", "0.1%")
    if not 0 <= percent < 100:
        raise ValueError(f"loss must be at least 0% and below 100%, not {text}")
    return float(percent / 100)


def parse_core_count(text: str) -> float:
    if not _CORES.fullmatch(text):
        raise ValueError(f"{text!r} is no number of CPU cores")
    if not FEWEST_CORES <= float(text) <= MOST_CORES:
        raise ValueError(f"cores must be between {FEWEST_CORES} and {MOST_CORES:,}, not {text}")
    return float(text)


def meant(text: str, units: Mapping[str, int | Decimal] | None = None) -> str:
    """A question to end a refusal with: did you mean 200k? (200000? without units); or nothing."""
    number, unit = _split(text)
    if number is None or number < 0 or unit in (units or ("",)):
        return ""
    known = units or SIZES
    near = [name for name in known if name.casefold() == unit.casefold()]
    near = near or [name for name in known if unit.casefold() in _spellings(name)]
    right = [f"{plain(number)}{name}" if units else plain(number * known[name]) for name in near]
    return f"; did you mean {' or '.join(right)}?" if near else ""


def _spellings(unit: str) -> set[str]:
    """In lower case: of M these are m, mb, mib, mbit, ..."""
    starts = {unit.lower(), unit[:1].lower()} - {""}
    return {start + ending for start in starts for ending in ENDINGS}


def write_scaled(value: int, units: dict[str, int]) -> str:
    """In the largest unit that is not larger than the value: 1.5gbit."""
    unit, size = next((u, s) for u, s in reversed(units.items()) if value >= s)
    return f"{plain(Decimal(value) / size)}{unit}"


def plain(number: Decimal) -> str:
    """Without an exponent or trailing zeros."""
    return f"{number.normalize():f}"


def _scaled(text: str, units: Mapping[str, int | Decimal], name: str, example: str) -> Decimal:
    number, unit = _split(text)
    if number is None:
        raise ValueError(f"{name} {text!r} is not understood: write it as {example}")
    if unit not in units:
        raise ValueError(
            f"{name} {text!r} must end in {', '.join(units)}, as in {example}{meant(text, units)}"
        )
    return number * units[unit]


def _split(text: str) -> tuple[Decimal | None, str]:
    """The number and its unit; None where there is no number, or an absurdly long one."""
    match = _QUANTITY.fullmatch(text)
    if match is None or len(match[1]) > LONGEST_NUMBER:
        return None, ""
    return Decimal(match[1]), match[2]
