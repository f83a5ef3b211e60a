"""In the supervisor: what faults do to a running node (cluster/faults/deed.py)."""

import os
import signal
import subprocess

from cluster.host.process_state import processes_below
from cluster.namespaces.network import ip_batch
from cluster.spec.documents.run_folder import node_name

SIGNALS = {"stop": signal.SIGSTOP, "resume": signal.SIGCONT}
KILLED = {"kill": 1, "kill-kept": 2}
"""How far below the node's first process its training process is: none of those between ends."""
CARRIER = {"unplug": "down", "plug": "up"}
"""State of the port at the switch: the node's end of the pair has a carrier while it is up."""


def disturb(kind: str, rank: int, process: int) -> str | None:
    """Do this to a node, given its first process; what went wrong."""
    name = node_name(rank)
    try:
        if kind in CARRIER:
            ip_batch(f"link set {name} {CARRIER[kind]}")
            return None
        chain = processes_below(process)
        if kind in KILLED:
            if len(chain) <= KILLED[kind]:
                return f"{name} has no training process"
            os.kill(chain[-1], signal.SIGKILL)
            return None
        for target in chain:
            os.kill(target, SIGNALS[kind])
    except (OSError, subprocess.CalledProcessError) as error:
        words = getattr(error, "stderr", None) or str(error)
        return f"{kind} of {name} failed: {' '.join(str(words).split())}"
    return None
