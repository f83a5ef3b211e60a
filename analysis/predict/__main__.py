"""python3 -m analysis.predict"""

from cluster.spec import own_environment

if __name__ == "__main__":
    own_environment.enter("analysis.predict")  # before anything that needs numpy

from analysis.predict.command import main
from cluster.spec.command_line import run

run(main)
