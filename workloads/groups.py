"""python -m workloads.groups: who averages with whom, rounds to consensus, and bytes."""

from cluster.spec.command_line import run
from cluster.spec.consensus import main

if __name__ == "__main__":
    run(main)
