"""python -m workloads.groups: who averages with whom, how fast that reaches consensus, at what cost."""

from cluster.spec.command_line import run
from cluster.spec.consensus import main

if __name__ == "__main__":
    run(main)
