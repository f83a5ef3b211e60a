"""Why hosts cannot execute a run, in one line. Pure."""

import re
from typing import Any, TypedDict

TORCH_PACKAGES = ("torch", "psutil", "numpy")
"""What workers of launcher torch need, in the same version on all hosts."""


class HostFacts(TypedDict):
    """A host, as entry.describe_host() finds it."""

    host: str
    network: str
    """Identifies the network namespace, which workers of one host share."""
    python: str
    versions: dict[str, str | None]


def parse_facts(found: dict[str, Any]) -> HostFacts:
    """KeyError or TypeError for anything else."""
    versions = {name: found["versions"][name] for name in found["versions"]}
    return HostFacts(
        host=str(found["host"]),
        network=str(found["network"]),
        python=str(found["python"]),
        versions=versions,
    )


def too_few_slots(nodes: int, found: int, waited_s: float) -> str:
    return (
        f"{nodes} workers need {nodes} free slots, one each, and the cluster gave {found}"
        f" and no more within {waited_s:g} s; use fewer --workers, free some, or wait longer"
        " (--patience)"
    )


def too_few_hosts(nodes: int, found: int, where: str) -> str:
    return (
        f"{nodes} nodes need {nodes} hosts, one each, and {where} has {found}: use fewer --workers"
    )


def shared_host(found: list[HostFacts]) -> str | None:
    """Two workers with the same interfaces: their bytes cannot be told apart."""
    for index, host in enumerate(found):
        for other in found[:index]:
            if other["network"] == host["network"]:
                return (
                    f"{other['host']} and {host['host']} are one host with the same interfaces,"
                    " where bytes of two workers cannot be told apart: give each a host of its own"
                )
    return None


def different_places(found: list[HostFacts]) -> str | None:
    """Horovod on Spark starts the same command on all hosts."""
    pythons = sorted({host["python"] for host in found})
    if len(pythons) > 1:
        return f"Python is in different places on the cluster's hosts: {', '.join(pythons)}"
    return None


def spark_complaint(error: str) -> str:
    """One line for a user's mistake; otherwise the library's own error line."""
    if "PYTHON_VERSION_MISMATCH" in error:
        there = re.search(r"different version: ([\d.]+) than that in driver: ([\d.]+)", error)
        versions = f"{there[1]} on the cluster and {there[2]} here" if there else "differ"
        return f"Python is {versions}; it must be the same (PYSPARK_PYTHON chooses the cluster's)"
    lines = [line.strip() for line in error.splitlines() if not line.strip().startswith("at ")]
    errors = [line for line in lines if "Error" in line or "Exception" in line]
    return (errors or lines)[-1]


def differing(found: list[HostFacts], here: HostFacts, chosen_by: str) -> str | None:
    """The first version that differs from the driver's; patch releases of Python are ignored.

    `chosen_by` is how the hosts' Python is chosen.
    """

    def relevant(name: str, version: str | None) -> str | None:
        return ".".join(version.split(".")[:2]) if name == "Python" and version else version

    for name, ours in here["versions"].items():
        for host in found:
            theirs = host["versions"][name]
            if relevant(name, theirs) != relevant(name, ours):
                return (
                    f"{name} is {theirs or 'missing'} on {host['host']} (in {host['python']}) and"
                    f" {ours or 'missing'} here; it must be the same ({chosen_by})"
                )
    return None
