"""Inside the namespaces: build the switch, fork a node per worker, report their ends.

Started by cluster/namespaces/engine.py as the first process of a process namespace of its own. Says what
happens on standard output, a JSON object a line, and ends when standard input closes.

One fresh process imports the worker's module (and with it torch) once; every node is a fork of it, so
128 nodes start in seconds and share its memory. The network is built meanwhile by another fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cluster.links import tc as shaping
from cluster.namespaces import links as netns_links
from cluster.spec.run_folder import node_name

CLONE_NEWUTS = 0x04000000
CLONE_NEWNET = 0x40000000
PR_SET_NAME = 15
PR_SET_NO_NEW_PRIVS = 38
CAPABILITY_VERSION_3 = 0x20080522

libc = ctypes.CDLL(None, use_errno=True)


def main(document: str) -> int:
    plan = json.loads(document)
    nodes: int = plan["nodes"]
    name_nodes(nodes)
    namespaces = create_namespaces(nodes)
    builder = os.fork()
    if builder == 0:
        status = 1
        try:
            build_network(nodes, namespaces)
            status = 0 if links_are_true(plan, namespaces) else 1
        except (OSError, subprocess.CalledProcessError) as error:
            print(getattr(error, "stderr", None) or error, file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    os.environ.update(plan["environment"])
    entry = importlib.import_module(plan["entry"])
    for module in plan["imports"]:
        importlib.import_module(module)
    _, status = os.waitpid(builder, 0)
    if status != 0:
        print("the network could not be built", file=sys.stderr)
        return 1
    processes = {fork_node(rank, namespaces[rank], plan, entry.main): rank for rank in range(nodes)}
    say({"ready": True})
    watch(processes, lambda: read_statistics(plan, namespaces))
    return 0


def name_nodes(nodes: int) -> None:
    """Give all nodes an /etc/hosts of their own (this mount namespace is private)."""
    lines = ["127.0.0.1 localhost"]
    for rank in range(nodes):
        # Also as the mapped IPv6 address under which a dual-stack server sees its clients: torch asks
        # for the name, and a question that goes out to a name server would have to time out.
        lines += [f"{prefix}{address(rank)} {node_name(rank)}" for prefix in ("", "::ffff:")]
    with tempfile.NamedTemporaryFile("w", prefix="gradwire-hosts-") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        os.chmod(file.name, 0o644)
        subprocess.run(["mount", "--bind", file.name, "/etc/hosts"], check=True)


def create_namespaces(nodes: int) -> list[int]:
    """One network namespace per node, as open file descriptors; we end where we began."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    descriptors = []
    for _ in range(nodes):
        check(libc.unshare(CLONE_NEWNET), "unshare")
        descriptors.append(os.open("/proc/self/ns/net", os.O_RDONLY))
    enter(home)
    os.close(home)
    return descriptors


def build_network(nodes: int, namespaces: list[int]) -> None:
    """A bridge here, and for every node a cable from its port (named like it) to its eth0.

    Addresses of all kinds are fixed and neighbours are permanent: the kernel's neighbour table holds
    1,024 entries for all namespaces together, and 33 nodes that ask for each other overflow it.
    """
    no_ipv6()
    ip(
        "link set lo up",
        "link add switch type bridge mcast_snooping 0",
        "link set switch up",
        *(
            f"link add {node_name(rank)} type veth peer name eth0 address {mac(rank)}"
            f" netns /proc/{os.getpid()}/fd/{namespaces[rank]}"
            for rank in range(nodes)
        ),
        *(f"link set {node_name(rank)} master switch up" for rank in range(nodes)),
    )
    keep_order(nodes)
    for rank, namespace in enumerate(namespaces):
        with inside(namespace):
            no_ipv6()
            name, value = shaping.CONGESTION_CONTROL
            Path("/proc/sys", *name.split(".")).write_text(value)
            ip(
                "link set lo up",
                f"addr add {address(rank)}/16 dev eth0",
                "link set eth0 up",
                *(
                    f"neigh add {address(other)} lladdr {mac(other)} dev eth0 nud permanent"
                    for other in range(nodes)
                    if other != rank
                ),
            )


def links_are_true(plan: dict[str, Any], namespaces: list[int]) -> bool:
    """Shape and verify the links that were asked for, and say what was found."""
    links = {int(rank): text for rank, text in plan["links"].items()}
    if not links:
        return True
    # The switch has an address while this lasts, and permanent neighbours like all others.
    switch, switch_mac = netns_links.SWITCH_ADDRESS, mac(0xFFFD)
    neighbours = [f"{address(rank)} lladdr {mac(rank)} dev switch" for rank in links]
    for rank in links:
        with inside(namespaces[rank]):
            ip(f"neigh add {switch} lladdr {switch_mac} dev eth0 nud permanent")
    ip(
        f"link set switch address {switch_mac}",
        f"addr add {switch}/16 dev switch",
        *(f"neigh add {neighbour} nud permanent" for neighbour in neighbours),
    )
    findings, complaint = netns_links.set_up_links(links, namespaces, enter)
    ip(*(f"neigh del {one}" for one in neighbours), f"addr del {switch}/16 dev switch")
    for rank in links:
        with inside(namespaces[rank]):
            ip(f"neigh del {switch} dev eth0")
    say({"links": findings, "complaint": complaint})
    return complaint is None


