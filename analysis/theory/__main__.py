"""python3 -m analysis.theory"""

from analysis.theory.table import main
from cluster.spec.command_line import run

run(main)
