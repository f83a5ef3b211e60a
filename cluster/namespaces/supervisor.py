"""Inside the namespaces: build the network, fork a process per node, report the nodes that end.

Started by cluster/namespaces/cluster.py as the first process of its own process namespace; when it
ends, the kernel ends all nodes. It speaks the protocol of cluster/namespaces/protocol.py.

One process imports the worker's module (and with it torch) once; every node is a fork of it, so
128 nodes start in seconds and share its memory. Another fork builds the network meanwhile.
"""

import contextlib
import importlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cluster.host.process_state import how_ended, how_stopped
from cluster.links import setup
from cluster.links.tc import tcp_settings
from cluster.namespaces import isolation, links, network, paths
from cluster.namespaces.background import Senders
from cluster.namespaces.disturb import disturb
from cluster.namespaces.protocol import (
    REFERENCE,
    SUPERVISOR,
    Command,
    Kind,
    Message,
    SupervisorPlan,
    describe,
)
from cluster.spec.documents.heartbeat import exit_code
from cluster.spec.documents.links import LinkStatistics, MeasuredLink
from cluster.spec.documents.node_files import NODE_FOLDER
from cluster.spec.documents.run_folder import node_name
from cluster.spec.links import parse_link

Send = Callable[[Message], None]
Worker = Callable[[], int]


def main(document: str) -> int:
    network.name_process(SUPERVISOR)
    plan = SupervisorPlan.from_json(document)
    network.write_hosts_file(plan.nodes)
    namespaces = network.create_namespaces(plan.nodes + bool(plan.between))
    if plan.delay_line:
        try:
            paths.start_delay_line(paths.Routed.of(plan, namespaces))
        except OSError as error:
            print(error, file=sys.stderr)
            return 1
    builder = os.fork()
    if builder == 0:
        os._exit(build(plan, namespaces))
    os.environ.update(plan.environment)
    entry = importlib.import_module(plan.entry)
    for module in plan.imports:
        importlib.import_module(module)
    if reason := await_builder(builder):
        print(reason, file=sys.stderr)
        return 1
    senders = Senders.start(plan, namespaces)
    view = isolation.View.of(plan.session, plan.data_folder, *plan.user_folders)
    nodes = {
        fork_node(rank, namespaces, plan, view, entry.main): rank for rank in range(plan.nodes)
    }
    send(Message(Kind.READY))
    watch(nodes, LinkControl(plan, namespaces, senders), send)
    return 0


def await_builder(builder: int) -> str | None:
    """Wait for the process that builds the network and is the links' reference; why it failed."""
    _, status = os.waitpid(builder, 0)
    if os.WIFSIGNALED(status):
        return f"{describe(REFERENCE)} {how_ended(exit_code(status))} before training"
    return None if status == 0 else "the network could not be built"


def build(plan: SupervisorPlan, namespaces: list[int]) -> int:
    """Build the network, shape and verify its links; the exit code of the process that does so."""
    network.name_process(REFERENCE)
    try:
        shaped = [*map(parse_link, plan.links.values())]
        shaped += paths.Routed.of(plan, namespaces).paths.values() if plan.between else []
        network.build_network(plan.nodes, namespaces[: plan.nodes], tcp_settings(shaped))
        if plan.links or plan.between:
            measured, complaint = shape(plan, namespaces)
            send(Message(Kind.LINKS, tuple(measured), complaint))
            return 0 if complaint is None else 1
    except (OSError, subprocess.CalledProcessError) as error:
        print(getattr(error, "stderr", None) or error, file=sys.stderr, flush=True)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def shape(plan: SupervisorPlan, namespaces: list[int]) -> tuple[list[MeasuredLink], str | None]:
    """Paths, then links: a path is measured between nodes without a limit of their own."""
    measured, complaint = list[MeasuredLink](), None
    if plan.between:
        routed = paths.Routed.of(plan, namespaces)
        paths.build(routed)
        measured, complaint = paths.verify(routed)
    if plan.links and complaint is None:
        of_nodes, complaint = links.set_up_links(plan.links, namespaces, plan.dilation)
        measured = [*of_nodes, *measured]
    return measured, complaint


def fork_node(
    rank: int, namespaces: list[int], plan: SupervisorPlan, view: isolation.View, work: Worker
) -> int:
    """Fork a confined process in the node's namespaces that runs the worker; its number.

    It is the first process of its process namespace: what it starts ends with it.
    """
    with own_processes():
        child = os.fork()
        if child != 0:
            return child
        code = 1
        try:
            become_node(rank, namespaces, plan, view)
            code = work()
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError):
                sys.stderr.flush()
            os._exit(code)


