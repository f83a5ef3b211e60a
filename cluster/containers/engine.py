"""Engine `docker`: nodes are containers of one Compose project per cluster.

Compose starts and removes clusters; the Docker SDK gives state and counters. Every container is
labelled with the process that owns it, so that the next measure removes what a killed one left.
"""

import functools
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from cluster.containers import image
from cluster.containers.checks import DockerInfo, check_docker, check_gpus
from cluster.containers.cluster import DockerCluster
from cluster.containers.compose_file import SESSION_LABEL, compose_document
from cluster.containers.projects import client, down, projects, remove_ended
from cluster.engine import ClusterPlan, Engine, largest_launcher
from cluster.host.ownership import Kind, record
from cluster.links import kernel_support
from cluster.links.delay_line import FILE
from cluster.spec.documents.codec import Options
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.experiment import Experiment
from cluster.spec.hosts import HostOptions
from cluster.spec.links import Link

NODE_USER = 1000
"""The user of nodes where the host is root; otherwise nodes run as the host's own user."""


def check(experiments: Sequence[Experiment] = (), hosts: HostOptions | None = None) -> str:
    """The engine's version, and how GPUs reach containers where the experiments need some."""
    version = check_docker(experiments)
    gpus = max((e.nodes if e.gpu == 1 else e.gpu for e in experiments), default=0)
    return f"{version}, {check_gpus(gpus)}" if gpus else version


def limited_cores() -> int:
    return DockerInfo.read().cores


def open_engine(
    experiments: Sequence[Experiment],
    say: Callable[[str], None],
    hosts: HostOptions | None = None,
) -> Engine:
    """Remove what killed runs left behind and build the image that all experiments need."""
    docker = client()
    for project in remove_ended(docker):
        say(f"removed what a killed measure left behind: {project}")
    launcher = largest_launcher(experiments)
    if any(experiment.gpu for experiment in experiments):
        launcher += " on GPUs"
    record(Kind.IMAGE, image.name(launcher))
    name = image.ensure(launcher, docker, say)
    user = NODE_USER if os.geteuid() == 0 else os.getuid()
    group = NODE_USER if os.geteuid() == 0 else os.getgid()
    about = {
        "name": "docker",
        "version": docker.version()["Version"],
        "image": name,
        "cpu_limits": "Docker, container by container",
        "memory_limits": "Docker, container by container",
    }
    files = dict.fromkeys(e.requirements for e in experiments if e.requirements is not None)
    with_packages = {
        file: image.ensure_with_packages(launcher, Path(file), docker, say) for file in files
    }
    return DockerEngine(name, f"{user}:{group}", about, with_packages)


@dataclass(frozen=True)
class DockerEngine:
    """See cluster.engine.Engine. The image is in place."""

    image: str
    user: str
    about: Options
    with_packages: dict[str, str] = field(default_factory=dict)
    """Requirements file -> the image that has its packages, too."""

    def check_links(self, links: Iterable[Link], paths: Iterable[Link] = ()) -> None:
        kernel_support.check(links, link_modules(self.image), paths)

    def prepare_run(self, experiment: Experiment, run: RunFolder, data_folder: Path) -> None:
        """Write the run's compose.yml."""
        document = compose_document(
            experiment,
            run,
            image=self.with_packages.get(experiment.requirements or "", self.image),
            user=self.user,
            data_folder=data_folder,
            delay_line=self._needs_delay_line(experiment.shaped_paths.values()),
        )
        header = "# Repeat this run by hand: docker compose -f THIS_FILE up\n"
        run.compose.write_text(header + yaml.safe_dump(document, sort_keys=False))

    def node_user(self, rank: int) -> int | None:
        return NODE_USER if os.geteuid() == 0 else None

    def cluster(self, plan: ClusterPlan) -> DockerCluster:
        return DockerCluster(plan, self._needs_delay_line(plan.paths.values()))

    def _needs_delay_line(self, paths: Collection[Link]) -> bool:
        is_delayed = any(path.delay_s for path in paths)
        return is_delayed and kernel_support.needs_delay_line(paths, link_modules(self.image))

    def remove_leftovers(self, session: str) -> None:
        for project, label in projects(client(), SESSION_LABEL).items():
            if label == session:
                down(project)


@functools.cache
def link_modules(image: str) -> set[str]:
    """Modules of the kernel that containers run on, which may be a virtual machine's."""
    command = "docker run --rm --pull never --network none --user 0:0 --read-only --cap-drop ALL"
    command += " --cap-add NET_ADMIN"
    with_device = [*command.split(), "--device", str(FILE), image]
    return kernel_support.try_modules(with_device) or kernel_support.try_modules(
        [*command.split(), image]
    )
