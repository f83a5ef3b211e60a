"""The Docker engine, and its Compose projects by label: their owners, and how to remove them."""

import os
import subprocess
from pathlib import Path
from typing import Any

SERVICE_LABEL = "com.docker.compose.service"
PROJECT_LABEL = "com.docker.compose.project"


def client() -> Any:
    """A docker.DockerClient; a Docker context may name another engine than the default."""
    import docker

    host = os.environ.get("DOCKER_HOST")
    if not host:
        command = ["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]
        host = subprocess.run(command, capture_output=True, text=True).stdout.strip() or None
    return docker.DockerClient(base_url=host, timeout=30)


def projects(docker: Any, label: str) -> dict[str, str]:
    """Compose projects with a container or network that has a label -> the label's value."""
    found = {}
    labelled = {"filters": {"label": label}, "ignore_removed": True}  # some end meanwhile
    for container in docker.containers.list(all=True, **labelled):
        found[container.labels[PROJECT_LABEL]] = container.labels[label]
    for network in docker.networks.list(filters={"label": label}):
        labels = network.attrs["Labels"]
        found[labels[PROJECT_LABEL]] = labels[label]
    return found


def owner_of_this_process() -> str:
    """The owner label's value: process number, start time, and where the number is valid."""
    return f"{os.getpid()}:{_start_time(os.getpid())}:{_process_namespace()}"


def has_ended(owner: str) -> bool:
    """Whether an owner's process has ended; False where its number is of another namespace."""
    process, _, rest = owner.partition(":")
    started, _, namespace = rest.partition(":")
    is_ours = bool(namespace) and namespace == _process_namespace()
    return is_ours and _start_time(int(process)) != started


def _process_namespace() -> str:
    """The boot of this machine and its process namespace; empty where there is no /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _start_time(process: int) -> str | None:
    """Clock ticks since boot: together with its number, this identifies a process."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None


def down(project: str) -> None:
    """Remove a project. Never raises, since it also cleans up after errors."""
    command = ["docker", "compose", "--project-name", project]
    command += ["down", "--volumes", "--timeout", "1"]
    subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, start_new_session=True)
