"""The router between sites as a program of its own container:

    python -m cluster.links.router_service '{"sites": {"a": ["node0"], "b": ["node1"]}, ...}'

It shapes the paths and answers link helpers until all paths are verified: `ready`, and `delay a-b`,
which adds the delay and loss of a path whose rate was measured. Then nobody can ask it for more; it
stays for its network namespace, in which the kernel forwards packets, and as the delay line where
there is one.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from cluster.links import delay_line, router, setup
from cluster.links.tc import DEVICE
from cluster.spec.documents.codec import from_json, to_json
from cluster.spec.sites import parse_between, path_name

PORT = 29402
PATIENCE_S = 300.0
RETRY_S = 0.1
LONGEST_LINE = 200
ANSWERED = "ok"


@dataclass(frozen=True)
class RouterPlan:
    """What a router forwards."""

    sites: dict[str, tuple[str, ...]]
    """Names of each site's nodes."""
    between: str
    """The paths, as --between has them."""
    dilation: float
    delay_line: bool = False
    """Whether they are delayed in user space."""

    def text(self) -> str:
        return json.dumps(to_json(self))


def resolve(name: str) -> str:
    """The address of a container, which may not be up yet."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.gethostbyname(name)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)


def ask(question: str) -> None:
    """Of a link helper to the router; LinkFailed with the router's complaint."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with socket.create_connection((router.NAME, PORT), timeout=PATIENCE_S) as connection:
                connection.sendall(f"{question}\n".encode())
                answer = connection.makefile().readline().strip()
                break
        except OSError:  # it shapes the paths first
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)
    if answer != ANSWERED:
        raise setup.LinkFailed(f"the router between sites: {answer or 'ended'}")


def main(text: str) -> int:
    plan = from_json(RouterPlan, json.loads(text))
    paths = parse_between(plan.between, plan.sites)
    shaped = {pair: path.dilated(plan.dilation) for pair, path in paths.items()}
    addresses = {site: [resolve(node) for node in nodes] for site, nodes in plan.sites.items()}
    device = delay_line.attach(own_mac()) if plan.delay_line else None
    for command in router.rate_commands(
        shaped, addresses, setup.kernel_tick_s(), delay_line=plan.delay_line
    ):
        setup.run(command)
    if device is not None:
        _fork_delay_line(device, delay_line.delays(shaped, addresses))
    names = {path_name(pair): pair for pair in paths}
    waiting = {f"verified {name}" for name in names}
    with socket.create_server(("", PORT), backlog=64) as listener:
        listener.settimeout(PATIENCE_S)
        while waiting:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.settimeout(PATIENCE_S)
                question = connection.makefile().readline(LONGEST_LINE).strip()
                kind, _, name = question.partition(" ")
                answer = ANSWERED
                if kind == "delay" and name in names:
                    pair = names[name]
                    try:
                        for command in router.delay_commands(
                            shaped, pair, addresses, plan.delay_line
                        ):
                            setup.run(command)
                    except setup.LinkFailed as failure:
                        answer = str(failure)
                waiting.discard(question)
                connection.sendall(f"{answer}\n".encode())
    signal.pause()
    return 0


def own_mac() -> str:
    return Path("/sys/class/net", DEVICE, "address").read_text().strip()


def _fork_delay_line(device: int, delays: delay_line.Delays) -> None:
    if os.fork() == 0:
        try:
            delay_line.hurry()
            delay_line.hold(device, delays)
        finally:
            os._exit(1)
    os.close(device)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