def read_statistics(plan: dict[str, Any], namespaces: list[int]) -> list[dict[str, Any]]:
    return netns_links.read_statistics([int(rank) for rank in plan["links"]], namespaces, enter)


def enter(namespace: int) -> None:
    check(libc.setns(namespace, CLONE_NEWNET), "setns")


@contextlib.contextmanager
def inside(namespace: int) -> Iterator[None]:
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    enter(namespace)
    try:
        yield
    finally:
        enter(home)
        os.close(home)


def keep_order(nodes: int) -> None:
    """Let each connection be forwarded by one processor, as a real cable would keep its order.

    A worker that moves from one processor to another overtakes its own packets in the first one's queue;
    TCP takes that for loss and sends again what was never lost, up to 2 % of the bytes of a short run.
    """
    every_processor = f"{(1 << (os.cpu_count() or 1)) - 1:x}"
    with tempfile.TemporaryDirectory(prefix="gradwire-sys-") as own_sys:
        mount = ["mount", "-t", "sysfs", "none", own_sys]  # the host's shows the host's devices
        if subprocess.run(mount, capture_output=True).returncode != 0:
            return  # not everywhere allowed
        with contextlib.suppress(OSError):  # nor this
            for rank in range(nodes):
                queue = Path(own_sys, "class/net", node_name(rank), "queues/rx-0/rps_cpus")
                queue.write_text(every_processor)
        subprocess.run(["umount", own_sys], check=True)


def fork_node(rank: int, namespace: int, plan: dict[str, Any], entry: Any) -> int:
    """A process in the node's namespace, without privileges, that runs the worker."""
    child = os.fork()
    if child != 0:
        return child
    code = 1
    try:
        log = os.open(plan["logs"][rank], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        nothing = os.open("/dev/null", os.O_RDONLY)
        for target, source in ((0, nothing), (1, log), (2, log)):
            os.dup2(source, target)
        enter(namespace)
        check(libc.unshare(CLONE_NEWUTS), "unshare")
        socket.sethostname(node_name(rank))
        libc.prctl(PR_SET_NAME, node_name(rank).encode(), 0, 0, 0)  # what ps and top show
        for join in plan["cgroups"].get(str(rank), ()):
            Path(join).write_text("0")
        drop_privileges()
        os.environ["RANK"] = str(rank)
        os.environ["WORLD_SIZE"] = str(plan["nodes"])
        code = entry()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(code)


def watch(nodes: dict[int, int], statistics: Callable[[], list[dict[str, Any]]]) -> None:
    """Report nodes that end, until the host closes our input; then take the rest along.

    A line of input asks for the statistics of the links.
    """
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(awake, selectors.EVENT_READ)
        while True:
            reap(nodes)
            ready = {key.fd for key, _ in selector.select(timeout=1)}
            if awake in ready:
                os.read(awake, 4096)
            if 0 in ready:
                if not os.read(0, 4096):
                    return  # the first process of a process namespace: the kernel ends the rest
                say({"statistics": statistics()})


def reap(nodes: dict[int, int]) -> None:
    while True:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if child == 0:
            return
        if child in nodes:
            code = os.waitstatus_to_exitcode(status)
            say({"rank": nodes[child], "code": code if code >= 0 else 128 - code})


def drop_privileges() -> None:
    """No capability is left and none can come back, also where the host runs as root."""
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    check(libc.capset(header, nothing), "capset")


def address(rank: int) -> str:
    return f"10.77.{(rank + 1) // 256}.{(rank + 1) % 256}"


def mac(rank: int) -> str:
    return f"02:67:77:00:{(rank + 1) // 256:02x}:{(rank + 1) % 256:02x}"


def ip(*commands: str) -> None:
    """All commands in one go: starting `ip` costs more than what it does."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    subprocess.run(
        ["ip", "-batch", "-"],
        input="\n".join(commands) + "\n",
        text=True,
        check=True,
        capture_output=True,
        env={**os.environ, "PATH": path},
    )


def no_ipv6() -> None:
    """Its router and neighbour discovery would be counted as traffic."""
    for scope in ("all", "default"):
        with contextlib.suppress(OSError):
            Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6").write_text("1")


def check(result: int, call: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{call}: {os.strerror(code)}")


def say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
