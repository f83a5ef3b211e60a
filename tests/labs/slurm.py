"""A Slurm cluster and a measure on its login host, in fresh namespaces.

    unshare --net ... python -m tests.labs.slurm HOSTS FOLDER PLAN

The arguments are those of tests.labs.hosts.Plan. Debian's packages of Slurm are those that
tests/labs/get_slurm.sh has unpacked.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cluster.namespaces import network
from tests.labs.hosts import Hosts, Plan, host_name

PACKAGES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gradwire" / "slurm"

CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={login}({address})
AuthType=auth/none
CredType=cred/none
CryptoType=crypto/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
SwitchType=switch/none
PluginDir={plugins}
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ReturnToService=2
KillWait=2
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
{nodes}
PartitionName=debug Nodes=ALL Default=YES MaxTime=60 State=UP
"""


def main(plan: Plan) -> None:
    computing, folder = plan.hosts, plan.folder
    plugins = PACKAGES / "usr/lib/x86_64-linux-gnu/slurm-wlm"
    (folder / "state").mkdir()
    configuration = folder / "slurm.conf"
    nodes = (
        f"NodeName={host_name(k)} NodeAddr={network.address(k)} CPUs=1 State=UNKNOWN"
        for k in range(computing)
    )
    configuration.write_text(
        CONFIGURATION.format(
            login=host_name(computing),
            address=network.address(computing),
            plugins=plugins,
            folder=folder,
            nodes="\n".join(nodes),
        )
    )
    os.environ["SLURM_CONF"] = str(configuration)
    os.environ["LD_LIBRARY_PATH"] = f"{plugins.parent}:{plugins}"
    sbin = PACKAGES / "usr/sbin"
    with Hosts(computing + 1, folder) as hosts:
        hosts.start(hosts.login, "slurmctld", [str(sbin / "slurmctld-wlm"), "-D", "-c"])
        for rank in range(computing):
            stepd = str(sbin / "slurmstepd-wlm")
            daemon = [str(sbin / "slurmd-wlm"), "-D", "-N", host_name(rank), "-d", stepd]
            hosts.start(rank, f"slurmd-{rank}", daemon)
        path = f"{PACKAGES / 'usr/bin'}:{os.environ['PATH']}"
        hosts.measure(plan, ["--launcher", "slurm"], {"PATH": path})


if __name__ == "__main__":
    main(Plan.parse(*sys.argv[1:]))
