"""Host launcher `ray`: an actor on each of N hosts, spread by a placement group.

Code and data come by the job's runtime environment, and events go through an actor, the mailbox,
which is on the host of the driver: it asks for them without traffic between the hosts.
"""

import contextlib
import logging
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, Self

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.documents.session_plan import SessionFolder
from workloads.hosts.agent import Agent, AgentError, Ending, Membership, free_port
from workloads.hosts.artifact_server import PACKAGES, PROJECT, data_files
from workloads.hosts.deliveries import Deliveries
from workloads.hosts.entry import describe_host
from workloads.hosts.fit import TORCH_PACKAGES, HostFacts, parse_facts, too_few_hosts, too_few_slots
from workloads.hosts.launcher import POLL_S, HostsError, HostsLost, Request, judge

RAY_PACKAGES = (*TORCH_PACKAGES, "ray")
ASK_S = 0.25
TELL_S = 15.0
END_S = 7.0
MOST_CHARACTERS = 300
MOST_BYTES = 1 << 29
"""Of a runtime environment's folder, as Ray has it."""

Item = tuple[str, int, bytes]
"""What an agent sends: kind, rank, content."""


class Mailbox:
    """An actor: keeps what agents send until the driver asks for it."""

    def __init__(self) -> None:
        self._items: list[Item] = []

    def put(self, item: Item) -> None:
        self._items.append(item)

    def empty(self) -> list[Item]:
        items, self._items = self._items, []
        return items


