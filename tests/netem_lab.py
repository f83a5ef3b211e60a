"""Delay, loss and limits on the kernel that this runs on, which has netem: as root, in its own
boot.

    python -m tests.netem_lab links MODULES     delay and loss of links and paths, set by our code
    python -m tests.netem_lab held PATH ...     paths between sites without netem, in a namespace
    python -m tests.netem_lab limits            CPU and memory limits of control groups, version 2

Prints JSON. Delays, losses and rates are those of UDP datagrams of our own, by the one clock that
all namespaces have: TCP's own pace through a delay is no matter of the link.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from cluster.host import cgroups
from cluster.links.burst_size import FRAME_BYTES
from cluster.namespaces import links, network, paths
from cluster.spec.links import Link, parse_link

FINIT_MODULE = 313
"""The system call's number on x86-64."""
MODULES = (
    *("bridge", "veth", "ifb", "sch_tbf", "sch_netem", "sch_ingress", "cls_u32", "act_mirred"),
)
EEXIST = 17
FLOOD_S, PIECES = 3, 10
ATTEMPTS, GOOD = 4, 0.02
PAYLOAD = struct.Struct("<d")
DATAGRAMS = 20_000
"""Counted for a loss: of 1 %, the interval of 99.9 % is 0.77 to 1.23 %."""


def load(folder: Path) -> None:
    """Kernel modules, each after those that it needs."""
    libc = ctypes.CDLL(None, use_errno=True)
    (table,) = folder.glob("*/modules.dep")
    needs = {}
    for line in table.read_text().splitlines():
        path, _, others = line.partition(":")
        needs[Path(path).stem] = [path, *others.split()]
    for name in MODULES:
        for path in reversed(needs[name]):
            with (table.parent / path).open("rb") as module:
                failed = libc.syscall(FINIT_MODULE, module.fileno(), b"", 0)
            if failed and ctypes.get_errno() != EEXIST:
                sys.exit(f"{path}: {os.strerror(ctypes.get_errno())}")


def shaped(text: str, both: bool = False) -> dict[str, object]:
    """A node with this link beside one without, or with the same: what was verified, and what
    datagrams see."""
    namespaces = network.create_namespaces(2)
    network.build_network(2, namespaces)
    measured, complaint = links.set_up_links(
        dict.fromkeys((0, 1) if both else (0,), text), namespaces
    )
    return {"complaint": complaint, "verified": measured[0].delay_ms, **seen(text, namespaces)}


def path(text: str, delay_line: bool = False) -> dict[str, object]:
    """Two sites of one node each, with this path."""
    namespaces = network.create_namespaces(3)
    network.build_network(2, namespaces[:2])
    sites, shaped_paths = {"a": (0,), "b": (1,)}, {("a", "b"): parse_link(text)}
    nodes, router = namespaces[:2], namespaces[2]
    routed = paths.Routed(sites, shaped_paths, nodes, router, 1.0, delay_line)
    line = paths.start_delay_line(routed) if delay_line else None
    paths.build(routed)
    measured, complaint = paths.verify(routed)
    found = {"complaint": complaint, "verified": measured[0].delay_ms, **seen(text, namespaces)}
    if line is not None:
        ticks = sum(map(int, Path(f"/proc/{line}/stat").read_text().rsplit(") ")[1].split()[11:13]))
        found["line_cpu_s"] = ticks / os.sysconf("SC_CLK_TCK")
        os.kill(line, signal.SIGKILL)
        os.waitpid(line, 0)
    return found


def seen(text: str, namespaces: list[int]) -> dict[str, object]:
    """Of both directions: median delay and share lost of datagrams, and TCP's rate if lossless."""
    link = parse_link(text)
    ways = {"sent": (0, 1), "received": (1, 0)}
    found: dict[str, object] = {
        way: datagrams(link, namespaces[source], namespaces[destination], destination)
        for way, (source, destination) in ways.items()
    }
    if not link.loss:
        found["rates"] = [
            nearest(partial(flood, namespaces[0], namespaces[1], 1, link.rate_bit), link.rate_bit),
            nearest(partial(flood, namespaces[1], namespaces[0], 0, link.down_bit), link.down_bit),
        ]
    return found


def nearest(measure: Callable[[], float], target: float) -> float:
    """Of up to four: a busy machine stops this kernel as a whole. A wrong link is always wrong."""
    found: list[float] = []
    while len(found) < ATTEMPTS and not any(abs(value / target - 1) <= GOOD for value in found):
        found.append(measure())
    return min(found, key=lambda value: abs(value - target))


def ends(source: int, destination: int, rank: int) -> tuple[socket.socket, socket.socket]:
    """A sender and a receiver of datagrams, in these namespaces; the receiver is of this rank."""
    with network.inside(destination):
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**22)
        receiver.bind((network.address(rank), 0))
    with network.inside(source):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sender.connect(receiver.getsockname())
    return sender, receiver


