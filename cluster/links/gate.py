"""The worker of a shaped container waits here until its link is set up:

    python -m cluster.links.gate python -m workloads.worker

The helper that shapes the link shares the node's network namespace and, once the link is verified, says
so on a socket whose name exists only in that namespace. Then the command takes this process's place.
"""

from __future__ import annotations

import os
import socket
import sys
import time

NAME = "\0gradwire-link"
PATIENCE_S = 300.0


def wait_until_open() -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as gate:
        gate.bind(NAME)
        gate.settimeout(PATIENCE_S)
        try:
            gate.recv(16)
        except TimeoutError:
            return False
    return True


def open_gate() -> None:
    deadline = time.monotonic() + PATIENCE_S
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as helper:
        while True:
            try:
                helper.sendto(b"verified", NAME)
                return
            except OSError:  # the worker's container is not that far yet
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


if __name__ == "__main__":
    if not wait_until_open():
        sys.exit(f"the link was not set up within {PATIENCE_S:g} s")
    os.execvp(sys.argv[1], sys.argv[1:])
