"""Payload bytes of each TCP connection of this process, as counted by the kernel (TCP_INFO).

The owner of a connection may read its counters, so this needs no privilege, and works for any
library: Gloo's and Horovod's connections are found in /proc. Both ends are recorded, so that
analysis/summary/traffic_matrix.py can match the two ends afterwards. Closed connections are lost.
"""

import contextlib
import os
from typing import NamedTuple

from cluster.spec.documents.events import ConnectionBytes
from workloads.program.on_path.gradwire_tcp import UncountedError, read_connection


class Connection(NamedTuple):
    counted: ConnectionBytes
    retransmitted_bytes: int


def read_connections() -> list[Connection] | None:
    """All open connections; None where the kernel is too old to count their bytes."""
    try:
        found = [_read(descriptor) for descriptor in map(int, os.listdir("/proc/self/fd"))]
    except UncountedError:
        return None
    return [connection for connection in found if connection is not None]


def _read(descriptor: int) -> Connection | None:
    """The connection of a file descriptor; None where it is not an open TCP connection."""
    with contextlib.suppress(OSError):
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:"):
            found = read_connection(descriptor)
            if found is not None:
                return Connection(ConnectionBytes(*found[:4]), found[4])
    return None
