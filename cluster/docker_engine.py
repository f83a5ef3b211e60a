"""Nodes made of Docker containers: the only door to Docker.

Compose raises and removes clusters; the SDK gives state and counters. A cluster is labelled with the
process that owns it, so what a killed host left behind is removed by the next one.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cluster import docker_image, interruption, kernel_links, limits, link_setup
from cluster.compose_file import (
    OWNER_LABEL,
    SESSION_LABEL,
    compose_document,
    path_in_node,
    project_name,
    split_service,
)
from cluster.engine import (
    ClusterPlan,
    CounterSource,
    EngineError,
    EngineUnavailable,
    LinksNotTrue,
    check_cores,
    check_memory,
)
from cluster.links import Link
from cluster.records import Counters, read_node_counters, total
from cluster.run_folder import RunFolder, node_name, write_at_once
from cluster.spec import Experiment, SpecError

PROJECT = Path(__file__).resolve().parent.parent
NODE_USER = 1000
"""Who nodes are where the host is root; otherwise they are the host's own user."""

STATE_EVERY_S = 0.5
LINKS_TIMEOUT_S = 300
REMOVED = -1
"""Stands for the exit code of a container that somebody removed."""
SERVICE_LABEL = "com.docker.compose.service"
PROJECT_LABEL = "com.docker.compose.project"
CDI_GPU = "nvidia.com/gpu="
GPU_HOOK = "nvidia-container-runtime-hook"
HOW_TO_GET_ONE = "install Docker with Compose v2 (on Debian: docker/install_engine.sh as root), or use --engine netns"


def check(nodes: int = 1, cpus: float | None = None, total_memory: int | None = None) -> str:
    """The engine's version; EngineUnavailable, with the way out, where no cluster could be raised."""
    if shutil.which("docker") is None:
        raise EngineUnavailable(
            f"engine docker: there is no 'docker' command; {HOW_TO_GET_ONE}", "no docker command"
        )
    try:
        about = client().info()
    except Exception as error:
        denied = "permission denied" in str(error).lower()
        reason = "no permission to talk to Docker" if denied else "no Docker engine answers"
        way_out = "add yourself to the group docker" if denied else HOW_TO_GET_ONE
        raise EngineUnavailable(f"engine docker: {reason}; {way_out}", reason) from None
    for plugin in ("compose", "buildx"):
        if subprocess.run(["docker", plugin, "version"], capture_output=True).returncode != 0:
            raise EngineUnavailable(
                f"engine docker: 'docker {plugin}' is missing; {HOW_TO_GET_ONE}",
                f"docker has no {plugin}",
            )
    _check_size(nodes)
    check_cores(cpus, about["NCPU"])
    check_memory(total_memory, about["MemTotal"])
    if total_memory is not None:
        _check_memory_limits(about)
    return f"version {about['ServerVersion']}"


def check_gpus(wanted: int) -> str:
    """How GPUs reach containers; EngineUnavailable, with what was looked for, where they do not."""
    about = client().info()
    runtime = "nvidia" in about.get("Runtimes", {})
    listed = [str(one.get("ID")) for one in about.get("DiscoveredDevices") or []]
    by_name = [one for one in listed if one.startswith(CDI_GPU)]
    seen = _gpus_of_this_machine()
    hook = (
        shutil.which(GPU_HOOK) is not None
    )  # of an engine on this machine: enough without a runtime
    if not runtime and not by_name and not hook:
        here = "no nvidia-smi on this machine" if seen is None else f"nvidia-smi lists {seen} here"
        raise EngineUnavailable(
            "gpu: no GPU is visible to Docker: looked for a runtime 'nvidia' and for CDI devices"
            f" '{CDI_GPU}' in 'docker info' and for {GPU_HOOK}, found none ({here}); install the NVIDIA driver and the"
            " NVIDIA container toolkit (docs/gpu.md)"
        )
    if seen is not None and seen < wanted:
        raise SpecError(
            f"gpu: a run has {wanted} nodes, and needs a GPU for each: nvidia-smi lists {seen}"
        )
    return "the NVIDIA container toolkit" if runtime or hook else f"CDI: {', '.join(by_name)}"


def _gpus_of_this_machine() -> int | None:
    """None where nobody can say: no driver, or the engine is on another machine."""
    if shutil.which("nvidia-smi") is None:
        return None
    answer = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True)
    return sum(line.startswith("GPU ") for line in answer.stdout.splitlines())


