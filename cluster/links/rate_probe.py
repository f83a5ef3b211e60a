"""The rate of a link, measured by TCP bytes between a node and a reference without a limit.

The receiving side notes the time of every arrival after the token bucket's burst is spent, and fits
a line: its slope is the payload rate. A link's target is the rate on the wire, so payload is scaled
by the bytes of a full frame over the payload in it (1514/1448 with an MTU of 1500). Interface
counters would not do: the kernel counts a large packet once, with one header, where the bucket
charges for the headers of all its frames.

The reference measures only as many links at a time as this machine can feed; others wait. It is
also a program, which ends when this many nodes are done:

    python -m cluster.links.rate_probe 4

Standard library only: it runs on nodes.
"""

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
from dataclasses import asdict, dataclass
from statistics import fmean, median

PORT = 29400
CAPACITY_PER_CORE_BIT = 5 * 10**8
SETTLING_BYTES = 16 * 1024
"""Arrivals count after the burst and this many bytes: TCP has to adapt to the link."""
SHORTEST_S = 0.4
FEWEST_FRAMES = 24
MOST_STRETCHES, FEWEST_POINTS = 9, 20
PATIENCE_S = 60.0
PROGRAM_PATIENCE_S = 300.0
IP_MTU = 14
ETHERNET_HEADER = 14
CHUNK = bytes(256 * 1024)
ACCEPTED = b"{}\n"


@dataclass(frozen=True)
class Request:
    """What a node asks the reference to do, one line of JSON at the start of a connection."""

    kind: str
    """`sent` and `received` measure a rate, `echo` a round trip; `done` ends this node's use."""
    rate_bit: int = 0
    queue_bytes: int = 0
    skip_bytes: int = 0
    """Bytes to arrive before the measurement begins."""
    seconds: float = 0


@dataclass(frozen=True)
class ProbeTarget:
    """The rate a link should have, and how long to measure it."""

    rate_bit: int
    burst_bytes: int
    queue_bytes: int
    longer: float = 1

    def request(self, kind: str) -> Request:
        """Long enough for FEWEST_FRAMES even on the slowest link."""
        shortest_s = max(SHORTEST_S, FEWEST_FRAMES * 1514 * 8 / self.rate_bit)
        return Request(
            kind,
            rate_bit=self.rate_bit,
            queue_bytes=self.queue_bytes,
            skip_bytes=self.burst_bytes + self.burst_bytes // 4 + SETTLING_BYTES,
            seconds=self.longer * shortest_s,
        )


def measure_sent(reference: str, target: ProbeTarget) -> float:
    """Bits per second that leave this node, as they arrive at the reference."""
    with _requested(reference, target.request("sent")) as connection:
        connection.setblocking(False)
        piece = _piece(target.rate_bit)
        while True:  # until the reference answers
            readable, _, _ = select.select([connection], [connection], [], PATIENCE_S)
            if readable:
                break
            connection.send(piece)
        connection.settimeout(PATIENCE_S)
        return float(json.loads(_read_line(connection)))


def measure_received(reference: str, target: ProbeTarget) -> float:
    """Bits per second that reach this node."""
    request = target.request("received")
    with _requested(reference, request) as connection:
        return rate_of_arrivals(connection, request.skip_bytes, request.seconds)


def measure_round_trip_s(reference: str, times: int = 11) -> float:
    """Median time of a byte to the reference and back."""
    with _requested(reference, Request("echo")) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        taken = []
        for _ in range(times):
            started = time.perf_counter()
            connection.sendall(b".")
            connection.recv(1)
            taken.append(time.perf_counter() - started)
    return median(taken)


def report_done(reference: str) -> None:
    """Tell the reference that this node needs it no more; it ends when all nodes have."""
    with contextlib.suppress(OSError), _requested(reference, Request("done")):
        pass


