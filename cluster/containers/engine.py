"""Nodes made of Docker containers: docker_*.py is the only door to Docker.

Compose raises and removes clusters; the SDK gives state and counters. A cluster is labelled with the
process that owns it, so what a killed host left behind is removed by the next one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cluster import PROJECT
from cluster.containers import image as docker_image
from cluster.containers.checks import client
from cluster.containers.cluster import DockerCluster
from cluster.containers.compose_file import OWNER_LABEL, SESSION_LABEL, compose_document
from cluster.containers.projects import down, is_gone, projects
from cluster.engine import ClusterPlan
from cluster.links import kernel_support as kernel_links
from cluster.spec.experiment import Experiment
from cluster.spec.links import Link
from cluster.spec.run_folder import RunFolder, write_at_once

NODE_USER = 1000
"""Who nodes are where the host is root; otherwise they are the host's own user."""


@dataclass(frozen=True)
class DockerEngine:
    """See cluster.engine.Engine. The image is in place."""

    image: str
    user: str
    about: dict[str, Any]

    def check_links(self, links: Iterable[Link]) -> None:
        kernel_links.check(links, link_modules(self.image))

    def prepare_run(self, experiment: Experiment, run: RunFolder, data_folder: Path) -> None:
        """Write the run's compose.yml and let the nodes' user write where nodes write."""
        document = compose_document(
            experiment, run, image=self.image, user=self.user, data_folder=data_folder
        )
        header = "# Repeat this run by hand: docker compose -f THIS_FILE up\n"
        run.compose.write_text(header + yaml.safe_dump(document, sort_keys=False))
        if os.geteuid() == 0:
            for folder in run.node_folders():
                os.chown(folder, NODE_USER, NODE_USER)

    def cluster(self, plan: ClusterPlan) -> DockerCluster:
        return DockerCluster(plan)

    def remove_leftovers(self, session: str) -> None:
        for project, label in projects(client(), SESSION_LABEL).items():
            if label == session:
                down(project)


def open_engine(say: Callable[[str], None], launcher: str = "torch") -> DockerEngine:
    """Remove what killed hosts left, build the launcher's image if it is not there."""
    docker = client()
    for project, owner in projects(docker, OWNER_LABEL).items():
        if is_gone(owner):
            say(f"removing {project}, left behind by a measure that was killed")
            down(project)
    image = docker_image.ensure(launcher, docker, say)
    user = NODE_USER if os.geteuid() == 0 else os.getuid()
    group = NODE_USER if os.geteuid() == 0 else os.getgid()
    about = {
        "name": "docker",
        "version": docker.version()["Version"],
        "image": image,
        "cpu_limits": "Docker, container by container",
        "memory_limits": "Docker, container by container",
    }
    return DockerEngine(image, f"{user}:{group}", about)


def link_modules(image: str) -> set[str]:
    """Of the kernel that containers run on, which may be a virtual machine's."""
    command = "docker run --rm --pull never --network none --user 0:0 --read-only --cap-drop ALL"
    return kernel_links.try_modules([*command.split(), "--cap-add", "NET_ADMIN", image])


def note_data_folder(data_folder: Path) -> None:
    """Let Compose files started by hand use the data sets that are on this machine already.

    Other lines of that file are a person's own, for compose/gpu.yml say.
    """
    if data_folder.name != "mnist":
        return
    path = PROJECT / "compose" / ".env"
    with contextlib.suppress(OSError):
        before = path.read_text() if path.exists() else ""
        kept = [line for line in before.splitlines() if not line.startswith("GRADWIRE_DATA_DIR=")]
        text = "\n".join([*kept, f"GRADWIRE_DATA_DIR={data_folder.parent}"]) + "\n"
        if text != before:  # Compose, or another measure, may be reading it
            write_at_once(path, text)
