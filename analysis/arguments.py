"""Values that several commands of the analysis take: sizes, links, times. A mistake is one line."""

from __future__ import annotations

import argparse
import re
from fractions import Fraction
from typing import NoReturn

from cluster.spec.links import RATE_UNITS, Link, LinkError, parse_link, parse_links

SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def size_value(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kMG]?)", text)
    number = Fraction(match[1]) * 1000 ** " kMG".index(match[2] or " ") if match else Fraction(0)
    if number < 1 or number.denominator != 1:
        raise argparse.ArgumentTypeError(
            f"must be a whole number of bytes such as 87160, 87k, 4.5M or 1G, not {text!r}"
        )
    return int(number)


def link_value(text: str) -> Link:
    try:
        return parse_link(text)
    except LinkError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def any_link_value(text: str) -> Link:
    """Also one that is faster than this project can emulate."""
    rate, slash, rest = text.partition("/")
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(kbit|mbit|gbit)", rate)
    if not match or float(match[1]) * RATE_UNITS[match[2]] <= RATE_UNITS["gbit"]:
        return link_value(text)
    rate_bit = float(match[1]) * RATE_UNITS[match[2]]
    if rate_bit > 10**13:
        raise argparse.ArgumentTypeError(f"must be at most 10000gbit, not {text!r}")
    like = link_value("1gbit" + slash + rest)
    return Link(round(rate_bit), like.delay_s, like.loss)


def links_value(text: str) -> dict[int, Link]:
    try:
        return parse_links(text)
    except LinkError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def time_value(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(us|ms|s)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"must be a time such as 20ms or 1.5s, not {text!r}")
    return float(match[1]) * SECONDS[match[2]]
