"""A cluster of namespaces as hosts that is not gradwire's, and what measures beside it did."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cluster.namespaces.cluster import unshare_command
from tests.labs import slurm
from tests.measuring import PATIENCE_S, PROJECT, Measured

Flags = tuple[str, ...]
WAYS = {
    "slurm": "tests/labs/get_slurm.sh",
    "ray": "bash cluster/environment.sh ray",
}
"""How to get what a launcher needs."""


@dataclass(frozen=True)
class Lab:
    """What measures beside a cluster did, by name."""

    launcher: str
    folder: Path

    def measured(self, name: str) -> Measured:
        text = {
            kind: (self.folder / f"{name}.{kind}").read_text() for kind in ("out", "err", "code")
        }
        return Measured(int(text["code"]), json.loads(text["out"] or "[]"), text["err"])

    def run(self, name: str, summary: dict[str, Any]) -> Path:
        session, run = str(summary["session"]), str(summary["run"])
        return self.folder / f"runs-{name}" / session / run

    def ended_at(self, name: str) -> float:
        return (self.folder / f"{name}.code").stat().st_mtime

    @property
    def killed_at(self) -> float:
        return float((self.folder / "killed").read_text())


def run_lab(
    launcher: str,
    hosts: int,
    folder: Path,
    measures: Sequence[Mapping[str, Flags]],
    kill: int | None = None,
    first: str | None = None,
) -> Lab:
    """All measures beside one cluster, since starting it takes longest."""
    (folder / "scratch").mkdir()
    plan = json.dumps({"measures": measures, "kill": kill, "first": first})
    command = [sys.executable, "-m", f"tests.labs.{launcher}", str(hosts), str(folder), plan]
    answer = subprocess.run(
        [*unshare_command(), *command],
        cwd=PROJECT,
        env={**os.environ, "TMPDIR": str(folder / "scratch")},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert answer.returncode == 0, answer.stderr
    return Lab(launcher, folder)


def need(launcher: str) -> None:
    """A skip without Slurm or Ray, which is a failure where GRADWIRE_REQUIRE_HOSTS=1."""
    found = {
        "slurm": (slurm.PACKAGES / "usr/sbin/slurmctld-wlm").exists(),
        "ray": importlib.util.find_spec("ray") is not None,
    }
    if not found[launcher] and os.environ.get("GRADWIRE_REQUIRE_HOSTS") == "1":
        pytest.fail(f"{launcher} is required here: {WAYS[launcher]}")
    if not found[launcher]:
        pytest.skip(f"no {launcher} here: {WAYS[launcher]}")