class HostAgent:
    """An actor: the agent of a host. Ray's runtime environment is its working folder."""

    def __init__(self) -> None:
        self._agent: Agent | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def describe(self) -> tuple[HostFacts, str, int]:
        """The host, and where it could be the rendezvous."""
        address = ray.util.get_node_ip_address()
        return parse_facts(describe_host(RAY_PACKAGES)), address, free_port()

    def join(self, member: Membership, mailbox: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gradwire-")

        def send(kind: str, body: bytes) -> None:
            ray.get(mailbox.put.remote((kind, member.rank, body)))

        here = os.getcwd()
        self._agent = Agent(member, Path(self._folder.name), send, here, Path(here, "data"))

    def execute(self, spec: str) -> Ending:
        assert self._agent is not None  # join() was called
        try:
            return Ending(self._agent.execute(spec))
        except (AgentError, OSError) as error:
            return Ending(1, str(error))

    def close(self) -> None:
        if self._agent is not None:
            self._agent.close()
        if self._folder is not None:
            self._folder.cleanup()


class RayHosts:
    """See HostLauncher."""

    packages = RAY_PACKAGES
    chosen_by = "the hosts' Python is the one that 'ray start' ran with"

    def __init__(self, request: Request) -> None:
        self._request = request
        self._deliveries = Deliveries()
        self._agents: list[Any] = []
        self._hosts: list[str] = []
        self._mailbox: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        if not ray.is_initialized():
            return
        closing = [agent.close.remote() for agent in self._agents]
        if closing:  # also where one is gone, whose host is
            ray.wait(closing, num_returns=len(closing), timeout=END_S)
        ray.shutdown()  # ends the job: its actors and its placement group

    def find_hosts(self) -> list[HostFacts]:
        self._connect()
        nodes = self._request.nodes
        able = [n for n in ray.nodes() if n["Alive"] and n["Resources"].get("CPU", 0) >= 1]
        if len(able) < nodes:
            where = f"the Ray cluster at {self._request.options.ray_address}"
            raise HostsError(too_few_hosts(nodes, len(able), where))
        group = placement_group([{"CPU": 1}] * nodes, strategy="STRICT_SPREAD")
        self._await(group)
        kind = ray.remote(num_cpus=1)(HostAgent)
        strategies = [PlacementGroupSchedulingStrategy(group, k) for k in range(nodes)]
        agents: list[Any] = [
            # A second thread, so that an agent can be closed while it executes a run.
            kind.options(scheduling_strategy=strategy, max_concurrency=2).remote()
            for strategy in strategies
        ]
        try:
            found = ray.get([agent.describe.remote() for agent in agents])
        except RayError as error:
            raise HostsError(_sentence(error)) from error
        in_order = sorted(range(nodes), key=lambda k: found[k][0]["host"])  # ranks follow names
        facts = [found[k][0] for k in in_order]
        self._agents = [agents[k] for k in in_order]
        self._hosts = [f"node{rank} on {fact['host']}" for rank, fact in enumerate(facts)]
        own = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._mailbox = ray.remote(num_cpus=0)(Mailbox).options(scheduling_strategy=own).remote()
        _, address, port = found[in_order[0]]
        ray.get(
            [
                agent.join.remote(
                    Membership(rank, len(self._request.runs), address, port), self._mailbox
                )
                for rank, agent in enumerate(self._agents)
            ]
        )
        return facts

    def execute(self, run: RunFolder, data: Path) -> None:
        spec, nodes = run.spec.read_text(), run.read_experiment().nodes
        self._deliveries.begin(run)
        parts = [agent.execute.remote(spec) for agent in self._agents[:nodes]]
        waiting = list(parts)
        while waiting:
            self._deliver()
            ready, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=ASK_S)
            for part in ready:
                self._ending(part, parts)
        self._deliver()
        self._deliveries.finish_model()
        judge([self._ending(part, parts) for part in parts], self._hosts)

    def _ending(self, part: Any, parts: list[Any]) -> Ending:
        try:
            ending: Ending = ray.get(part)
        except RayActorError as error:
            host = self._hosts[parts.index(part)]
            raise HostsLost(f"{host} is gone: its actor does not answer") from error
        except RayError as error:
            return Ending(1, _sentence(error))
        return ending

    def _deliver(self) -> None:
        for kind, rank, body in ray.get(self._mailbox.empty.remote()):
            self._deliveries.store(kind, rank, body)

    def _connect(self) -> None:
        address = self._request.options.ray_address
        with tempfile.TemporaryDirectory(prefix="ray-job-") as folder:
            self._stage(Path(folder))
            try:
                ray.init(
                    address=address,
                    runtime_env={"working_dir": folder},
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            except (ConnectionError, RuntimeError, ValueError, RayError) as error:
                raise HostsError(_sentence(error)) from error

    def _stage(self, folder: Path) -> None:
        """What the job's runtime environment has: our packages, and the data of all its runs."""
        for package in PACKAGES:
            shutil.copytree(
                PROJECT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__")
            )
        first = self._request.runs[0]
        planned = SessionFolder(first.path.parent).read_plan().experiments()
        files: dict[str, Path] = {}
        for run in self._request.runs:
            files |= data_files(planned[run.name], self._request.data)
        (folder / "data").mkdir()
        total = sum(path.stat().st_size for path in files.values())
        if total > MOST_BYTES:
            raise HostsError(
                f"the data have {total >> 20} MiB, and a Ray job carries {MOST_BYTES >> 20} at most"
            )
        for name, path in files.items():
            (folder / "data" / name).parent.mkdir(exist_ok=True)
            shutil.copy(path, folder / "data" / name)

    def _await(self, group: Any) -> None:
        """For a slot on each of as many hosts."""
        request = self._request
        patience_s, began = request.options.patience_s, time.monotonic()
        told, ready = began, group.ready()
        while True:
            with contextlib.suppress(GetTimeoutError):
                ray.get(ready, timeout=max(POLL_S, min(1.0, patience_s / 4)))
                return
            waited_s = time.monotonic() - began
            if waited_s > patience_s:
                raise HostsError(too_few_slots(request.nodes, _free_hosts(), patience_s))
            if time.monotonic() - told > TELL_S:
                told = time.monotonic()
                request.say(f"waiting for a free CPU on {request.nodes} hosts: {waited_s:.0f} s")


def _free_hosts() -> int:
    """Hosts with a CPU that nobody has taken."""
    from ray._private.state import available_resources_per_node

    return sum(free.get("CPU", 0) >= 1 for free in available_resources_per_node().values())


def _sentence(error: Exception) -> str:
    """What Ray's error says, on one line."""
    said = re.sub(r"\x1b\[\d*m", "", str(error))
    text = " ".join(said.split())
    if versions := re.search(
        r"was started with: Ray: (\S+) Python: (\S+) This process .*?: Ray: (\S+) Python: (\S+)",
        text,
    ):
        return (
            f"the cluster has Ray {versions[1]} and Python {versions[2]}, and here are Ray"
            f" {versions[3]} and Python {versions[4]}; they must be the same"
        )
    if "Traceback" in text or "^^^" in text:  # of an actor: its last line says most
        return said.strip().splitlines()[-1].strip()
    return text[:MOST_CHARACTERS] or type(error).__name__
