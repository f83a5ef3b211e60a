"""Host launcher `ray`: an actor on each of N hosts, spread by a placement group.

Code and data come by the job's runtime environment, and events go through an actor, the mailbox,
which is on the host of the driver: it asks for them without traffic between the hosts.
"""

import contextlib
import logging
import re
import tempfile
import threading
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
from workloads.hosts.agent import Ending, Membership
from workloads.hosts.deliveries import Deliveries
from workloads.hosts.fit import HostFacts, too_few_hosts, too_few_slots
from workloads.hosts.launcher import HostGone, HostsError, Patience, Request, judge, named
from workloads.hosts.ray_actors import RAY_PACKAGES, HostAgent, Mailbox, stage

LOOK_S = 0.25
END_S = 7.0
MOST_CHARACTERS = 300


class RayHosts:
    """See HostLauncher."""

    packages = RAY_PACKAGES
    chosen_by = "the hosts' Python is the one that 'ray start' ran with"

    def __init__(self, request: Request) -> None:
        self._request = request
        self._agents: list[Any] = []
        self._hosts: list[str] = []
        self._mailbox: Any = None
        self._receivers: dict[int, tuple[Deliveries, int]] = {}
        """By agent, where what it sends goes to, and its rank there."""
        self._receiving = threading.Lock()

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
        nodes = self._wanted()
        group = placement_group([{"CPU": 1}] * nodes, strategy="STRICT_SPREAD")
        self._await(group, nodes)
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
        self._agents = agents = [agents[k] for k in in_order]
        self._hosts = named(facts, self._request)
        own = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._mailbox = ray.remote(num_cpus=0)(Mailbox).options(scheduling_strategy=own).remote()
        _, address, port = found[in_order[0]]
        ranks = [0] * nodes if self._request.spread else list(range(nodes))
        members = [Membership(rank, len(self._request.runs), address, port) for rank in ranks]
        ray.get([agents[k].join.remote(k, members[k], self._mailbox) for k in range(nodes)])
        return facts

    def execute(self, run: RunFolder, data: Path, host: int | None = None) -> None:
        numbers = range(run.read_experiment().nodes) if host is None else [host]
        deliveries = Deliveries()
        deliveries.begin(run)
        for rank, number in enumerate(numbers):
            self._receivers[number] = deliveries, rank
        spec = run.spec.read_text()
        parts = {self._agents[number].execute.remote(spec): number for number in numbers}
        waiting, endings = list(parts), dict[int, Ending]()
        while waiting:
            self._receive()
            ready, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=LOOK_S)
            endings |= {parts[part]: self._ending(part, parts[part]) for part in ready}
        self._receive()
        deliveries.finish_model()
        judge([endings[k] for k in numbers], [self._hosts[k] for k in numbers])

    def _ending(self, part: Any, number: int) -> Ending:
        try:
            ending: Ending = ray.get(part)
        except RayActorError as error:
            raise HostGone(f"{self._hosts[number]} is gone: its actor does not answer") from error
        except RayError as error:
            return Ending(1, _sentence(error))
        return ending

    def _receive(self) -> None:
        """In the order in which it was sent, whichever thread asks."""
        with self._receiving:
            for kind, number, body in ray.get(self._mailbox.empty.remote()):
                deliveries, rank = self._receivers[number]
                deliveries.store(kind, rank, body)

    def _wanted(self) -> int:
        """How many hosts; those that are free now, where runs are spread over any number."""
        nodes, is_spread = self._request.nodes, self._request.spread
        able = [n for n in ray.nodes() if n["Alive"] and n["Resources"].get("CPU", 0) >= 1]
        least = 1 if is_spread else nodes
        if len(able) < least:
            where = f"the Ray cluster at {self._request.options.ray_address}"
            raise HostsError(too_few_hosts(least, len(able), where))
        return max(1, min(nodes, _free_hosts())) if is_spread else nodes

    def _connect(self) -> None:
        address = self._request.options.ray_address
        with tempfile.TemporaryDirectory(prefix="ray-job-") as folder:
            stage(self._request, Path(folder))
            try:
                ray.init(
                    address=address,
                    runtime_env={"working_dir": folder},
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            except (ConnectionError, RuntimeError, ValueError, RayError) as error:
                raise HostsError(_sentence(error)) from error

    def _await(self, group: Any, nodes: int) -> None:
        """For a slot on each of as many hosts."""
        patience, ready = Patience(self._request), group.ready()
        while True:
            with contextlib.suppress(GetTimeoutError):
                ray.get(ready, timeout=patience.pause_s)
                return
            if patience.is_over:
                raise HostsError(too_few_slots(nodes, _free_hosts(), patience.limit_s))
            patience.tell(f"waiting for a free CPU on {nodes} hosts")


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
