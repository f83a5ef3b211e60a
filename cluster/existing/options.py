"""The flags of host launchers -> HostOptions. A flag that makes no sense here is refused."""

import argparse
from collections.abc import Sequence

from cluster.existing.launchers import HOST_LAUNCHERS
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment
from cluster.spec.hosts import HostOptions
from cluster.spec.launchers import LAUNCHERS
from cluster.spec.quantities import parse_duration

FLAGS = tuple(field for row in HOST_LAUNCHERS.values() for field in row.options)


def read_options(
    args: argparse.Namespace, experiments: Sequence[Experiment], also: Sequence[str] = ()
) -> HostOptions | None:
    """None where the nodes are made on this machine; `also` are flags that are taken, too."""
    launchers = list(dict.fromkeys(experiment.launcher for experiment in experiments))
    hosted = [
        name for name in launchers if name in HOST_LAUNCHERS and LAUNCHERS[name].on_hosts_only
    ]
    if args.spark_master is not None:
        hosted = hosted or ["spark"]
    taken = {name for launcher in hosted for name in HOST_LAUNCHERS[launcher].options} | {*also}
    given = {name: getattr(args, name) for name in FLAGS if getattr(args, name) is not None}
    for name in given:
        if name not in taken:
            whose = " or ".join(k for k, row in HOST_LAUNCHERS.items() if name in row.options)
            raise SpecError(f"{name} is for --launcher {whose}, not {', '.join(launchers)}")
    if not hosted:
        if any(experiment.virtual and experiment.launcher != "torch" for experiment in experiments):
            raise SpecError(
                f"virtual with --launcher {', '.join(launchers)} needs the hosts of a cluster:"
                " use --spark-master URL, or --launcher torch on this machine"
            )
        if args.patience is not None:
            raise SpecError(
                "patience is how long to wait for hosts of --launcher slurm, ray or"
                " --spark-master; leave it out"
            )
        return None
    patience_s = HOST_LAUNCHERS[hosted[0]].patience_s
    if args.patience is not None:
        try:
            patience_s = parse_duration(args.patience, "patience")
        except ValueError as error:
            raise SpecError(str(error)) from None
    return HostOptions(**given, patience_s=patience_s)