def rate_of_arrivals(connection: socket.socket, skip_bytes: int, seconds: float) -> float:
    """Bits per second on the wire, by the slope of arrived bytes over time."""
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
    """The median slope of several stretches: a machine that stalls briefly spoils only one."""
    count = max(1, min(MOST_STRETCHES, len(points) // FEWEST_POINTS))
    ends = [index * (len(points) - 1) // count for index in range(count + 1)]
    return median(slope(points[a : b + 1]) for a, b in itertools.pairwise(ends))


def slope(points: list[tuple[float, int]]) -> float:
    """The slope of the least-squares line through points."""
    mean_x, mean_y = (fmean(values) for values in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread


class Reference:
    """The other end of all measurements: serves requests until it is closed."""

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
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(PATIENCE_S)
                request = Request(**json.loads(_read_line(connection)))
                if request.kind == "done":
                    connection.sendall(ACCEPTED)
                    self.done.release()
                    return
                with self._turn_of(request.rate_bit):
                    SERVICES[request.kind](connection, request)
            except (OSError, ValueError):
                return  # the node notices the closed connection and reports it

    @contextlib.contextmanager
    def _turn_of(self, rate_bit: int) -> Iterator[None]:
        """Wait for free capacity; a link that needs more than there is is measured alone."""
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


def _time_arrivals(connection: socket.socket, request: Request) -> None:
    connection.sendall(ACCEPTED)
    rate_bit = rate_of_arrivals(connection, request.skip_bytes, request.seconds)
    connection.sendall(f"{json.dumps(rate_bit)}\n".encode())
    while connection.recv(len(CHUNK)):  # bytes in flight must not disturb the next measurement
        pass


def _send(connection: socket.socket, request: Request) -> None:
    connection.sendall(ACCEPTED)
    _bound_queue(connection, request.queue_bytes)
    piece = _piece(request.rate_bit)
    while True:  # until the node has measured enough and closes
        connection.sendall(piece)


def _echo(connection: socket.socket, request: Request) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(ACCEPTED)
    while data := connection.recv(1):
        connection.sendall(data)


SERVICES: dict[str, Callable[[socket.socket, Request], None]] = {
    "sent": _time_arrivals,
    "received": _send,
    "echo": _echo,
}


@contextlib.contextmanager
def _requested(reference: str, request: Request) -> Iterator[socket.socket]:
    """A connection on which the reference has accepted a request."""
    connection = _connect(reference)
    with connection:
        _bound_queue(connection, request.queue_bytes)
        connection.sendall(json.dumps(asdict(request)).encode() + b"\n")
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
    """The bytes of two milliseconds: a large piece takes half a second on a slow link."""
    return CHUNK[: max(2, rate_bit // 8 // 500 // 1448) * 1448]  # whole frames


def _bound_queue(connection: socket.socket, queue_bytes: int) -> None:
    """Keep less in flight than the link's queue holds: loss would delay what has arrived.

    And not much less: when a sender waits for a core, the queue must not run empty. The kernel
    doubles the number, and about half of it is payload; above a megabyte its own choice is good.
    """
    if 0 < queue_bytes < 2**20:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, queue_bytes // 2)


def _wire_share(connection: socket.socket) -> float:
    """Bytes on the wire per byte of payload, in full frames."""
    frame = connection.getsockopt(socket.IPPROTO_IP, IP_MTU) + ETHERNET_HEADER
    return frame / connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = connection.recv(size)
    if not data:
        raise ConnectionError("the connection closed during a measurement")
    return data


def _read_line(connection: socket.socket) -> bytes:
    """Byte by byte: what follows the line is payload."""
    line = b""
    while not line.endswith(b"\n"):
        line += _receive(connection, 1)
    return line


def main(nodes: int) -> int:
    reference = Reference()
    reference.start()
    served = [reference.done.acquire(timeout=PROGRAM_PATIENCE_S) for _ in range(nodes)]
    return 0 if all(served) else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
