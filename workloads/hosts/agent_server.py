"""The driver's end for agents that come over HTTP: who they are, their runs, and who is gone.

Agents introduce themselves, ask until all have come and each has its rank, and then ask for one run
after the other. Their heartbeats share one connection each: where it closes, or nothing comes over
it, the host is gone.
"""

import json
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from cluster.spec.documents.run_folder import RunFolder
from workloads.hosts.agent import Ending, Membership
from workloads.hosts.artifact_server import Answer, ArtifactServer
from workloads.hosts.fit import HostFacts, parse_facts

CLOSED_S = 3.0
"""After its connection closed, how long an agent may take for another."""
SILENT_S = 20.0
"""Without a heartbeat for this long a host is gone."""
FACTS_BYTES = 1 << 16
WAIT, OVER = (204, b""), (410, b"")


@dataclass
class Seen:
    """An agent's signs of life."""

    at: float
    connection: int | None = None
    closed_at: float | None = None


@dataclass(frozen=True)
class Joined:
    """An agent as it introduced itself."""

    name: str
    facts: HostFacts
    address: str
    port: int

    @classmethod
    def parse(cls, name: str, body: bytes) -> "Joined":
        """ValueError for anything else."""
        try:
            document = json.loads(body)
            facts = parse_facts(document["facts"])
            return cls(name, facts, str(document["address"]), int(document["port"]))
        except (KeyError, TypeError) as error:
            raise ValueError(str(error)) from None


class AgentServer(ArtifactServer):
    """An artifact server that hands out ranks and runs."""

    def __init__(self, host: str, runs: int) -> None:
        super().__init__(host)
        self._entry = Path(__file__).with_name("entry.py").read_bytes() + b"\nserve_driver()\n"
        self._runs, self._state = runs, threading.Lock()
        self._joined: dict[str, Joined] = {}
        self._members: dict[str, bytes] = {}
        self._order: bytes | None = None
        self._number = 0
        self._ended: dict[int, Ending] = {}
        self._seen: dict[int, Seen] = {}
        self._left: set[int] = set()
        self._is_over = False

    @property
    def joined(self) -> list[Joined]:
        """By name of the host: ranks follow their order."""
        with self._state:
            agents = list(self._joined.values())
        return sorted(agents, key=lambda agent: (agent.facts["host"], agent.name))

    def assign(self, agents: list[Joined]) -> None:
        """Ranks for all; the first is the rendezvous."""
        now = time.monotonic()
        with self._state:
            for rank, agent in enumerate(agents):
                member = Membership(rank, self._runs, agents[0].address, agents[0].port)
                self._members[agent.name] = json.dumps(asdict(member)).encode()
                self._seen[rank] = Seen(now)

    def begin(self, run: RunFolder, data: Path) -> None:
        """Hand out a run."""
        self.deliveries.begin(run)
        with self._state:
            self.data, self._ended = data, {}
            self._number += 1
            self._order = run.spec.read_bytes()

    def end(self) -> None:
        """No more runs."""
        with self._state:
            self._is_over = True

    @property
    def ended(self) -> dict[int, Ending]:
        """Ranks that have ended their part of the run."""
        with self._state:
            return dict(self._ended)

    @property
    def has_ended(self) -> bool:
        """Whether all agents with a rank have left or are lost."""
        with self._state:
            ranks, left = set(self._seen), set(self._left)
        return bool(ranks) and ranks <= left | self.lost.keys()

    @property
    def lost(self) -> dict[int, str]:
        """Ranks whose hosts are gone, and how that shows."""
        now, found = time.monotonic(), {}
        with self._state:
            for rank, seen in self._seen.items():
                if rank in self._left:
                    continue
                if seen.closed_at is not None and now - seen.closed_at >= CLOSED_S:
                    found[rank] = "its connection was closed: the host or its processes ended"
                elif now - seen.at >= SILENT_S:
                    found[rank] = f"nothing was heard of it for {SILENT_S:g} s"
        return found

    def get(self, path: str) -> bytes | Path | Answer | None:
        kind, _, name = path.partition("/")
        if kind == "entry":
            return self._entry
        if kind in ("member", "order"):
            with self._state:
                if self._is_over:
                    return OVER
                if kind == "member":
                    return self._members.get(name, WAIT)
                is_new = name.isdecimal() and int(name) < self._number
                return self._order if is_new and self._order is not None else WAIT
        return super().get(path)

    def admits(self, path: str, length: int) -> int:
        kind, _, name = path.partition("/")
        if kind in ("join", "ended", "leave", "heartbeat"):
            is_known = kind == "join" or (name.isdecimal() and int(name) in self._seen)
            return 404 if not is_known else 200 if length <= FACTS_BYTES else 413
        return super().admits(path, length)

    def put(self, path: str, body: bytes) -> Answer:
        kind, _, name = path.partition("/")
        if kind == "join":
            try:
                agent = Joined.parse(name, body)
            except ValueError:
                return 400, b""
            with self._state:
                self._joined[name] = agent
            return 200, b""
        if kind == "ended":
            try:
                ending = Ending(**json.loads(body))
            except (TypeError, ValueError):
                return 400, b""
            if int(name) == 0 and ending == Ending(0):
                self.deliveries.finish_model()
            with self._state:
                self._ended[int(name)] = ending
            return 200, b""
        if kind == "leave":
            with self._state:
                self._left.add(int(name))
            return 200, b""
        if kind == "heartbeat" and (self._is_over or not body):
            return OVER if self._is_over else (200, b"")  # without a body between two runs
        return super().put(path, body)

    def connected(self, path: str, connection: int) -> None:
        kind, _, name = path.partition("/")
        if kind == "heartbeat":
            with self._state:
                self._seen[int(name)] = Seen(time.monotonic(), connection)

    def closed(self, connection: int) -> None:
        with self._state:
            for seen in self._seen.values():
                if seen.connection == connection:
                    seen.closed_at = time.monotonic()
