"""Compose projects by their labels: whose they are, whether the owner still lives, and how they are removed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

SERVICE_LABEL = "com.docker.compose.service"
PROJECT_LABEL = "com.docker.compose.project"


def projects(docker: Any, label: str) -> dict[str, str]:
    """Compose projects that carry a label, with its value, from containers and networks alike."""
    found = {}
    labelled = {"filters": {"label": label}, "ignore_removed": True}  # others come and go meanwhile
    for container in docker.containers.list(all=True, **labelled):
        found[container.labels[PROJECT_LABEL]] = container.labels[label]
    for network in docker.networks.list(filters={"label": label}):
        labels = network.attrs["Labels"]
        found[labels[PROJECT_LABEL]] = labels[label]
    return found


def myself() -> str:
    return f"{os.getpid()}:{_started(os.getpid())}:{_realm()}"


def is_gone(owner: str) -> bool:
    """Only of an owner whose process numbers mean the same here as there; else it may well live."""
    process, _, rest = owner.partition(":")
    started, _, realm = rest.partition(":")
    return bool(realm) and realm == _realm() and _started(int(process)) != started


def _realm() -> str:
    """This boot of this machine and this process namespace; empty where there is no /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(process: int) -> str | None:
    """Start time in clock ticks since boot: with the number, a process's identity."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None


def down(project: str) -> None:
    """Always completes: removing is also what happens after errors."""
    command = [
        "docker",
        "compose",
        "--project-name",
        project,
        "down",
        "--volumes",
        "--timeout",
        "1",
    ]
    subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, start_new_session=True)
