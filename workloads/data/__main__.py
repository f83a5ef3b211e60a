"""python -m workloads.data fetch|status"""

from cluster.spec.command_line import run
from workloads.data.prepare import main

run(main)
