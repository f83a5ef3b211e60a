"""What a Ray job has of gradwire: code and data, an agent on every host, the agents' mailbox."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import ray

from cluster.spec.documents.session_plan import SessionFolder
from workloads.hosts.agent import Agent, AgentError, Ending, Membership, free_port
from workloads.hosts.artifact_server import PACKAGES, PROJECT, data_files
from workloads.hosts.entry import describe_host
from workloads.hosts.fit import TORCH_PACKAGES, HostFacts, parse_facts
from workloads.hosts.launcher import HostsError, Request

RAY_PACKAGES = (*TORCH_PACKAGES, "ray")
MOST_BYTES = 1 << 29
"""Of a runtime environment's folder, as Ray has it."""

Item = tuple[str, int, bytes]
"""What an agent sends: kind, number of the agent, content."""


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

    def join(self, number: int, member: Membership, mailbox: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gradwire-")

        def send(kind: str, body: bytes) -> None:
            ray.get(mailbox.put.remote((kind, number, body)))

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


def stage(request: Request, folder: Path) -> None:
    """Fill the job's runtime environment: our packages, and the data of all its runs."""
    for package in PACKAGES:
        shutil.copytree(
            PROJECT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    first = request.runs[0]
    planned = SessionFolder(first.path.parent).read_plan().experiments()
    files: dict[str, Path] = {}
    for run in request.runs:
        files |= data_files(planned[run.name], request.data)
    (folder / "data").mkdir()
    total = sum(path.stat().st_size for path in files.values())
    if total > MOST_BYTES:
        raise HostsError(
            f"the data have {total >> 20} MiB, and a Ray job carries {MOST_BYTES >> 20} at most"
        )
    for name, path in files.items():
        (folder / "data" / name).parent.mkdir(exist_ok=True)
        shutil.copy(path, folder / "data" / name)
