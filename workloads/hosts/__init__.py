"""Host launchers: start the worker once on each host, and bring back what it writes.

The driver (driver.py) runs where ./measure.sh does; cluster/existing starts it.

    driver  --launcher-->  agent on each host  --starts-->  workloads.worker
    driver  <--events, heartbeats, logs, model--  agent

A launcher is an adapter of HostLauncher: spark.py, slurm.py, ray.py.
"""