@contextlib.contextmanager
def own_processes() -> Iterator[None]:
    """Children that are forked in a `with` statement get a process namespace of their own."""
    home = os.open("/proc/self/ns/pid", os.O_RDONLY)
    network.check(network.libc.unshare(network.CLONE_NEWPID), "unshare")
    try:
        yield
    finally:
        network.check(network.libc.setns(home, network.CLONE_NEWPID), "setns")
        os.close(home)


def become_node(
    rank: int, namespaces: list[int], plan: SupervisorPlan, view: isolation.View
) -> None:
    """Enter the node's namespaces and control groups, and give up all that it does not need."""
    log = os.open(plan.logs[rank], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open("/dev/null", os.O_RDONLY)
    for target, source in ((0, nothing), (1, log), (2, log)):
        os.dup2(source, target)
    network.enter(namespaces[rank])
    own = network.CLONE_NEWUTS | network.CLONE_NEWIPC | network.CLONE_NEWNS
    network.check(network.libc.unshare(own), "unshare")
    socket.sethostname(node_name(rank))
    network.name_process(node_name(rank))
    for processes in plan.cgroups.get(rank, ()):
        Path(processes).write_text("0")
    for descriptor in (log, nothing, *namespaces):
        os.close(descriptor)
    isolation.make_read_only()
    isolation.confine(view, plan.folders[rank])
    isolation.limit(plan.nodes, plan.processes, plan.first_user is not None)
    isolation.drop_privileges(None if plan.first_user is None else plan.first_user + rank)
    isolation.settle(node_name(rank))
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(plan.nodes),
        NODE_FOLDER: plan.folders[rank],
    }


@dataclass(frozen=True)
class LinkControl:
    """The shaped links of running nodes, and background traffic on them."""

    plan: SupervisorPlan
    namespaces: list[int]
    senders: Senders = field(default_factory=Senders)

    def statistics(self) -> list[LinkStatistics]:
        found = links.read_statistics(list(self.plan.links), self.namespaces)
        return found + (paths.read_statistics(self._routed) if self.plan.between else [])

    def change(self, place: str, link: str) -> str | None:
        """What went wrong. The place is a node's rank, or a path such as a-b."""
        first, dash, second = place.partition("-")
        try:
            if dash:
                paths.change(self._routed, (first, second), parse_link(link))
            else:
                links.change(int(place), link, self.namespaces, self.plan.dilation)
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", None) or str(error)
            what = setup.describe(place if dash else node_name(int(place)))
            return f"{what} could not be changed: {' '.join(said.split())}"
        return None

    @property
    def _routed(self) -> paths.Routed:
        return paths.Routed.of(self.plan, self.namespaces)


def watch(nodes: dict[int, int], shaped: LinkControl, send: Send) -> None:
    """Report nodes (process -> rank) that end and answer commands, until standard input closes."""
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    unread = b""
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(awake, selectors.EVENT_READ)
        while True:
            reap(nodes, send)
            ready = {key.fd for key, _ in selector.select(timeout=1)}
            if awake in ready:
                os.read(awake, 4096)
            if 0 in ready:
                received = os.read(0, 4096)
                if not received:
                    return
                *lines, unread = (unread + received).split(b"\n")
                for line in lines:
                    send(answer(line.decode(errors="replace"), nodes, shaped))


def answer(line: str, nodes: dict[int, int], shaped: LinkControl) -> Message:
    command, *words = line.split(" ")
    if command == Command.BACKGROUND and len(words) == 1:
        return Message(Kind.BACKGROUND, complaint=shaped.senders.turn(words[0] == "on"))
    if command == Command.CHANGE and len(words) == 2:
        return Message(Kind.CHANGED, complaint=shaped.change(*words))
    if command == Command.DISTURB and len(words) == 2:
        process = next(found for found, rank in nodes.items() if rank == int(words[1]))
        return Message(Kind.DISTURBED, complaint=disturb(words[0], int(words[1]), process))
    if line == Command.STATISTICS:
        return Message(Kind.STATISTICS, statistics=tuple(shaped.statistics()))
    if line == Command.STOPPED:
        found = {rank: how_stopped(process) for process, rank in nodes.items()}
        return Message(Kind.STOPPED, stopped={rank: how for rank, how in found.items() if how})
    return Message(Kind.REFUSED, complaint=line)


def reap(nodes: dict[int, int], send: Send) -> None:
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if child == 0:
            return
        if child in nodes:
            send(Message(Kind.EXIT, rank=nodes[child], code=exit_code(status)))


def send(message: Message) -> None:
    sys.stdout.write(message.line())
    sys.stdout.flush()


if __name__ == "__main__":
    os._exit(main(sys.argv[1]))  # tearing down torch takes 0.4 s of CPU time
