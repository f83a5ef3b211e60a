"""Background traffic of one node: a program beside its worker, which sends it and takes it.

    python -m cluster.links.background_sender '{"node": 1, "flows": "1-3:10mbit", ...}'

It connects to the nodes that it sends to, and sends while it is told to: SIGUSR1 begins, SIGUSR2
ends it. What it receives is thrown away.

Every segment is a packet of its own (MSG_EOR keeps the kernel from joining them), so that the
packets of its connections are known from the kernel's counts (workloads/counters/background.py).
What a full link did not take is not sent later: a flow never has more than its rate.
"""

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from dataclasses import dataclass

from cluster.spec.background import PORT, SEGMENT_WIRE_BYTES, Flow, parse_background
from cluster.spec.documents.codec import from_json, to_json

BEGIN, END = signal.SIGUSR1, signal.SIGUSR2
AT_ONCE = "GRADWIRE_BACKGROUND"
"""An environment variable: `now` sends without being told to."""
PATIENCE_S = 120.0
RETRY_S = 0.1
TICK_S, IDLE_S = 0.005, 0.05
MOST_BEHIND_S = 0.2
"""What it could not send for longer is not made up for."""
SEGMENT = bytes(1448)
BUFFER_BYTES = 65536
LEAST_QUEUE_BYTES, QUEUE_S = 16384, 0.1
"""Of a connection: what it may hold of its flow, before the rest is given up."""


@dataclass(frozen=True)
class SenderPlan:
    """What the program of one node does."""

    node: int
    flows: str
    """Of all nodes, as --background has them."""
    addresses: tuple[str, ...]
    """By rank, name or address of the node."""
    slowdown: float
    """Seconds on this host for each emulated second."""

    def text(self) -> str:
        return json.dumps(to_json(self))


def involved(flows: tuple[Flow, ...]) -> list[int]:
    """Ranks of the nodes that send or receive."""
    return sorted({rank for flow in flows for rank in (flow.source, flow.destination)})


class _Sender:
    """One flow."""

    def __init__(self, address: str, rate_bit: float) -> None:
        self.connection = _connect(address)
        self._per_s = rate_bit / 8 / SEGMENT_WIRE_BYTES
        queue = max(LEAST_QUEUE_BYTES, round(rate_bit / 8 * QUEUE_S))
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, queue)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection.setblocking(False)
        self._sent, self._began = 0.0, 0.0

    def begin(self, now: float) -> None:
        self._sent, self._began = 0.0, now

    def send(self, now: float) -> None:
        """Whole segments that are due."""
        due = (now - self._began) * self._per_s
        self._sent = max(self._sent, due - max(1.0, MOST_BEHIND_S * self._per_s))
        with contextlib.suppress(BlockingIOError):
            while self._sent + 1 <= due:
                self.connection.send(SEGMENT, socket.MSG_EOR)
                self._sent += 1


def _connect(address: str) -> socket.socket:
    """The other node's program may not be up yet."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection((address, PORT), timeout=PATIENCE_S)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)


def work(plan: SenderPlan) -> None:
    """Until it is ended from outside, or a connection is lost."""
    flows = parse_background(plan.flows)
    is_on = os.environ.get(AT_ONCE) == "now"

    def turn(number: int, _: object) -> None:
        nonlocal is_on
        is_on = number == BEGIN

    signal.signal(BEGIN, turn)
    signal.signal(END, turn)
    with selectors.DefaultSelector() as selector, _listen() as listener:
        selector.register(listener, selectors.EVENT_READ)
        mine = [flow for flow in flows if flow.source == plan.node]
        senders = [
            _Sender(plan.addresses[flow.destination], flow.rate_bit / plan.slowdown)
            for flow in mine
        ]
        was_on = False
        while True:
            now = time.monotonic()
            if is_on and not was_on:
                for sender in senders:
                    sender.begin(now)
            was_on = is_on
            for sender in senders if is_on else ():
                sender.send(now)
            for key, _ in selector.select(TICK_S if is_on and senders else IDLE_S):
                _take(selector, listener, key.fileobj)


def _listen() -> socket.socket:
    return socket.create_server(("", PORT), backlog=64)


def _take(selector: selectors.BaseSelector, listener: socket.socket, ready: object) -> None:
    if ready is listener:
        connection, _ = listener.accept()
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_READ)
        return
    assert isinstance(ready, socket.socket)
    try:
        received = ready.recv(BUFFER_BYTES)
    except BlockingIOError:
        return
    except OSError:
        received = b""
    if not received:
        selector.unregister(ready)
        ready.close()


def main(text: str) -> int:
    work(from_json(SenderPlan, json.loads(text)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
