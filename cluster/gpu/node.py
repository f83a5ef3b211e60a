"""A node of compose/gpu.yml: python -m cluster.gpu.node COMMAND... runs COMMAND with its rank.

PROFILE is the node's profile: it ends at once where another profile is planned. Its rank is RANK,
or follows from the number that Compose gave the container: of the names <NODES>-1, <NODES>-2, ...
one resolves to its own address, and -1 has rank 0. All nodes see all GPUs, else NCCL could not copy
directly; each computes on its own. With OVER_NETWORK=yes NCCL takes each node for a machine.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from socket import gethostbyname, gethostname

from cluster.gpu.session import RUNS, Plan, current_session, planned_run, read_plan
from cluster.spec.experiment import node_name


def main(command: list[str]) -> int:
    session = current_session(RUNS)
    plan = read_plan(session)
    if plan is None:
        print("node: nothing is planned", file=sys.stderr)
        return 2
    profile = os.environ["PROFILE"]
    if plan.profile != profile:
        print(f"node: not needed, profile {plan.profile} was chosen")
        return 0
    run = planned_run(session)
    nodes = run.read_experiment().nodes
    given = os.environ.get("RANK") or ""
    variables = {"RANK": given or "0"}
    if not given and nodes > 1:
        variables = find_rank(
            os.environ["NODES"], nodes, gethostbyname(gethostname()), gethostbyname
        )
    rank = int(variables["RANK"])
    if os.environ.get("OVER_NETWORK") == "yes":
        variables["NCCL_HOSTID"] = f"gradwire-{rank}"
    variables |= {"WORLD_SIZE": str(nodes), "GRADWIRE_RUNS": str(run.path), **devices(plan, rank)}
    print(f"node: {node_name(rank)} of {nodes}", flush=True)
    os.environ.update(variables)
    return os.execvp(command[0], command)


def find_rank(
    name: str, nodes: int, own_address: str, look_up: Callable[[str], str]
) -> dict[str, str]:
    """RANK and MASTER_ADDR by the containers' names; those that have not started do not resolve."""
    for rank in range(nodes):
        with contextlib.suppress(OSError):
            if look_up(f"{name}-{rank + 1}") == own_address:
                return {"RANK": str(rank), "MASTER_ADDR": f"{name}-1"}
    raise SystemExit(f"node: none of {name}-1 to -{nodes} has the address {own_address}; set RANK")


def devices(plan: Plan, rank: int) -> Mapping[str, str]:
    """Variables that select the GPU of a rank, or all GPUs for profile data-parallel."""
    if not plan.gpu_ids:
        return {}
    own = (
        plan.gpu_ids if plan.profile == "data-parallel" else (plan.gpu_ids[rank - plan.first_rank],)
    )
    # In the order of nvidia-smi.
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, own)), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
