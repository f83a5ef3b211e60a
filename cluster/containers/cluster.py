"""A running cluster of containers: started by Compose, watched through the SDK, always removed."""

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, Self

import yaml

from cluster.containers.compose_file import (
    BACKGROUND,
    COUNTED,
    helped_ranks,
    path_in_node,
    project_name,
    recording_document,
    split_service,
)
from cluster.containers.container_state import (
    ENDED,
    PAUSED,
    engine_answers,
    how_stopped,
    local_process,
)
from cluster.containers.link_helpers import LinkHelpers
from cluster.containers.pause import pause
from cluster.containers.projects import PROJECT_LABEL, SERVICE_LABEL, client, down
from cluster.engine import ClusterPlan, CounterSource, EngineError
from cluster.host import interruption
from cluster.host.ownership import VARIABLE, Kind, Owner, record, tied
from cluster.host.process_state import LOOK_S
from cluster.links import background_sender, router, setup
from cluster.spec import clock
from cluster.spec.dilation import cpu_quota
from cluster.spec.documents.links import LinkStatistics, MeasuredLink
from cluster.spec.documents.records import Counters, read_all_counters
from cluster.spec.documents.run_folder import RunFolder, node_name
from cluster.spec.links import Link
from cluster.spec.program import ISOLATED
from cluster.spec.sites import Pair, path_name

STATE_EVERY_S = 0.5
STATISTICS_TRIES = 3
API_READINGS_PER_INTERVAL = 2
"""Of all containers together."""
PORT_TAKEN = ("port is already allocated", "address already in use")
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
KILL = (
    "p=1 n=0; while set -- $(cat /proc/$p/task/*/children); [ $# -gt 0 ]; do p=$1 n=$((n+1)); done;"
    " [ $n -ge {depth} ] && kill -KILL $p"
)
"""The last of the chain of children below the container's first process, if it is so deep."""
DISTURB = {
    "kill": KILL.format(depth=2),
    "kill-kept": KILL.format(depth=3),
    "resume": "kill -CONT -1",
    "unplug": f"ip link set {COUNTED} down",
    "plug": f"ip link set {COUNTED} up",
}
"""Scripts in a node. A training process that has stopped itself goes on."""
REMOVED = -1
"""The exit code of a container that was removed from outside."""


