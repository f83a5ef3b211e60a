"""A running cluster of namespace nodes, as the host sees it: one supervisor process.

The supervisor ends when its standard input closes, and the kernel ends it with the host: all nodes
are gone at once when the host is killed, also while torch is imported or links are verified.
"""

import math
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Collection
from pathlib import Path
from typing import Self

from cluster import PROJECT
from cluster.engine import Cluster, ClusterPlan, CounterSource, EngineError, LinksOffTarget
from cluster.host import cgroups, interruption
from cluster.host.ownership import tied
from cluster.host.packages import VARIABLE
from cluster.host.process_state import LOOK_S, StartWatch, stopped_below
from cluster.namespaces.protocol import (
    SUPERVISOR,
    Command,
    Kind,
    Message,
    SupervisorPlan,
    describe,
)
from cluster.spec import clock
from cluster.spec.documents.links import LinkStatistics, MeasuredLink
from cluster.spec.documents.records import Counters, parse_net_dev
from cluster.spec.documents.run_folder import node_name
from cluster.spec.links import Link
from cluster.spec.sites import Pair, path_name, write_between

ENTRY = "workloads.worker"
ANSWERS = (Kind.STATISTICS, Kind.STOPPED, Kind.CHANGED, Kind.BACKGROUND, Kind.DISTURBED)
START_TIMEOUT_S = 120
STATISTICS_TIMEOUT_S = 20
STOPPED_TIMEOUT_S = 2
CHANGE_TIMEOUT_S = 10
STOP_TIMEOUT_S = 5
CAP_SYS_ADMIN = 21
KILLED = "unshare: sigprocmask"
"""How util-linux 2.38 complains when a signal ended what `unshare` had started."""
FIRST_USER = 1_900_000_000
"""In a range that neither people, services nor containers have (systemd's UIDS-GIDS.md)."""
MOST_NODES = 4096
PASSED_ON = (
    *("PATH", "HOME", "LANG", "LC_", "TZ", "LD_", "PYTHON", "MALLOC_", "OMP_", "MKL_", "KMP_"),
    *("TORCH", "GLOO_", "NCCL_", "HOROVOD_", "GRADWIRE_"),
)
"""Beginnings of environment variables that nodes get: others may hold the user's secrets."""


