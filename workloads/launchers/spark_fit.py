"""Why a Spark cluster cannot do a run, in one line. Pure."""

from __future__ import annotations

import re
from typing import Any


def too_few(workers: int, executors: int, waited_s: float) -> str:
    return (
        f"{workers} workers need {workers} free slots, one each, and the cluster gave {executors} and no"
        f" more within {waited_s:g} s; use fewer --workers, or free some"
    )


def complaint(error: str) -> str:
    """One line for the mistakes a person can make; else the library's own first line."""
    if "PYTHON_VERSION_MISMATCH" in error:
        there = re.search(r"different version: ([\d.]+) than that in driver: ([\d.]+)", error)
        versions = f"{there[1]} on the cluster and {there[2]} here" if there else "differ"
        return f"Python is {versions}; it must be the same (PYSPARK_PYTHON chooses the cluster's)"
    said = [line.strip() for line in error.splitlines() if not line.strip().startswith("at ")]
    lines = [line for line in said if "Error" in line or "Exception" in line]
    return (lines or said)[-1]


def differing(found: list[dict[str, Any]], here: dict[str, Any]) -> str | None:
    """Versions that are not ours, both named; patch releases of Python do not matter."""

    def relevant(name: str, version: str | None) -> str | None:
        return ".".join(version.split(".")[:2]) if name == "Python" and version else version

    pythons = sorted({one["python"] for one in found})
    if len(pythons) > 1:
        return f"Python lies in different places on the cluster's hosts: {', '.join(pythons)}"
    for name, ours in here["versions"].items():
        for one in found:
            theirs = one["versions"][name]
            if relevant(name, theirs) != relevant(name, ours):
                return (
                    f"{name} is {theirs or 'missing'} on {one['host']} (in {one['python']}) and {ours} here;"
                    " it must be the same (PYSPARK_PYTHON chooses the cluster's Python)"
                )
    return None