def client() -> Any:
    """The engine that the docker command talks to; a context may name another than the default."""
    import docker

    host = os.environ.get("DOCKER_HOST")
    if not host:
        command = ["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]
        host = subprocess.run(command, capture_output=True, text=True).stdout.strip() or None
    return docker.DockerClient(base_url=host, timeout=30)


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
        for project, label in _projects(client(), SESSION_LABEL).items():
            if label == session:
                _down(project)


def open_engine(say: Callable[[str], None], launcher: str = "torch") -> DockerEngine:
    """Remove what killed hosts left, build the launcher's image if it is not there."""
    docker = client()
    for project, owner in _projects(docker, OWNER_LABEL).items():
        if _is_gone(owner):
            say(f"removing {project}, left behind by a measure that was killed")
            _down(project)
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


def _check_size(nodes: int) -> None:
    """Every node knows every other: N (N-1) entries in the kernel's neighbour table, shared by all."""
    try:
        most = int(Path("/proc/sys/net/ipv4/neigh/default/gc_thresh3").read_text())
    except OSError:
        return
    if nodes * (nodes + 1) > most:
        raise EngineUnavailable(
            f"engine docker: {nodes} containers overflow this kernel's neighbour table of {most}"
            f" entries: use --engine netns, or 'sysctl -w"
            f" net.ipv4.neigh.default.gc_thresh3={2 * nodes * nodes}'"
        )


def _check_memory_limits(about: dict[str, Any]) -> None:
    """Docker itself would warn and go on without."""
    if not about["MemoryLimit"]:
        raise EngineUnavailable(
            "total_memory: this Docker engine cannot limit memory, its kernel has no memory controller;"
            " on Debian start the kernel with cgroup_enable=memory, or use --total-memory none"
        )
    limits.check_swap(about["SwapLimit"])


class DockerCluster:
    """See cluster.engine.Cluster."""

    def __init__(self, plan: ClusterPlan) -> None:
        self.plan = plan
        self.project = project_name(plan.name)
        self._containers: dict[int, Any] = {}
        self._helpers: dict[int, Any] = {}
        self._processes: dict[int, int] = {}
        self._exits: dict[int, int] = {}
        self._looked = 0.0
        self._stats: Any = None
        self.links: list[dict[str, Any]] = []
        self.announcement: str | None = None

    @property
    def sources(self) -> tuple[CounterSource, ...]:
        kernel = CounterSource("kernel", 10, self.read_kernel)
        docker = CounterSource("docker", 1, self.read_api)
        return (kernel, docker) if self._processes else (docker,)

    def __enter__(self) -> DockerCluster:
        environment = {
            **os.environ,
            "GRADWIRE_RUNS": "\n".join(path_in_node(run) for run in self.plan.runs),
            "GRADWIRE_RECORD": "1",
            "GRADWIRE_OWNER": _myself(),
            **self._pages(),
        }
        command = ["docker", "compose", "--file", str(self.plan.runs[0].compose)]
        command += [
            "--project-name",
            self.project,
            "up",
            "--detach",
            "--no-build",
            "--pull",
            "never",
        ]
        process: subprocess.Popen[str] | None = None
        try:
            with interruption.held_back():
                process = subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    start_new_session=True,  # Ctrl-C must not cut it short: half a cluster cannot be removed
                )
            output, _ = process.communicate()
            if process.returncode != 0:
                self._find_containers()
                self._await_links()  # whose complaint says more
                lines = "\n".join(output.strip().splitlines()[-5:])
                raise EngineError(f"'{' '.join(command)}' failed ({process.returncode}): {lines}")
            self._find_containers()
            self._await_links()
        except BaseException:
            if process is not None:
                process.wait()
            _down(self.project)
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        _down(self.project)

    def _pages(self) -> dict[str, str]:
        """Ports of this machine for the web pages of Spark's master and driver; the usual ones if free."""
        if not self.plan.attendants:
            return {}
        master, driver = _free_port(8080), _free_port(4040)
        self.announcement = (
            f"Spark's pages: http://127.0.0.1:{master} (master), http://127.0.0.1:{driver} (driver)"
        )
        return {"GRADWIRE_MASTER_PAGE": str(master), "GRADWIRE_DRIVER_PAGE": str(driver)}

    def _find_containers(self) -> None:
        docker = client()
        filters = {"label": f"{PROJECT_LABEL}={self.project}"}
        for container in docker.containers.list(all=True, filters=filters):
            service = container.labels[SERVICE_LABEL]
            role, rank = split_service(service)
            if role == "link":
                self._helpers[rank] = container
            if service in self.plan.attendants:
                rank = self.plan.nodes + self.plan.attendants.index(service)
            elif role != "node":
                continue
            self._containers[rank] = container
            process = container.attrs["State"]["Pid"]
            if _runs_in(process, container.id):
                self._processes[rank] = process
        if len(self._processes) < len(self._containers):
            self._processes = {}  # another machine's or a virtual machine's: not ours to read

    def exited(self) -> dict[int, int]:
        if time.monotonic() - self._looked >= STATE_EVERY_S:
            self._looked = time.monotonic()
            for rank, container in self._containers.items():
                if rank not in self._exits:
                    self._look(rank, container)
        return dict(self._exits)

    def _look(self, rank: int, container: Any) -> None:
        import requests

        import docker

        try:
            container.reload()
        except docker.errors.NotFound:
            self._exits[rank] = REMOVED
            return
        except (docker.errors.APIError, requests.RequestException) as error:
            raise EngineError(f"the Docker engine no longer answers: {error}") from error
        if container.attrs["State"]["Status"] in ("exited", "dead"):
            self._exits[rank] = container.attrs["State"]["ExitCode"]

    def _await_links(self) -> None:
        """Until every link is set up; LinksNotTrue as soon as one cannot be."""
        waiting = dict(sorted(self._helpers.items()))
        deadline = time.monotonic() + LINKS_TIMEOUT_S
        while waiting:
            for rank, helper in list(waiting.items()):
                helper.reload()
                if helper.attrs["State"]["Status"] in ("exited", "dead"):
                    del waiting[rank]
                    answer = _answer(helper)
                    if answer["findings"]:
                        self.links.append(answer["findings"])
                    if answer["complaint"]:
                        raise LinksNotTrue(answer["complaint"], self.links)
            if time.monotonic() > deadline:
                raise LinksNotTrue(
                    f"the link of {node_name(min(waiting))} took too long", self.links
                )
            time.sleep(0.05)
        self.links.sort(key=lambda found: split_service(found["node"]))

    def link_statistics(self) -> list[dict[str, Any]]:
        """Read on the nodes: it needs no privilege."""
        import docker

        def read(rank: int) -> list[dict[str, Any]]:
            try:
                answer = self._containers[rank].exec_run(link_setup.STATISTICS)
                return [link_setup.parse_statistics(answer.output, node_name(rank))]
            except (docker.errors.APIError, ValueError):  # the node is gone
                return []

        with ThreadPoolExecutor(max_workers=8) as pool:
            return [entry for entries in pool.map(read, self.plan.links) for entry in entries]

    def out_of_memory(self) -> set[int]:
        """Of containers that still run, too: what starved may have been a child of its first process."""
        import docker

        starved = set()
        for rank, container in self._containers.items():
            with contextlib.suppress(docker.errors.APIError):
                container.reload()
                if container.attrs["State"]["OOMKilled"]:
                    starved.add(rank)
        return starved

    def last_words(self, rank: int) -> str:
        if self._exits.get(rank) == REMOVED:
            return "its container was removed"
        return str(self._containers[rank].logs(tail=20).decode(errors="replace"))

    def read_kernel(self) -> dict[int, Counters]:
        """From the host, through /proc, without asking Docker."""
        readings = {}
        for rank, process in self._processes.items():
            try:
                readings[rank] = read_node_counters(process)
            except OSError:
                continue  # the node is gone
        return readings

    def read_api(self) -> dict[int, Counters]:
        """One-shot: without it each call waits for a second reading, almost two seconds."""
        if self._stats is None:
            self._stats = client().api  # of its own: this is called from the collector's thread
        readings = {}
        for rank, container in self._containers.items():
            stats = self._stats.stats(container.id, stream=False, one_shot=True)
            networks = stats.get("networks")
            if networks:
                readings[rank] = total(
                    Counters(n["tx_bytes"], n["tx_packets"], n["rx_bytes"], n["rx_packets"])
                    for n in networks.values()
                )
        return readings


