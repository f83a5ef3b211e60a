"""How a user's program is started on a node: its words, and the variables that launchers set. Pure.

Variables are those of torchrun, which starts K processes on each of N hosts; with launcher horovod
also those of horovodrun.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from cluster.spec import program
from cluster.spec.documents.run_folder import node_name
from cluster.spec.experiment import Experiment

ON_PATH = Path(__file__).parent / "on_path"
"""Modules that a program finds: gradwire_events, and what is imported before it."""
EVENTS = "GRADWIRE_PROGRAM_EVENTS"
HOROVOD_PORT = 29400
LEFT_OUT = ("GRADWIRE_", "PYTHONPATH", "RANK", "WORLD_SIZE")
"""Beginnings of variables that are the node's own."""


def arguments(experiment: Experiment) -> list[str]:
    assert experiment.program is not None
    return [sys.executable, *program.words(experiment.program)]


def variables(
    experiment: Experiment, node: int, local_rank: int, events: Path, given: Mapping[str, str]
) -> dict[str, str]:
    """The environment of one process; `given` is the node's own."""
    own = {name: text for name, text in given.items() if not name.startswith(LEFT_OUT)}
    assert experiment.folder is not None
    paths = [experiment.folder, str(ON_PATH), *packages(given)]
    own |= {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONUNBUFFERED": "1",
        "GRADWIRE_SEED": str(experiment.seed),
        EVENTS: str(events),
        **of_torchrun(experiment, node, local_rank, given),
    }
    if experiment.launcher == "horovod":
        own |= of_horovod(experiment, node, local_rank)
    return own


def packages(given: Mapping[str, str]) -> list[str]:
    """The folder with packages of --requirements, where there is one."""
    found = given.get("GRADWIRE_PACKAGES")
    return [found] if found else []


def of_torchrun(
    experiment: Experiment, node: int, local_rank: int, given: Mapping[str, str]
) -> dict[str, str]:
    here, nodes = experiment.nproc_per_node, experiment.nodes
    rank = node * here + local_rank
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(nodes * here),
        "LOCAL_WORLD_SIZE": str(here),
        "GROUP_RANK": str(node),
        "GROUP_WORLD_SIZE": str(nodes),
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(nodes * here),
        "MASTER_ADDR": given.get("MASTER_ADDR", node_name(0)),
        "MASTER_PORT": given.get("MASTER_PORT", "29500"),
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": given.get("OMP_NUM_THREADS", "1"),
    }


def of_horovod(experiment: Experiment, node: int, local_rank: int) -> dict[str, str]:
    here, nodes = experiment.nproc_per_node, experiment.nodes
    return {
        "HOROVOD_RANK": str(node * here + local_rank),
        "HOROVOD_SIZE": str(nodes * here),
        "HOROVOD_LOCAL_RANK": str(local_rank),
        "HOROVOD_LOCAL_SIZE": str(here),
        "HOROVOD_CROSS_RANK": str(node),
        "HOROVOD_CROSS_SIZE": str(nodes),
        "HOROVOD_HOSTNAME": node_name(node),
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": node_name(0),
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(HOROVOD_PORT),
        "HOROVOD_GLOO_IFACE": "eth0",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }
