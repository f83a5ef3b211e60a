"""python3 -m analysis.export RUNS --to tensorboard|mlflow|perfetto|parquet"""

from cluster.spec import own_environment

if __name__ == "__main__":
    own_environment.enter("analysis.export", "pandas")  # before anything that needs pandas

from analysis.export.command import main
from cluster.spec.command_line import run

run(main)
