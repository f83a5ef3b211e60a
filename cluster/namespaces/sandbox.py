"""A module run as one confined process, as on a node, with a network of loopback alone.

    python3 -m cluster.namespaces.sandbox FOLDER WRITABLE MODULE ARGUMENT...

FOLDER is seen read-only, and WRITABLE is the only folder to write to beside /tmp. For programs that
run the user's own code without a cluster (workloads/check).
"""

import importlib
import os
import subprocess
import sys
from pathlib import Path

from cluster import PROJECT
from cluster.namespaces import isolation, network
from cluster.namespaces.cluster import PASSED_ON, first_user, unshare_command
from cluster.spec.experiment import PROCESSES

INSIDE = "--inside"
NAME = "sandbox"


def main(arguments: list[str]) -> int:
    if arguments[0] == INSIDE:
        return inside(*arguments[1:])
    folder, writable, *rest = arguments
    user = first_user()
    if user is not None:
        os.chown(writable, user, user)
    me = [sys.executable, "-m", "cluster.namespaces.sandbox", INSIDE]
    command = [*unshare_command(), *me, "" if user is None else str(user), folder, writable, *rest]
    kept = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    return subprocess.run(command, cwd=PROJECT, env=kept).returncode


def inside(user: str, folder: str, writable: str, module: str, *arguments: str) -> int:
    """Give up what the module does not need, and run its main()."""
    network.name_process(NAME)
    network.ip_batch("link set lo up")
    isolation.make_read_only()
    isolation.confine(isolation.View.of(str(Path(writable).parent), folder), writable)
    isolation.limit(1, PROCESSES, bool(user))
    isolation.drop_privileges(int(user) if user else None)
    isolation.settle(NAME)
    code: int = importlib.import_module(module).main([folder, writable, *arguments])
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
