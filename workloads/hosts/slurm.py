"""Host launcher `slurm`: one job, in which srun starts an agent on every host.

The job's script and its options are in cluster/spec/slurm_job.py, which --prepare uses, too.
"""

import threading
import time
from pathlib import Path
from typing import Self

from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.slurm_job import job_script, python_command
from workloads.hosts.agent_server import AgentServer
from workloads.hosts.fit import TORCH_PACKAGES, HostFacts, too_few_hosts
from workloads.hosts.launcher import (
    ASK_S,
    POLL_S,
    HostsError,
    HostsLost,
    Patience,
    Request,
    judge,
    named,
)
from workloads.hosts.slurm_commands import (
    cancel,
    cause_of,
    own_address,
    queue_of,
    state_of,
    submit,
    usable_hosts,
)

END_S = 6.0
"""For agents to leave: the next heartbeat of one that executes a run is told that it is over."""
START_S = 120.0
"""From the start of the job until all agents have come."""
NEVER = (
    *("PartitionNodeLimit", "PartitionTimeLimit", "PartitionDown", "BadConstraints"),
    *("AccountNotAllowed", "QOSNotAllowed", "AssociationJobLimit", "InvalidAccount"),
)
"""Reasons for which a job that waits never starts."""
BOOTSTRAP = (
    "import os,urllib.request as u;"
    "d=u.build_opener(u.ProxyHandler({}));"
    "exec(d.open(os.environ['GRADWIRE_DRIVER']+'/entry',timeout=60).read())"
)


class SlurmHosts:
    """See HostLauncher."""

    packages = TORCH_PACKAGES
    chosen_by = "--host-python chooses the hosts' Python"

    def __init__(self, request: Request) -> None:
        self._request = request
        self._job: str | None = None
        self._server: AgentServer | None = None
        self._hosts: list[str] = []
        self._closing = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def find_hosts(self) -> list[HostFacts]:
        request, options = self._request, self._request.options
        hosts = usable_hosts(options.slurm_partition)
        where = (
            f"partition {options.slurm_partition}"
            if options.slurm_partition
            else "the default partition"
        )
        if len(hosts) < request.nodes:
            raise HostsError(too_few_hosts(request.nodes, len(hosts), where))
        self._server = AgentServer(own_address(hosts[0]), len(request.runs)).__enter__()
        command = python_command(options, ["-c", BOOTSTRAP])
        script = job_script(options, request.nodes, [f"srun {command}"], request.log)
        self._job = submit(script, GRADWIRE_DRIVER=self._server.url)
        request.say(f"job {self._job} of {request.nodes} hosts is in Slurm's queue ({where})")
        self._await_start()
        deadline = time.monotonic() + START_S
        while len(joined := self._server.joined) < request.nodes:
            self._check_job(f"before all of its hosts had come ({len(joined)} had)")
            if time.monotonic() > deadline:
                raise HostsError(
                    f"{len(joined)} of {request.nodes} hosts of job {self._job} came within"
                    f" {START_S:g} s: do hosts reach {self._server.url.rpartition('/')[0]}?"
                )
            time.sleep(POLL_S)
        self._server.assign(joined)
        facts = [agent.facts for agent in joined]
        self._hosts = named(facts, request)
        return facts

    def execute(self, run: RunFolder, data: Path, host: int | None = None) -> None:
        assert host is None  # runs of virtual workers are refused
        assert self._server is not None
        nodes = run.read_experiment().nodes
        self._server.begin(run, data)
        asked_at = time.monotonic()
        while len(self._server.ended) < self._request.nodes:
            lost = self._server.lost
            for rank, how in lost.items() if len(lost) < self._request.nodes else ():
                raise HostsLost(f"{self._hosts[rank]} is gone: {how}")
            if time.monotonic() - asked_at > ASK_S:
                asked_at = time.monotonic()
                self._check_job("while a run was on")
            time.sleep(POLL_S)
        judge([self._server.ended[rank] for rank in range(nodes)], self._hosts)

    def close(self) -> None:
        """The agents leave by themselves; what does not is cancelled.

        Who calls it while another thread does waits for that: the driver ends after it.
        """
        with self._closing:
            self._close()

    def _close(self) -> None:
        server, self._server = self._server, None
        job, self._job = self._job, None
        if server is not None:
            server.end()
        if job is not None:
            deadline = time.monotonic() + END_S
            while server is not None and server.joined and time.monotonic() < deadline:
                if server.has_ended or state_of(job) not in ("RUNNING", "COMPLETING"):
                    break
                time.sleep(POLL_S)
            cancel(job)
        if server is not None:
            server.__exit__()

    def _await_start(self) -> None:
        assert self._job is not None
        patience = Patience(self._request)
        while True:
            state, reason, start = queue_of(self._job)
            if state not in ("PENDING", "CONFIGURING"):
                return
            if reason in NEVER:
                raise HostsError(
                    f"job {self._job} cannot start: {reason}; is --slurm-time too long?"
                )
            if patience.is_over:
                raise HostsError(
                    f"job {self._job} waited {patience.limit_s:g} s in Slurm's queue ({reason}) and"
                    " was cancelled: wait longer with --patience, or use fewer --workers"
                )
            when = f", expected to start at {start}" if start != "N/A" else ""
            patience.tell(f"job {self._job} waits ({reason}){when}")
            time.sleep(patience.pause_s)

    def _check_job(self, when: str) -> None:
        assert self._job is not None
        if (state := state_of(self._job)) in ("RUNNING", "CONFIGURING"):
            return
        log = self._request.log
        said = cause_of(log.read_text(errors="replace")) if log.exists() else ""
        kind = HostsLost if self._server and self._server.ended else HostsError
        raise kind(
            f"job {self._job} ended ({state}) {when}{f': {said}' if said else ''}; see {log}"
        )
