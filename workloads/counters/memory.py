"""A node's share of the machine's memory: who needs more is told so, before the kernel ends somebody.

Linux promises memory that it does not have, and kills a process when it is touched. A limit on each worker
turns that into an error which can be caught, said and recorded.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

from cluster.spec.experiment import EXISTING, Experiment

KEPT_FREE = 0.1
"""Of what is available: for the system, the collector and whatever else runs."""

LEAST_BYTES = 2 * 10**9
"""Of a share: what is mapped counts before it is touched, and data sets are, by every worker."""

WORDS = ("allocate memory", "bad_alloc", "out of memory", "create a memory")
"""How torch, C++ and oneDNN say it."""


def limit_memory(spec: Experiment) -> None:
    """This process may take its node's share, on top of what it has; on machines of others, what it likes.

    On a GPU it is the device that runs out first, and that is an error by itself.
    """
    if spec.engine == EXISTING or spec.gpu:
        return  # the driver of a GPU maps as much memory as all devices have
    usable = available_bytes() * (1 - KEPT_FREE)
    share = max(usable / workers_here(spec), min(usable, LEAST_BYTES))
    limit = round(_own_bytes() + share)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def workers_here(spec: Experiment) -> int:
    """All nodes, unless somebody (torchrun) says how many of them are on this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", spec.nodes))


def available_bytes() -> int:
    """On the machine."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) * 1024


def _own_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    sizes = [int(line.split()[1]) for line in lines if line.startswith("VmData:")]
    return 1024 * sizes[0]


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(word in str(error) for word in WORDS)
    )


def explain(error: BaseException, spec: Experiment) -> str:
    """One line: what was too large, for what, and the way out."""
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if spec.gpu:
        limit = resource.RLIM_INFINITY
    size = f" in the {limit / 1e9:.1f} GB it may take" if limit != resource.RLIM_INFINITY else ""
    return (
        f"ran out of {'the memory of its GPU' if spec.gpu else 'memory'}{size}: {spec.model} with batches of {spec.batch_size:,} does not fit;"
        " lower --batch-size or --workers"
    )
