"""Rendezvous: wait until node 0 accepts connections."""

import os
import socket
import time

CONNECT_TIMEOUT_S = 5.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.25
"""Between two attempts; their few bytes are booked to the phase `setup`."""


def await_rendezvous(timeout_s: float, port: int | None = None) -> None:
    """Wait until node 0 listens at MASTER_ADDR, variables as torchrun sets them, and at this port
    (default: MASTER_PORT)."""
    host, port = os.environ["MASTER_ADDR"], port or int(os.environ["MASTER_PORT"])
    began = time.monotonic()
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S).close()
            return
        except (OSError, UnicodeError) as error:  # UnicodeError: not a valid host name
            waited_s = time.monotonic() - began
            if waited_s > timeout_s:
                raise TimeoutError(
                    f"no rendezvous at {host}:{port} after {waited_s:.0f} s: {error}"
                ) from None
            time.sleep(pause_s)
            pause_s = min(1.5 * pause_s, LONGEST_PAUSE_S)
