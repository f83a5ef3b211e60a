"""The network of namespace nodes: a bridge, and for every node a network namespace with an eth0.

The supervisor calls this in fresh network and mount namespaces of its own.
"""

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from cluster.links.tc import CONGESTION_CONTROL
from cluster.spec.documents.run_folder import node_name

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
PR_SET_NAME = 15

libc = ctypes.CDLL(None, use_errno=True)


def name_process(name: str) -> None:
    """For ps, top, and the host, which names processes that were stopped."""
    libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def write_hosts_file(nodes: int) -> None:
    """Mount an /etc/hosts with the names of all nodes (the mount namespace is private)."""
    lines = ["127.0.0.1 localhost"]
    for rank in range(nodes):
        # With the IPv4-mapped IPv6 address too: torch looks up the names of clients of its
        # dual-stack server, and a query to a name server would have to time out.
        lines += [f"{prefix}{address(rank)} {node_name(rank)}" for prefix in ("", "::ffff:")]
    # In a file system of its own, so that nothing of it is left on the host's.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", "/tmp"], check=True)
    file = Path("/tmp/hosts")
    file.write_text("\n".join(lines) + "\n")
    file.chmod(0o644)
    subprocess.run(["mount", "--bind", str(file), "/etc/hosts"], check=True)
    subprocess.run(["umount", "--lazy", "/tmp"], check=True)


def create_namespaces(nodes: int) -> list[int]:
    """One network namespace per node, as open file descriptors; the caller's own is unchanged."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    descriptors = []
    for _ in range(nodes):
        check(libc.unshare(CLONE_NEWNET), "unshare")
        descriptors.append(os.open("/proc/self/ns/net", os.O_RDONLY))
    enter(home)
    os.close(home)
    return descriptors


def build_network(
    nodes: int, namespaces: list[int], tcp: Mapping[str, str] = MappingProxyType(CONGESTION_CONTROL)
) -> None:
    """Create a bridge, and for every node a veth pair from its port (`node3`) to its eth0.

    IP and MAC addresses are fixed and neighbour entries permanent: the kernel's neighbour table
    holds 1,024 entries for all namespaces together, and 33 nodes with ARP overflow it.
    """
    disable_ipv6()
    ip_batch(
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
    _steer_packets(nodes)
    for rank, namespace in enumerate(namespaces):
        with inside(namespace):
            disable_ipv6()
            for name, value in tcp.items():
                Path("/proc/sys", *name.split(".")).write_text(value)
            ip_batch(
                "link set lo up",
                f"addr add {address(rank)}/16 dev eth0",
                "link set eth0 up",
                *(
                    f"neigh add {address(other)} lladdr {mac(other)} dev eth0 nud permanent"
                    for other in range(nodes)
                    if other != rank
                ),
            )


def enter(namespace: int) -> None:
    """Move the calling thread into a network namespace."""
    check(libc.setns(namespace, CLONE_NEWNET), "setns")


@contextlib.contextmanager
def inside(namespace: int) -> Iterator[None]:
    """Run the body of a `with` statement in a network namespace."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    enter(namespace)
    try:
        yield
    finally:
        enter(home)
        os.close(home)


def _steer_packets(nodes: int) -> None:
    """Enable receive packet steering: one core forwards all packets of a connection, in order.

    Without it, packets of a worker that the scheduler moves to another core overtake earlier ones;
    TCP takes that for loss and retransmits up to 2 % of the bytes of a short run.
    """
    all_cores = f"{(1 << (os.cpu_count() or 1)) - 1:x}"
    mount = ["mount", "-t", "sysfs", "none", "/sys"]  # until now it lists the host's devices
    if subprocess.run(mount, capture_output=True).returncode != 0:
        return  # not permitted on every machine
    with contextlib.suppress(OSError):  # not permitted on every machine either
        for rank in range(nodes):
            queue = Path("/sys/class/net", node_name(rank), "queues/rx-0/rps_cpus")
            queue.write_text(all_cores)
    # A library that is being imported may have a file of it open: then it goes with that file.
    subprocess.run(["umount", "--lazy", "/sys"], check=True)


def address(rank: int) -> str:
    return f"10.77.{(rank + 1) // 256}.{(rank + 1) % 256}"


def mac(rank: int) -> str:
    return f"02:67:77:00:{(rank + 1) // 256:02x}:{(rank + 1) % 256:02x}"


def ip_batch(*commands: str) -> None:
    """Run `ip` commands in one process: starting `ip` costs more than a command."""
    _batch("ip", commands)


def tc_batch(*commands: str) -> None:
    _batch("tc", commands)


def _batch(program: str, commands: Sequence[str]) -> None:
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    subprocess.run(
        [program, "-batch", "-"],
        input="\n".join(commands) + "\n",
        text=True,
        check=True,
        capture_output=True,
        env={**os.environ, "PATH": path},
    )


def disable_ipv6() -> None:
    """Switch IPv6 off: its router and neighbour discovery would be counted as traffic."""
    for scope in ("all", "default"):
        with contextlib.suppress(OSError):
            Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6").write_text("1")


def check(result: int, call: str) -> None:
    """Raise OSError where a libc call failed."""
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{call}: {os.strerror(code)}")
