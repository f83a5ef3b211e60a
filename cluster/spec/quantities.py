"""Sizes of memory as text and as bytes: 6g, 1.5g or 900m. Pure and standard library only.

Powers of 1024, as Docker has it: 1g is 2^30 bytes.
"""

from __future__ import annotations

import re
from decimal import Decimal

UNITS = {"m": 2**20, "g": 2**30}
FORM = "MiB or GiB, such as 900m, 6g or 1.5g"

_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([mg])")


def parse_memory(text: str) -> int:
    """Bytes, a whole number of MiB; ValueError, in one line, for anything else."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"write {FORM}")
    size = int(Decimal(match[1]) * UNITS[match[2]]) // UNITS["m"]
    if size == 0:
        raise ValueError("that is no memory at all")
    return size * UNITS["m"]


def write_memory(size_bytes: int) -> str:
    """As a person would type it, to the MiB; the same size is always the same text."""
    unit = "m" if size_bytes % UNITS["g"] else "g"
    return f"{size_bytes // UNITS[unit]}{unit}"
