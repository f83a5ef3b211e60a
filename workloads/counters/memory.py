"""A memory limit for each worker: its share of the machine's memory.

Linux overcommits memory and kills a process when memory runs out. With a limit an allocation fails
instead, which is an error that can be reported and recorded.
"""

import os
import resource
from pathlib import Path

from cluster.spec.experiment import EXISTING, Experiment

KEPT_FREE = 0.1
"""Fraction of the available memory for the system, the collector and other programs."""

LEAST_BYTES = 2 * 10**9
"""Minimum of a share: mapped files, such as data sets, count before they are read."""

WORDS = ("allocate memory", "bad_alloc", "out of memory", "create a memory")
"""Words in the out-of-memory errors of torch, C++ and oneDNN."""


def limit_memory(spec: Experiment) -> None:
    """Limit this process to its share, in addition to what it already uses.

    No limit on existing hosts, nor with a GPU, whose memory runs out first with its own error.
    """
    if spec.engine == EXISTING or spec.gpu:
        return  # a GPU driver maps as much memory as all devices have
    usable = available_bytes() * (1 - KEPT_FREE)
    share = max(usable / workers_on_machine(spec), min(usable, LEAST_BYTES))
    limit = round(_own_bytes() + share)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def workers_on_machine(spec: Experiment) -> int:
    """LOCAL_WORLD_SIZE, which torchrun sets, otherwise all nodes."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", spec.started_nodes))


def available_bytes() -> int:
    """Memory that the machine has available."""
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
    """One line: what does not fit, and what to change."""
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if spec.gpu:
        limit = resource.RLIM_INFINITY
    size = f" in the {limit / 1e9:.1f} GB it may take" if limit != resource.RLIM_INFINITY else ""
    memory = "the memory of its GPU" if spec.gpu else "memory"
    return (
        f"ran out of {memory}{size}: {spec.model} with batches of {spec.batch_size:,} does not fit;"
        " lower --batch-size or --workers"
    )