class DockerCluster:
    """See cluster.engine.Cluster."""

    def __init__(self, plan: ClusterPlan, delay_line: bool = False) -> None:
        """With a `delay_line` paths between sites are delayed in user space."""
        self.plan, self._delay_line = plan, delay_line
        self.project = project_name(plan.name)
        self._helpers: LinkHelpers | None = None
        self._containers: dict[int, Any] = {}
        self._router: Any = None
        """The container between sites, where there is one."""
        self._senders: dict[int, Any] = {}
        """Containers that send and take background traffic, by the ranks of their nodes."""
        self._processes: dict[int, int] = {}
        self._exits: dict[int, int] = {}
        self._paused: set[int] = set()
        self._checked = 0.0
        self._connect = cache(client)  # for the collector's thread
        self.links: list[MeasuredLink] = []
        self.announcement: str | None = None

    @property
    def sources(self) -> tuple[CounterSource, ...]:
        return counter_sources(self._processes, self._containers, self._connect)

    def __enter__(self) -> Self:
        try:
            failed, output = self._up(self._page_ports())
            if failed and any(words in output for words in PORT_TAKEN):  # since it was free
                down(self.project)
                failed, output = self._up(self._page_ports(usual=False))
            self._find_containers()
            if self._helpers is not None:
                self.links = self._helpers.wait()  # its error says more than Compose's
            if failed:
                raise EngineError(f"{failed}: " + "\n".join(output.strip().splitlines()[-5:]))
            if self.plan.network != ISOLATED:
                self._open_way_out()
        except BaseException:
            down(self.project)
            raise
        return self

    def _up(self, pages: dict[str, str]) -> tuple[str, str]:
        """Run `docker compose up`: the command if it failed, else nothing; and its output."""
        environment = {
            **os.environ,
            "GRADWIRE_RUNS": "\n".join(path_in_node(run) for run in self.plan.runs),
            VARIABLE: str(Owner.current()),
            background_sender.AT_ONCE: "when-told",
            **clock.shared(),
            **pages,
        }
        folders = self.plan.node_folders
        recording = folders / "compose.yml"
        recording.write_text(yaml.safe_dump(recording_document(self.plan.writers, folders)))
        command = ["docker", "compose", "--file", str(self.plan.runs[0].compose)]
        command += ["--file", str(recording), "--project-name", self.project, "up"]
        command += ["--detach", "--no-build", "--pull", "never"]
        record(Kind.CONTAINERS, self.project)
        if helped := helped_ranks(self.plan.links, self.plan.sites, self.plan.paths):
            self._helpers = LinkHelpers(client(), self.project, helped)
        process: subprocess.Popen[str] | None = None
        try:
            with interruption.held_back():
                process = subprocess.Popen(
                    tied(command),
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    start_new_session=True,  # Ctrl-C must not leave half a cluster
                )
            output = self._await_up(process)
        except BaseException:
            if process is not None and process.poll() is None:
                with contextlib.suppress(EngineError):
                    self._await_up(process)
            raise
        failed = f"'{' '.join(command)}' failed ({process.returncode})"
        return failed if process.returncode else "", output

    def _await_up(self, process: subprocess.Popen[str]) -> str:
        """The output of `docker compose up`, which waits for helpers if a node has no link."""
        while True:
            try:
                return process.communicate(timeout=LOOK_S)[0]
            except subprocess.TimeoutExpired:
                try:
                    if self._helpers is not None:
                        self._helpers.look()
                except EngineError:
                    process.terminate()
                    process.communicate()
                    raise

    def __exit__(self, *exc: object) -> None:
        down(self.project)

    def _page_ports(self, usual: bool = True) -> dict[str, str]:
        """Ports for the web pages of Spark's master and driver; the usual ones if free."""
        if not self.plan.auxiliary_services:
            return {}
        master, driver = (_free_port(port if usual else 0) for port in (8080, 4040))
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
            if service == router.NAME:
                self._router = container
            if role == BACKGROUND:
                self._senders[rank] = container
            if service in self.plan.auxiliary_services:
                rank = self.plan.nodes + self.plan.auxiliary_services.index(service)
            elif role != "node":
                continue
            self._containers[rank] = container
            process = local_process(container)
            if process is not None:
                self._processes[rank] = process
        if len(self._processes) < len(self._containers):
            self._processes = {}  # the engine is on another or a virtual machine

    def _open_way_out(self) -> None:
        """A second interface, on Docker's own bridge; programs begin after this."""
        bridge = client().networks.get("bridge")
        for container in self._containers.values():
            bridge.connect(container)

    def exited(self) -> dict[int, int]:
        if time.monotonic() - self._checked >= STATE_EVERY_S:
            self._checked = time.monotonic()
            for rank, container in self._containers.items():
                if rank not in self._exits:
                    self._check_exit(rank, container)
        return dict(self._exits)

    def _check_exit(self, rank: int, container: Any) -> None:
        import docker

        try:
            with engine_answers():
                container.reload()
        except docker.errors.NotFound:
            self._exits[rank] = REMOVED
            return
        state = container.attrs["State"]
        if state["Status"] in ENDED:
            self._exits[rank] = state["ExitCode"]
        if state["Paused"]:
            self._paused.add(rank)
        else:
            self._paused.discard(rank)

    def stopped(self, silent: Collection[int]) -> dict[int, str]:
        self.exited()  # brings the states up to date
        found = dict.fromkeys(self._paused, PAUSED)
        for rank in set(silent) & set(self._containers) - set(found):
            if how := how_stopped(self._containers[rank], self._processes.get(rank)):
                found[rank] = how
        return found

    def watch(self, run: RunFolder) -> None:
        """No-op: one run is carried out at a time."""

    def link_statistics(self) -> list[LinkStatistics]:
        """Read with tc in the containers, which needs no privilege for it."""

        def of_node(rank: int) -> list[LinkStatistics]:
            text = _read_buckets(self._containers[rank])
            return [setup.parse_statistics(text, node_name(rank))] if text else []

        with ThreadPoolExecutor(max_workers=8) as pool:
            found = [entry for entries in pool.map(of_node, self.plan.links) for entry in entries]
        text = _read_buckets(self._router) if self._router is not None else None
        return found + (setup.parse_path_statistics(text, self.plan.paths) if text else [])

    def change_link(self, place: int | Pair, link: Link) -> None:
        if isinstance(place, int):
            container, what = self._containers[place], setup.describe(node_name(place))
            commands = setup.change(link, self.plan.dilation)
        else:
            container, what = self._router, setup.describe(path_name(place))
            paths = {**self.plan.paths, place: link}
            shaped = {pair: path.dilated(self.plan.dilation) for pair, path in paths.items()}
            commands = router.change_commands(
                shaped, place, setup.kernel_tick_s(), self._delay_line
            )
        script = " && ".join(" ".join(command) for command in commands)
        self._run_as_root(container, script, f"{what} could not be changed")

    def send_background(self, is_on: bool) -> None:
        import docker

        number = background_sender.BEGIN if is_on else background_sender.END
        for rank, container in self._senders.items():
            try:
                container.kill(signal=number.name)
            except docker.errors.APIError as error:
                why = f"the background traffic of {node_name(rank)} has ended by itself: {error}"
                raise EngineError(why) from error

    def disturb(self, kind: str, rank: int) -> None:
        """Processes and links by scripts in the node; a paused container runs nothing."""
        import docker

        try:
            if kind == "stop":
                pause(self._containers[rank])
                return
            if kind == "resume":
                self._containers[rank].unpause()
        except docker.errors.APIError as error:
            raise EngineError(f"{kind} of {node_name(rank)} failed: {error}") from error
        self._run_as_root(
            self._containers[rank], DISTURB[kind], f"{kind} of {node_name(rank)} failed"
        )

    def limit_cores(self, rank: int, cores: float | None) -> None:
        import docker

        quota_us, period_us = (-1, 100_000) if cores is None else cpu_quota(cores)
        try:
            self._containers[rank].update(cpu_quota=quota_us, cpu_period=period_us)
        except docker.errors.APIError as error:
            why = f"the CPU limit of {node_name(rank)} could not be set: {error}"
            raise EngineError(why) from error

    def _run_as_root(self, container: Any, script: str, problem: str) -> None:
        """Started by Docker in a container, with the privilege that the node's worker lacks."""
        import docker

        how = {"user": "0:0", "privileged": True, "environment": {"PATH": SYSTEM_PATH}}
        try:
            code, output = container.exec_run(["/bin/sh", "-c", script], **how)
        except docker.errors.APIError as error:
            raise EngineError(f"{problem}: {error}") from error
        if code != 0:
            said = " ".join(output.decode(errors="replace").split())
            raise EngineError(f"{problem}: {said}")

    def out_of_memory(self) -> set[int]:
        """Running containers too: the kernel may have killed a child of the first process."""
        import docker

        killed = set()
        for rank, container in self._containers.items():
            with contextlib.suppress(docker.errors.APIError):
                container.reload()
                if container.attrs["State"]["OOMKilled"]:
                    killed.add(rank)
        return killed

    def exit_details(self, rank: int) -> str:
        if self._exits.get(rank) == REMOVED:
            return "its container was removed"
        return str(self._containers[rank].logs(tail=20).decode(errors="replace"))