def datagrams(link: Link, source: int, destination: int, rank: int) -> dict[str, float]:
    """Delay and share lost."""
    if not link.delay_s:
        return crossing(link, source, destination, rank)
    found: list[dict[str, float]] = []

    def delay_ms() -> float:
        found.append(crossing(link, source, destination, rank))
        return found[-1]["delay_ms"]

    closest = nearest(delay_ms, link.delay_s * 1000)
    return next(one for one in found if one["delay_ms"] == closest)


def crossing(link: Link, source: int, destination: int, rank: int) -> dict[str, float]:
    """Of small datagrams, at a tenth of the rate."""
    sender, receiver = ends(source, destination, rank)
    count = DATAGRAMS if link.loss else 200
    pause_s = 50 * 8 / link.slowest_mbit / 1e6 * 10
    if os.fork() == 0:
        for _ in range(count):
            sender.send(PAYLOAD.pack(time.monotonic()))
            time.sleep(pause_s)
        os._exit(0)
    receiver.settimeout(3 + 2 * link.delay_s)
    delays: list[float] = []
    with contextlib.suppress(TimeoutError):
        while len(delays) < count:
            (sent_at,) = PAYLOAD.unpack(receiver.recv(64))
            delays.append(time.monotonic() - sent_at)
    os.wait()
    return {"delay_ms": median(delays) * 1000, "lost": 1 - len(delays) / count}


def flood(source: int, destination: int, rank: int, rate_bit: int) -> float:
    """Bits per second on the wire that pass when half as many again are sent, by their arrivals."""
    sender, receiver = ends(source, destination, rank)
    datagram, wire = bytes(FRAME_BYTES - 42), FRAME_BYTES * 8
    if os.fork() == 0:
        began = time.monotonic()
        sent = 0
        while (now := time.monotonic()) < began + FLOOD_S:
            while sent * wire < (now - began) * rate_bit * 1.5:
                sender.send(datagram)
                sent += 1
            time.sleep(0.001)
        os._exit(0)
    receiver.settimeout(1)
    arrivals: list[float] = []
    with contextlib.suppress(TimeoutError):
        while True:
            receiver.recv(2048)
            arrivals.append(time.monotonic())
    os.wait()
    kept = arrivals[len(arrivals) // 4 : -(len(arrivals) // 10)]  # when the bucket is empty
    pieces = [kept[k * len(kept) // PIECES : (k + 1) * len(kept) // PIECES] for k in range(PIECES)]
    return median((len(piece) - 1) * wire / (piece[-1] - piece[0]) for piece in pieces)


def limits() -> dict[str, float | bool | None]:
    """Of control groups, version 2: what a node gets of half a core, and of 64 MiB."""
    subprocess.run(["mount", "-t", "cgroup2", "none", str(cgroups.ROOT)], check=True)
    (cgroups.ROOT / "cgroup.subtree_control").write_text("+cpu +memory")  # as systemd does
    how = cgroups.check("cpu", "memory")
    groups = cgroups.create("lab", {0: 0.5}, {0: 64 * 2**20})
    used = in_group(groups.joins[0], burn)
    killed = in_group(groups.joins[0], lambda: len(bytearray(128 * 2**20)))
    found = {
        "cores": used,
        "survived": killed is not None,
        "noticed": groups.out_of_memory() == {0},
    }
    groups.remove()
    return {"version_2": how.endswith("version 2"), **found}


def in_group(joins: list[str], work: Callable[[], float]) -> float | None:
    """What `work` returns in a process that has joined; None where it was killed."""
    answer, write = os.pipe()
    if os.fork() == 0:
        for file in joins:
            Path(file).write_text("0")
        os.write(write, str(work()).encode())
        os._exit(0)
    os.close(write)
    os.wait()
    with os.fdopen(answer) as stream:
        text = stream.read()
    return float(text) if text else None


def burn(seconds: float = 4) -> float:
    """CPU seconds per second of a process that never waits."""
    began, used = time.monotonic(), time.process_time()
    while time.monotonic() < began + seconds:
        pass
    return (time.process_time() - used) / (time.monotonic() - began)


def main(what: str, *more: str) -> int:
    if what == "limits":
        print(json.dumps(limits()))
        return 0
    if what == "held":
        for text in more:
            print(json.dumps({text: path(text, delay_line=True)}), flush=True)
        return 0
    load(Path(more[0]))
    for text in more[1:]:
        kind, _, link = text.rpartition("=")
        if os.fork() == 0:  # its namespaces end with it
            network.check(network.libc.unshare(network.CLONE_NEWNET), "unshare")
            found = path(link) if kind == "path" else shaped(link, both=kind == "both")
            print(json.dumps({text: found}), flush=True)
            os._exit(0)
        os.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
