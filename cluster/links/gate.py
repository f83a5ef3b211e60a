"""The worker of a container with a shaped link waits here until the link is verified:

    python -m cluster.links.gate python -m workloads.worker

The helper that shapes the link shares the node's network namespace. Once the link is verified, it
sends a datagram to an abstract Unix socket of that namespace. Then the command replaces this one.
"""

import os
import socket
import sys
import time

NAME = "\0gradwire-link"
PATIENCE_S = 300.0


def wait_until_open() -> bool:
    """Whether the gate was opened within PATIENCE_S."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as gate:
        gate.bind(NAME)
        gate.settimeout(PATIENCE_S)
        try:
            gate.recv(16)
        except TimeoutError:
            return False
    return True


def open_gate() -> None:
    """Let the worker start; tries again while its container is still starting."""
    deadline = time.monotonic() + PATIENCE_S
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as helper:
        while True:
            try:
                helper.sendto(b"verified", NAME)
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


if __name__ == "__main__":
    if not wait_until_open():
        sys.exit(f"the link was not set up within {PATIENCE_S:g} s")
    os.execvp(sys.argv[1], sys.argv[1:])
