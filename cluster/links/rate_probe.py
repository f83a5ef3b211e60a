"""How fast a link really is: TCP bytes between a node and a reference that is not throttled.

The side that receives takes the time of every arrival once the token bucket's burst is spent, and fits
a line: its slope is the rate of payload. What a link is asked for is the rate on the wire, so payload is
scaled by the bytes of a full frame over the payload in it (1514/1448 with an MTU of 1500). Interface
counters would not do: the kernel counts a large packet once, with one header, where the bucket charges
for the headers of all the frames it stands for.

The reference lets only so much through at a time that the machine is not the bottleneck; the others
wait for their turn. It is a program too, which ends when so many nodes are done:

    python -m cluster.links.rate_probe 4

Standard library only: it runs on nodes.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

PORT = 29400
CAPACITY_PER_CORE_BIT = 5 * 10**8
SETTLING_BYTES = 16 * 1024
"""Arrivals count from so much more than the burst on: TCP has to get used to the link."""
SHORTEST_S = 0.4
FEWEST_FRAMES = 24
MOST_STRETCHES, FEWEST_POINTS = 9, 20
PATIENCE_S = 60.0
PROGRAM_PATIENCE_S = 300.0
IP_MTU = 14
ETHERNET_HEADER = 14
NO_TRAFFIC = {"rate_bit": 0, "queue_bytes": 0}
CHUNK = bytes(256 * 1024)


@dataclass(frozen=True)
class Course:
    """What is asked of a link, and how long to look at it."""

    rate_bit: int
    burst_bytes: int
    queue_bytes: int
    longer: float = 1

    def order(self, what: str) -> dict[str, Any]:
        """Long enough for some frames even on the slowest link."""
        shortest_s = max(SHORTEST_S, FEWEST_FRAMES * 1514 * 8 / self.rate_bit)
        return {
            "what": what,
            "rate_bit": self.rate_bit,
            "queue_bytes": self.queue_bytes,
            "skip_bytes": self.burst_bytes + self.burst_bytes // 4 + SETTLING_BYTES,
            "seconds": self.longer * shortest_s,
        }


def measure_sent(reference: str, course: Course) -> float:
    """Bits a second that leave this node, as they arrive at the reference."""
    order = course.order("sent")
    with _ordered(reference, order) as connection:
        connection.setblocking(False)
        piece = _piece(course.rate_bit)
        while True:  # until the answer comes
            readable, _, _ = select.select([connection], [connection], [], PATIENCE_S)
            if readable:
                break
            connection.send(piece)
        connection.settimeout(PATIENCE_S)
        return float(_read_line(connection)["rate_bit"])


def measure_received(reference: str, course: Course) -> float:
    """Bits a second that reach this node."""
    order = course.order("received")
    with _ordered(reference, order) as connection:
        return rate_of_arrivals(connection, order["skip_bytes"], order["seconds"])


def measure_round_trip_s(reference: str, times: int = 11) -> float:
    """Median time of a byte there and back."""
    with _ordered(reference, {"what": "echo", **NO_TRAFFIC}) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        taken = []
        for _ in range(times):
            started = time.perf_counter()
            connection.sendall(b".")
            connection.recv(1)
            taken.append(time.perf_counter() - started)
    return median(taken)


def say_done(reference: str) -> None:
    """This node needs the reference no more; it leaves when all have said so."""
    with contextlib.suppress(OSError), _ordered(reference, {"what": "done", **NO_TRAFFIC}):
        pass


def rate_of_arrivals(connection: socket.socket, skip_bytes: int, seconds: float) -> float:
    """Bits a second on the wire, by the slope of arrived bytes over time."""
    arrivals: list[tuple[float, int]] = []
    arrived = 0
    while True:
        arrived += len(_receive(connection, len(CHUNK)))
        now = time.perf_counter()
        if arrived >= skip_bytes:
            arrivals.append((now, arrived))
            if now - arrivals[0][0] >= seconds:
                return steady_slope(arrivals) * 8 * _wire_share(connection)


def steady_slope(points: list[tuple[float, int]]) -> float:
    """The median of some stretches' slopes: a machine that stops for a moment spoils only one."""
    count = max(1, min(MOST_STRETCHES, len(points) // FEWEST_POINTS))
    borders = [index * (len(points) - 1) // count for index in range(count + 1)]
    return median(slope(points[a : b + 1]) for a, b in itertools.pairwise(borders))


def slope(points: list[tuple[float, int]]) -> float:
    """Of the line through points with the smallest sum of squares."""
    mean_x, mean_y = (fmean(values) for values in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread


class Reference:
    """The other end of all measurements: answers until it is closed."""

    def __init__(self, address: str = "") -> None:
        self._listener = socket.create_server((address, PORT), backlog=256)
        self._free_bit = float(CAPACITY_PER_CORE_BIT * (os.cpu_count() or 1))
        self._turn = threading.Condition()
        self._users = 0
        self.done = threading.Semaphore(0)
        """Released by every node that is done."""

    def start(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(PATIENCE_S)
                order = _read_line(connection)
                if order["what"] == "done":
                    connection.sendall(b"{}\n")
                    self.done.release()
                    return
                with self._turn_of(order["rate_bit"]):
                    ANSWERS[order["what"]](connection, order)
            except (OSError, ValueError):
                return  # the node notices by itself, and says so

    @contextlib.contextmanager
    def _turn_of(self, rate_bit: int) -> Iterator[None]:
        """One that needs more than there is goes alone."""
        with self._turn:
            self._turn.wait_for(lambda: self._users == 0 or self._free_bit >= rate_bit)
            self._users += 1
            self._free_bit -= rate_bit
        try:
            yield
        finally:
            with self._turn:
                self._users -= 1
                self._free_bit += rate_bit
                self._turn.notify_all()


def _time_arrivals(connection: socket.socket, order: dict[str, Any]) -> None:
    connection.sendall(b"{}\n")
    rate = rate_of_arrivals(connection, order["skip_bytes"], order["seconds"])
    _write_line(connection, {"rate_bit": rate})
    while connection.recv(len(CHUNK)):  # what is on its way must not disturb the next measurement
        pass


def _send(connection: socket.socket, order: dict[str, Any]) -> None:
    connection.sendall(b"{}\n")
    _bound_queue(connection, order["queue_bytes"])
    piece = _piece(order["rate_bit"])
    while True:  # until the node has seen enough and closes
        connection.sendall(piece)


def _echo(connection: socket.socket, order: dict[str, Any]) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(b"{}\n")
    while data := connection.recv(1):
        connection.sendall(data)


ANSWERS: dict[str, Callable[[socket.socket, dict[str, Any]], None]] = {
    "sent": _time_arrivals,
    "received": _send,
    "echo": _echo,
}


@contextlib.contextmanager
def _ordered(reference: str, order: dict[str, Any]) -> Iterator[socket.socket]:
    """A connection on which the reference has begun to do what was ordered."""
    connection = _connect(reference)
    with connection:
        _bound_queue(connection, order["queue_bytes"])
        _write_line(connection, order)
        _read_line(connection)
        yield connection


def _connect(reference: str) -> socket.socket:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection((reference, PORT), timeout=PATIENCE_S)
        except OSError:  # it may not be up yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _piece(rate_bit: int) -> bytes:
    """Two milliseconds' worth: on a slow link a large one would take half a second to pass."""
    return CHUNK[: max(2, rate_bit // 8 // 500 // 1448) * 1448]  # whole frames


def _bound_queue(connection: socket.socket, queue_bytes: int) -> None:
    """Keep less on the way than the link's queue holds: losses would hold up what has arrived.

    And not much less: a sender that has to wait for a core must find the queue not yet empty. The kernel
    doubles the number, about half of it is payload; beyond a megabyte it manages well by itself.
    """
    if 0 < queue_bytes < 2**20:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, queue_bytes // 2)


def _wire_share(connection: socket.socket) -> float:
    """Bytes on the wire for a byte of payload, in full frames."""
    frame = connection.getsockopt(socket.IPPROTO_IP, IP_MTU) + ETHERNET_HEADER
    return frame / connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = connection.recv(size)
    if not data:
        raise ConnectionError("the other side left in the middle of a measurement")
    return data


def _write_line(connection: socket.socket, document: dict[str, Any]) -> None:
    connection.sendall(json.dumps(document).encode() + b"\n")


def _read_line(connection: socket.socket) -> dict[str, Any]:
    """Byte by byte: what follows the line is not ours to take."""
    line = b""
    while not line.endswith(b"\n"):
        line += _receive(connection, 1)
    document: dict[str, Any] = json.loads(line)
    return document


def main(nodes: int) -> int:
    reference = Reference()
    reference.start()
    served = [reference.done.acquire(timeout=PROGRAM_PATIENCE_S) for _ in range(nodes)]
    return 0 if all(served) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
