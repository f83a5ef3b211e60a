"""Why a Spark cluster cannot execute a run, in one line. Pure."""

import re
from typing import Any


def too_few(workers: int, executors: int, waited_s: float) -> str:
    return (
        f"{workers} workers need {workers} free slots, one each, and the cluster gave {executors}"
        f" and no more within {waited_s:g} s; use fewer --workers, or free some"
    )


def complaint(error: str) -> str:
    """One line for a user's mistake; otherwise the library's own error line."""
    if "PYTHON_VERSION_MISMATCH" in error:
        there = re.search(r"different version: ([\d.]+) than that in driver: ([\d.]+)", error)
        versions = f"{there[1]} on the cluster and {there[2]} here" if there else "differ"
        return f"Python is {versions}; it must be the same (PYSPARK_PYTHON chooses the cluster's)"
    lines = [line.strip() for line in error.splitlines() if not line.strip().startswith("at ")]
    errors = [line for line in lines if "Error" in line or "Exception" in line]
    return (errors or lines)[-1]


def differing(found: list[dict[str, Any]], here: dict[str, Any]) -> str | None:
    """The first version that differs from the driver's; patch releases of Python are ignored."""

    def relevant(name: str, version: str | None) -> str | None:
        return ".".join(version.split(".")[:2]) if name == "Python" and version else version

    pythons = sorted({host["python"] for host in found})
    if len(pythons) > 1:
        return f"Python is in different places on the cluster's hosts: {', '.join(pythons)}"
    for name, ours in here["versions"].items():
        for host in found:
            theirs = host["versions"][name]
            if relevant(name, theirs) != relevant(name, ours):
                return (
                    f"{name} is {theirs or 'missing'} on {host['host']} (in {host['python']}) and"
                    f" {ours} here; it must be the same (PYSPARK_PYTHON chooses the cluster's"
                    " Python)"
                )
    return None
