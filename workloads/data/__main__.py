"""python3 -m workloads.data: see command.py."""

from cluster.spec import own_environment

if __name__ == "__main__":
    own_environment.enter("workloads.data", "pooch")  # which downloads need

from cluster.spec.command_line import run
from workloads.data.command import main

if __name__ == "__main__":
    run(main)