def _free_port(usual: int) -> int:
    for port in (usual, 0):
        with contextlib.suppress(OSError), socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(("127.0.0.1", port))
            return int(trial.getsockname()[1])
    raise EngineError("this machine has no free port on 127.0.0.1")


def _down(project: str) -> None:
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


def _answer(helper: Any) -> dict[str, Any]:
    """What a link's helper printed: its findings, and a complaint where it failed."""
    said = helper.logs(stderr=False).decode(errors="replace").strip()
    if said.startswith("{"):
        answer: dict[str, Any] = json.loads(said)
        return answer
    last = helper.logs().decode(errors="replace").strip().splitlines()[-1:]
    error = helper.attrs["State"]["Error"] or " ".join(last) or "ended without a word"
    return {"findings": None, "complaint": f"the helper {helper.name} failed: {error}"}


def _projects(docker: Any, label: str) -> dict[str, str]:
    """Compose projects that carry a label, with its value, from containers and networks alike."""
    found = {}
    labelled = {"filters": {"label": label}, "ignore_removed": True}  # others come and go meanwhile
    for container in docker.containers.list(all=True, **labelled):
        found[container.labels[PROJECT_LABEL]] = container.labels[label]
    for network in docker.networks.list(filters={"label": label}):
        labels = network.attrs["Labels"]
        found[labels[PROJECT_LABEL]] = labels[label]
    return found


def _myself() -> str:
    return f"{os.getpid()}:{_started(os.getpid())}:{_realm()}"


def _is_gone(owner: str) -> bool:
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


def _runs_in(process: int, container_id: str) -> bool:
    """Is this process number, on this machine, really the container's?"""
    try:
        return process > 0 and container_id in Path(f"/proc/{process}/cgroup").read_text()
    except OSError:
        return False
