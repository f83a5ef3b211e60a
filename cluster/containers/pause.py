"""Pauses a container, on a busy host too: runc gives up where processes take long to freeze."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docker.models.containers import Container

TRIES, BETWEEN_S = 5, 0.5
GAVE_UP = "unable to freeze"


def pause(container: Container) -> None:
    """The APIError of the last try, or any other error at once."""
    import docker

    for left in reversed(range(TRIES)):
        try:
            container.pause()
            return
        except docker.errors.APIError as error:
            if GAVE_UP not in str(error) or not left:
                raise
        time.sleep(BETWEEN_S)