class NetnsCluster(Cluster):
    """See cluster.engine.Cluster."""

    def __init__(
        self, plan: ClusterPlan, packages: Path | None = None, delay_line: bool = False
    ) -> None:
        """`packages` has those that nodes need beside torch. With a `delay_line` paths between
        sites are delayed in user space."""
        self.plan, self._packages, self._delay_line = plan, packages, delay_line
        self.process: subprocess.Popen[str] | None = None
        self.links: list[MeasuredLink] = []
        self._groups: cgroups.Groups | None = None
        self._complaint: str | None = None
        self._answers: queue.Queue[Message] = queue.Queue()
        self._asking = threading.Lock()
        self._exits: dict[int, int] = {}
        self._started = threading.Event()
        self._is_ready = False
        self._reader: threading.Thread | None = None

    @property
    def sources(self) -> tuple[CounterSource, ...]:
        return (CounterSource("kernel", 10, self.read_switch),)

    def __enter__(self) -> Self:
        try:
            command = [sys.executable, "-m", "cluster.namespaces.supervisor"]
            plan = supervisor_plan(
                self.plan, self._create_groups(), self._packages, self._delay_line
            )
            with interruption.held_back():
                self.process = subprocess.Popen(
                    [*unshare_command(), *command, plan.to_json()],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    cwd=PROJECT,
                    env={k: v for k, v in os.environ.items() if k.startswith(PASSED_ON)},
                    start_new_session=True,  # Ctrl-C reaches the host, which then stops the nodes
                )
            self._reader = threading.Thread(target=self._listen, args=(self.process,), daemon=True)
            self._reader.start()
            self._await_ready(self.process)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _create_groups(self) -> dict[int, list[str]]:
        """Control groups for the limited nodes: by rank, the files with which a node joins them."""
        plan = self.plan
        if not plan.cpus and plan.memory_bytes is None:
            return {}
        limited = range(plan.nodes) if plan.memory_bytes is not None else ()
        memory = dict.fromkeys(limited, plan.memory_bytes or 0)
        self._groups = cgroups.create(plan.name, plan.cpus, memory)
        return self._groups.joins

    def _await_ready(self, process: subprocess.Popen[str]) -> None:
        self._await_start(process)
        if self._is_ready:
            return
        if self._complaint is not None:
            raise LinksOffTarget(self._complaint, self.links)
        process.wait()  # its output has ended, so it is about to
        assert process.stderr is not None
        said = process.stderr.read().strip()
        if not said or said.startswith(KILLED):
            said = f"{describe(SUPERVISOR)} was ended by a signal"
        raise EngineError(f"the nodes did not start: {said}")

    def _await_start(self, process: subprocess.Popen[str]) -> None:
        """Until nodes are forked, or cannot be; EngineError where a process does not go on."""
        watch = StartWatch()
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._started.wait(LOOK_S):
            stopped = stopped_below(process.pid)
            if frozen := watch.note({describe(name): how for name, how in stopped.items()}):
                raise EngineError(frozen)
            if time.monotonic() > deadline:
                raise EngineError(f"the nodes did not start within {START_TIMEOUT_S} s")

    def __exit__(self, *exc: object) -> None:
        if self.process is not None:
            self._end(self.process)
            self.process = None
        if self._groups is not None:
            self._groups.remove()

    def _end(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(STOP_TIMEOUT_S if self._is_ready else 0)
        except subprocess.TimeoutExpired:
            process.kill()  # `unshare --kill-child` ends all nodes with it
            process.wait()
        if self._reader is not None and self._reader.ident is not None:  # it was started
            self._reader.join()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        """Take in the supervisor's messages until its output ends."""
        assert process.stdout is not None
        for line in process.stdout:
            message = Message.parse(line)
            if message.kind == Kind.READY:
                self._is_ready = True
                self._started.set()
            elif message.kind == Kind.LINKS:
                self.links, self._complaint = list(message.links), message.complaint
                if message.complaint is not None:
                    self._started.set()
            elif message.kind in ANSWERS:
                self._answers.put(message)
            elif message.kind == Kind.EXIT:
                self._exits[message.rank] = message.code
        self._started.set()  # no more messages: the process has ended

    def exited(self) -> dict[int, int]:
        if self.process is not None and self.process.poll() is not None:
            raise EngineError(
                f"the supervisor of all nodes ended with code {self.process.returncode}"
            )
        return dict(self._exits)

    def link_statistics(self) -> list[LinkStatistics]:
        if not self.plan.links and not self.plan.paths:
            return []
        answer = self._ask(Command.STATISTICS, Kind.STATISTICS, STATISTICS_TIMEOUT_S)
        return list(answer.statistics) if answer else []

    def change_link(self, place: int | Pair, link: Link) -> None:
        name = place if isinstance(place, int) else path_name(place)
        self._command(f"{Command.CHANGE} {name} {link}", Kind.CHANGED)

    def send_background(self, is_on: bool) -> None:
        self._command(f"{Command.BACKGROUND} {'on' if is_on else 'off'}", Kind.BACKGROUND)

    def disturb(self, kind: str, rank: int) -> None:
        self._command(f"{Command.DISTURB} {kind} {rank}", Kind.DISTURBED)

    def _command(self, line: str, kind: Kind) -> None:
        """EngineError with the supervisor's complaint."""
        answer = self._ask(line, kind, CHANGE_TIMEOUT_S)
        if answer is None or answer.complaint:
            why = answer.complaint if answer else "the supervisor does not answer"
            raise EngineError(why or "")

    def limit_cores(self, rank: int, cores: float | None) -> None:
        if self._groups is None:
            raise EngineError(f"{node_name(rank)} has no control group")
        self._groups.limit_cores(rank, math.inf if cores is None else cores)

    def stopped(self, silent: Collection[int]) -> dict[int, str]:
        answer = self._ask(Command.STOPPED, Kind.STOPPED, STOPPED_TIMEOUT_S) if silent else None
        return answer.stopped if answer else {}

    def _ask(self, command: str, kind: Kind, timeout_s: float) -> Message | None:
        """The supervisor's answer; None where none comes in time. Threads wait for each other."""
        if self.process is None or self.process.poll() is not None:
            return None
        assert self.process.stdin is not None
        try:
            with self._asking:
                self.process.stdin.write(f"{command}\n")
                self.process.stdin.flush()
                while (answer := self._answers.get(timeout=timeout_s)).kind != kind:
                    pass  # an earlier question's, answered too late
        except (OSError, ValueError, queue.Empty):  # ValueError: it is being closed
            return None
        return answer

    def out_of_memory(self) -> set[int]:
        return self._groups.out_of_memory() if self._groups is not None else set()

    def read_switch(self) -> dict[int, Counters]:
        """Nodes' counters, read at the switch's ports: a port receives what its node sends."""
        if self.process is None:
            return {}
        try:
            with open(f"/proc/{self.process.pid}/net/dev", encoding="ascii") as file:
                ports = parse_net_dev(file.read())
        except OSError:
            return {}
        names = {rank: node_name(rank) for rank in range(self.plan.nodes)}
        return {rank: ports[name].swapped() for rank, name in names.items() if name in ports}


def supervisor_plan(
    plan: ClusterPlan,
    cgroups: dict[int, list[str]],
    packages: Path | None = None,
    delay_line: bool = False,
) -> SupervisorPlan:
    return SupervisorPlan(
        nodes=plan.nodes,
        entry=ENTRY,
        imports=plan.imports,
        logs=tuple(str(plan.runs[0].log(rank)) for rank in range(plan.nodes)),
        folders=tuple(str(plan.node_folders / node_name(rank)) for rank in range(plan.nodes)),
        session=str(plan.runs[0].path.parent),
        data_folder=str(plan.data_folder.resolve()),
        user_folders=(*plan.user_folders, *([str(packages)] if packages else [])),
        first_user=first_user(),
        cgroups=cgroups,
        links={rank: str(link) for rank, link in plan.links.items()},
        processes=plan.processes,
        sites=plan.sites,
        between=write_between(plan.paths),
        delay_line=delay_line,
        background=plan.background or "",
        dilation=plan.dilation,
        environment={
            "MASTER_ADDR": node_name(0),
            "MASTER_PORT": "29500",
            "GRADWIRE_RUNS": "\n".join(str(run.path) for run in plan.runs),
            "GRADWIRE_RECORD": "1",
            "GRADWIRE_DATA": str(plan.data_folder.resolve()),
            "OMP_NUM_THREADS": "1",
            **({VARIABLE: str(packages)} if packages else {}),
            **clock.shared(),
        },
    )


def unshare_command() -> list[str]:
    """The start of a command line that runs what follows it in the namespaces all nodes share."""
    command = [find_tool("unshare") or "unshare", "--net", "--mount"]
    command += ["--pid", "--fork", "--mount-proc"]
    if not has_sys_admin():
        command += ["--user", "--map-root-user"]
    return tied([*command, "--kill-child"])


def has_sys_admin() -> bool:
    """Whether this process has CAP_SYS_ADMIN. Root in a container often lacks it."""
    status = Path("/proc/self/status").read_text()
    capabilities = int(status.partition("CapEff:\t")[2].split()[0], 16)
    return bool(capabilities >> CAP_SYS_ADMIN & 1)


def first_user() -> int | None:
    """The user of rank 0 where nodes get users of their own, which root alone can give them."""
    if os.geteuid() != 0 or not has_sys_admin():
        return None
    users = {find_users(Path(f"/proc/self/{kind}_map").read_text()) for kind in ("uid", "gid")}
    return users.pop() if len(users) == 1 else None


def find_users(id_map: str) -> int | None:
    """The first of MOST_NODES numbers without an account among those that are mapped here."""
    ranges = [tuple(map(int, line.split())) for line in id_map.splitlines()]
    for first, _, count in ranges:
        if first <= FIRST_USER and first + count >= FIRST_USER + MOST_NODES:
            return FIRST_USER
    first, _, count = max(ranges, key=lambda mapped: mapped[2])
    return first + count // 2 if count > 4 * MOST_NODES else None  # root in a container


def find_tool(name: str) -> str | None:
    """Like `which`, and also in the sbin folders that a user's PATH may lack."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin")
