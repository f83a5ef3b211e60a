"""python3 -m analysis.summary RUN_FOLDER"""

from analysis.summary.command import main
from cluster.spec.command_line import run

run(main)
