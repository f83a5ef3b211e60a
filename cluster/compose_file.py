"""A run -> the compose document that raises its cluster. Pure.

Every node extends the hand-written one in compose/node.yml. Started by hand, the file repeats its run
and prints what happens; with GRADWIRE_RECORD=1 the nodes record, wait for each run's go, and carry out
the runs in GRADWIRE_RUNS, which is how the engine uses it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cluster.run_folder import RunFolder, node_name
from cluster.spec import Experiment

SESSION = "/session"
OWNER_LABEL = "gradwire.owner"
SESSION_LABEL = "gradwire.session"
NODE_FILE = Path(__file__).resolve().parent.parent / "compose" / "node.yml"


def project_name(cluster: str) -> str:
    return f"gradwire-{cluster}"


def compose_document(
    experiment: Experiment, run: RunFolder, *, image: str, user: str, data_folder: Path
) -> dict[str, Any]:
    return {
        "name": project_name(f"{run.session}-{run.name[:3]}"),
        "services": {
            node_name(rank): _node(rank, experiment, run, image, user, data_folder)
            for rank in range(experiment.workers)
        },
        "networks": {"cluster": {"internal": True, "labels": _labels(run)}},
    }


def path_in_node(run: RunFolder) -> str:
    return f"{SESSION}/{run.name}"


def _node(
    rank: int, experiment: Experiment, run: RunFolder, image: str, user: str, data_folder: Path
) -> dict[str, Any]:
    node: dict[str, Any] = {
        "extends": {"file": _path(NODE_FILE), "service": "node"},
        "image": image,
        "hostname": node_name(rank),
        "user": user,
        "environment": {
            "RANK": str(rank),
            "WORLD_SIZE": str(experiment.workers),
            "GRADWIRE_RUNS": f"${{GRADWIRE_RUNS:-{path_in_node(run)}}}",
            "GRADWIRE_RECORD": "${GRADWIRE_RECORD:-0}",
        },
        "volumes": [
            {"type": "bind", "source": _path(run.path.parent), "target": SESSION},
            {"type": "bind", "source": _path(data_folder), "target": "/data", "read_only": True},
        ],
        "networks": ["cluster"],
        "labels": _labels(run),
    }
    if experiment.cpus is not None:
        node["cpus"] = experiment.cpus
    return node


def _path(path: Path) -> str:
    """Compose takes a single dollar for the start of a variable."""
    return str(path).replace("$", "$$")


def _labels(run: RunFolder) -> dict[str, str]:
    return {SESSION_LABEL: run.session, OWNER_LABEL: "${GRADWIRE_OWNER:-by-hand}"}
