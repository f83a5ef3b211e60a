"""Whether a container runs: as Docker says, and as its processes show."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cluster.engine import EngineError
from cluster.host.process_state import STOPPED, STOPPED_STATES, stopped_below

PAUSED = "paused"
ENDED = ("exited", "dead")


@contextlib.contextmanager
def engine_answers() -> Iterator[None]:
    """EngineError where Docker does not answer; docker.errors.NotFound is left to the caller."""
    import requests

    import docker

    try:
        yield
    except docker.errors.NotFound:
        raise
    except (docker.errors.APIError, requests.RequestException) as error:
        raise EngineError(f"the Docker engine no longer answers: {error}") from error


def local_process(container: Any) -> int | None:
    """Its first process, unless the engine is on another or a virtual machine."""
    process = int(container.attrs["State"]["Pid"])
    try:
        groups = Path(f"/proc/{process}/cgroup").read_text()
    except OSError:
        return None
    return process if process > 0 and container.id in groups else None


def how_stopped(container: Any, process: int | None) -> str | None:
    """How any of its processes was stopped; `process` is the first one, where it is local."""
    import docker

    if process is not None:
        return next(iter(stopped_below(process).values()), None)
    with contextlib.suppress(docker.errors.APIError):
        listed = container.top(ps_args="-o pid,stat")["Processes"]
        if any(state.startswith(STOPPED_STATES) for _, state in listed):
            return STOPPED
    return None
