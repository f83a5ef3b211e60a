"""The session of one `docker compose up` of compose/gpu.yml: python -m cluster.gpu.session [open].

    runs/.gpu                   name of the session that was opened last
    runs/<session>/gpu.json     the planned profile, its run, and the GPUs of its nodes

`open` creates the session, before anything else starts, and gives it to the user of all other
services; without it, the run's folder is printed. Standard library only: it is on every node.
"""

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from cluster.spec.documents.codec import from_json
from cluster.spec.documents.run_folder import RunFolder, new_session, write_json

RUNS = Path("/runs")
POINTER = ".gpu"
PLAN = "gpu.json"


@dataclass(frozen=True)
class Plan:
    profile: str
    run: str
    gpu_ids: tuple[int, ...]
    """By rank; all GPUs for profile data-parallel. Empty on the CPU."""
    first_rank: int = 0
    """The lowest rank on this host."""
    nodes_here: int = 1


def open_session(runs: Path, owner: str) -> Path:
    """Create an empty session that UID:GID owns, and point to it."""
    session = new_session(runs)
    user, _, group = owner.partition(":")
    os.chown(session, int(user), int(group or user))
    (runs / POINTER).write_text(session.name + "\n")
    return session


def current_session(runs: Path) -> Path:
    return runs / (runs / POINTER).read_text().strip()


def write_plan(session: Path, plan: Plan) -> None:
    write_json(session / PLAN, asdict(plan))


def read_plan(session: Path) -> Plan | None:
    """The session's plan, or None while there is none."""
    try:
        document = json.loads((session / PLAN).read_text())
    except FileNotFoundError:
        return None
    return from_json(Plan, document)


def planned_run(session: Path) -> RunFolder:
    plan = read_plan(session)
    if plan is None:
        raise SystemExit(f"gpu: nothing is planned in {session}")
    return RunFolder(session / plan.run)


def main(arguments: list[str]) -> int:
    if arguments == ["open"]:
        print(open_session(RUNS, os.environ.get("GRADWIRE_USER") or "1000:1000").name)
    else:
        print(planned_run(current_session(RUNS)).path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
