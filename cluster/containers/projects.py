"""The Docker engine, and its Compose projects by label: their owners, and how to remove them."""

import os
import subprocess
from typing import Any

from cluster.containers.compose_file import OWNER_LABEL
from cluster.host.ownership import Owner

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


def remove_ended(docker: Any) -> list[str]:
    """Remove the projects whose owners have ended; their names."""
    removed = []
    for project, label in projects(docker, OWNER_LABEL).items():
        owner = Owner.parse(label)
        if owner is not None and owner.has_ended():
            down(project)
            removed.append(project)
    return removed


def down(project: str) -> None:
    """Remove a project. Never raises, since it also cleans up after errors."""
    command = ("compose", "--project-name", project, "down", "--volumes", "--timeout", "1")
    if _docker(*command).returncode == 0:
        return
    # Compose refuses where a container that others depend on was removed from outside.
    for kind, every, force in (("container", ["--all"], ["--force"]), ("network", [], [])):
        label = f"label={PROJECT_LABEL}={project}"
        found = _docker(kind, "ls", "--quiet", *every, "--filter", label).stdout.split()
        if found:
            _docker(kind, "rm", *force, *found)


def _docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
