"""The machine and the software a run was made with: environment.json."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("torch", "docker", "psutil", "pandas", "numpy", "PyYAML", "rich", "plotly")
PROJECT = Path(__file__).resolve().parent.parent


def describe(command: list[str], engine: dict[str, Any]) -> dict[str, Any]:
    return {
        "schema": 1,
        "command": command,
        "engine": engine,
        "commit": _commit(),
        "kernel": platform.release(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The checkout's commit, with a + where files differ from it; None outside a checkout."""
    answer = subprocess.run(
        ["git", "-C", str(PROJECT), "describe", "--always", "--dirty=+", "--abbrev=12"],
        capture_output=True,
        text=True,
    )
    return answer.stdout.strip() or None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()
