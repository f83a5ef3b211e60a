"""One run, or one worker's part of it, in a Spark task: its input comes from the driver over HTTP.

Ranks are Horovod's.
"""

import os
from pathlib import Path

from cluster.spec.documents.run_folder import RunFolder, node_name
from workloads.hosts.agent import Agent, Membership, send_model
from workloads.hosts.remote_agent import DriverLine, fetch_data
from workloads.hosts.sent_log import SentLog
from workloads.worker import Settings, run_once


def train(driver: str, folder: Path, workers_on_host: int) -> None:
    """Execute a run in a temporary folder; `workers_on_host` of its workers are on this host."""
    rank = int(os.environ["HOROVOD_RANK"])
    line = DriverLine(driver)
    run = RunFolder(folder / "run").create()
    run.spec.write_bytes(line.get("spec")[1])
    # For this run only: Spark would leave its own copies on the workers.
    (folder / "data").mkdir()
    fetch_data(line, folder / "data")
    settings = Settings(rank, (run,), record=True, data_folder=folder / "data")

    def send(kind: str, body: bytes) -> None:
        line.put(f"{kind}/{rank}", body)

    log = SentLog(None, node_name(rank), lambda body: send("events", body), workers_on_host)
    run_once(run, settings, log)
    if rank == 0:
        send_model(run.model, send)


def execute_alone(driver: str, folder: Path) -> int:
    """A whole run of virtual workers, by a process of its own: this one has Spark's."""
    line = DriverLine(driver)

    def send(kind: str, body: bytes) -> None:
        line.put(f"{kind}/0", body)

    alone = Membership(rank=0, runs=1, master_addr="127.0.0.1", master_port=0)
    agent = Agent(alone, folder, send, str(folder / "code.zip"), folder / "data")
    try:
        agent.data.mkdir()
        fetch_data(line, agent.data)
        return agent.execute(line.get("spec")[1].decode())
    finally:
        agent.close()