def _read_buckets(container: Any) -> bytes | None:
    """What tc shows in a container; None where it has ended."""
    import docker

    for _ in range(STATISTICS_TRIES):
        try:
            shown: bytes = container.exec_run(setup.STATISTICS).output
        except docker.errors.APIError:
            return None
        with contextlib.suppress(ValueError):  # a busy Docker may lose a short command's output
            json.loads(shown)
            return shown
    return None


def counter_sources(
    processes: Mapping[int, int], containers: Mapping[int, Any], connect: Callable[[], Any]
) -> tuple[CounterSource, ...]:
    """The kernel's counters (no processes where the engine is in a virtual machine), and Docker's.

    A reading of one container costs the engine some milliseconds of CPU, so there are few: only the
    first and the last of a run are compared with the others' counts.
    """
    kernel = CounterSource("kernel", 10, lambda: read_all_counters(processes, COUNTED))
    often = min(1.0, API_READINGS_PER_INTERVAL / max(1, len(containers)))
    docker = CounterSource("docker", often, partial(read_api, connect, containers))
    return (kernel, docker) if processes else (docker,)


def read_api(connect: Callable[[], Any], containers: Mapping[int, Any]) -> dict[int, Counters]:
    """Counters of the Docker API. One-shot: else each call takes almost two seconds."""
    readings = {}
    for rank, container in containers.items():
        stats = connect().api.stats(container.id, stream=False, one_shot=True)
        if counted := (stats.get("networks") or {}).get(COUNTED):
            names = ("tx_bytes", "tx_packets", "rx_bytes", "rx_packets")
            readings[rank] = Counters(*(counted[name] for name in names))
    return readings


def _free_port(usual: int) -> int:
    for port in (usual, 0):
        with contextlib.suppress(OSError), socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(("127.0.0.1", port))
            return int(trial.getsockname()[1])
    raise EngineError("this machine has no free port on 127.0.0.1")
