"""An event log that is also sent to the driver, outside of training.

What is sent between epochs does not count as training. With it all events so far are sent.
"""

import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path

from cluster.spec.documents.events import End, Epoch, Event, Failure, Hello
from workloads.event_log import EventLog

SENT_WITH = (Hello, Epoch, Failure, End)
LENGTH = struct.Struct("!Q")
RECEIVED = b"+"


class SentLog(EventLog):
    """Events go to a file of this host, too, where there is one."""

    def __init__(
        self,
        path: Path | None,
        node: str,
        send: Callable[[bytes], None],
        workers_on_host: int = 1,
    ) -> None:
        super().__init__(path, node, workers_on_host)
        self._send = send
        self._lines: list[str] = []

    def write(self, event: Event) -> None:
        if self.file is not None:
            self.file.write(event.line())
        self._lines.append(event.line())
        if isinstance(event, SENT_WITH):
            self._send("".join(self._lines).encode())
            self._lines.clear()


def hand_over(descriptor: int, body: bytes) -> None:
    """From a worker to its agent, through a socket that it inherited; returns when it is sent."""
    with socket.socket(fileno=os.dup(descriptor)) as agent:
        agent.sendall(LENGTH.pack(len(body)) + body)
        if agent.recv(1) != RECEIVED:
            raise ConnectionError("the agent of this host could not send events to the driver")


def take_over(worker: socket.socket, send: Callable[[bytes], None]) -> bool:
    """The agent's end: send what the worker hands over; False when it has gone."""
    heading = _receive(worker, LENGTH.size)
    body = heading and _receive(worker, LENGTH.unpack(heading)[0])
    if body is None:
        return False
    send(body or b"")
    worker.sendall(RECEIVED)
    return True


def _receive(worker: socket.socket, length: int) -> bytes | None:
    received = bytearray()
    while len(received) < length:
        piece = worker.recv(min(length - len(received), 1 << 20))
        if not piece:
            return None
        received += piece
    return bytes(received)
