"""python -m workloads.data: see command.py."""

from cluster.spec.command_line import run
from workloads.data.command import main

run(main)
