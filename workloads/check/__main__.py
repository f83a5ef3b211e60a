"""python3 -m workloads.check FILE.py: see command.py."""

from cluster.spec import own_environment

if __name__ == "__main__":
    own_environment.enter("workloads.check", "torch")

from cluster.spec.command_line import run
from workloads.check.command import main

if __name__ == "__main__":
    run(main)
