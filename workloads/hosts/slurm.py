"""Host launcher `slurm`: one job, in which srun starts an agent on every host.

The job's script and its options are in cluster/spec/slurm_job.py, which --prepare uses, too.
"""

import os
import re
import socket
import subprocess
import time
from pathlib import Path
from typing import Self

from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.slurm_job import job_script, python_command
from workloads.hosts.agent_server import AgentServer
from workloads.hosts.fit import TORCH_PACKAGES, HostFacts, too_few_hosts
from workloads.hosts.launcher import POLL_S, HostsError, HostsLost, Request, judge

ASK_S = 1.0
"""Between two questions to Slurm's controller."""
TELL_S = 15.0
END_S = 4.0
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
UNUSABLE = ("down", "drain", "fail", "maint", "unk", "resv")


class SlurmHosts:
    """See HostLauncher."""

    packages = TORCH_PACKAGES
    chosen_by = "--host-python chooses the hosts' Python"

    def __init__(self, request: Request) -> None:
        self._request = request
        self._job: str | None = None
        self._server: AgentServer | None = None
        self._hosts: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def find_hosts(self) -> list[HostFacts]:
        request, options = self._request, self._request.options
        hosts = self._usable_hosts()
        where = (
            f"partition {options.slurm_partition}"
            if options.slurm_partition
            else "the default partition"
        )
        if len(hosts) < request.nodes:
            raise HostsError(too_few_hosts(request.nodes, len(hosts), where))
        self._server = AgentServer(own_address(hosts[0]), len(request.runs)).__enter__()
        self._job = self._submit(self._server.url)
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
        self._hosts = [f"node{k} on {agent.facts['host']}" for k, agent in enumerate(joined)]
        return [agent.facts for agent in joined]

    def execute(self, run: RunFolder, data: Path) -> None:
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
        """The agents leave by themselves; what does not is cancelled."""
        server, self._server = self._server, None
        job, self._job = self._job, None
        if server is not None:
            server.end()
        if job is not None:
            deadline = time.monotonic() + END_S
            while server is not None and server.joined and _state(job) in ("RUNNING", "COMPLETING"):
                if time.monotonic() > deadline:
                    break
                time.sleep(POLL_S)
            subprocess.run(["scancel", "--quiet", job], capture_output=True)
        if server is not None:
            server.__exit__()

    def _usable_hosts(self) -> list[str]:
        """Names of the partition's hosts that are not down or drained."""
        partition = self._request.options.slurm_partition
        command = ["sinfo", "--noheader", "--Node", "--format=%N %t %P"]
        found = _ask([*command, *([f"--partition={partition}"] if partition else [])])
        rows = [line.split() for line in found.splitlines()]
        if partition is None:  # the default one has a star
            rows = [row for row in rows if row[2].endswith("*")] or rows
        if not rows:
            named = _ask(["sinfo", "--noheader", "--format=%R"]).split()
            raise HostsError(f"there is no partition {partition!r}; there is {', '.join(named)}")
        return sorted({row[0] for row in rows if not row[1].startswith(UNUSABLE)})

    def _submit(self, url: str) -> str:
        request = self._request
        command = python_command(request.options, ["-c", BOOTSTRAP])
        script = job_script(request.options, request.nodes, [f"srun {command}"], request.log)
        submitted = subprocess.run(
            ["sbatch", "--parsable"],
            input=script,
            capture_output=True,
            text=True,
            env={**os.environ, "GRADWIRE_DRIVER": url},
        )
        if submitted.returncode:
            raise HostsError(f"sbatch: {_last(submitted.stderr)}")
        return submitted.stdout.strip().partition(";")[0]

    def _await_start(self) -> None:
        assert self._job is not None
        patience_s = self._request.options.patience_s
        began = told = time.monotonic()
        while True:
            state, reason, start = _queue(self._job)
            if state not in ("PENDING", "CONFIGURING"):
                return
            waited_s = time.monotonic() - began
            if reason in NEVER:
                raise HostsError(
                    f"job {self._job} cannot start: {reason}; is --slurm-time too long?"
                )
            if waited_s > patience_s:
                raise HostsError(
                    f"job {self._job} waited {patience_s:g} s in Slurm's queue ({reason}) and was"
                    " cancelled: wait longer with --patience, or use fewer --workers"
                )
            if time.monotonic() - told > TELL_S:
                told = time.monotonic()
                when = f", expected to start at {start}" if start != "N/A" else ""
                self._request.say(f"job {self._job} waits ({reason}){when}: {waited_s:.0f} s")
            time.sleep(min(ASK_S, max(POLL_S, patience_s / 10)))

    def _check_job(self, when: str) -> None:
        assert self._job is not None
        if (state := _state(self._job)) in ("RUNNING", "CONFIGURING"):
            return
        log = self._request.log
        said = _cause(log.read_text(errors="replace")) if log.exists() else ""
        kind = HostsLost if self._server and self._server.ended else HostsError
        raise kind(
            f"job {self._job} ended ({state}) {when}{f': {said}' if said else ''}; see {log}"
        )


def own_address(host: str) -> str:
    """This machine's address on the way to a host of the cluster."""
    shown = _ask(["scontrol", "show", "node", host])
    there = re.search(r"NodeAddr=(\S+)", shown)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent:
        try:
            unsent.connect((there[1] if there else host, 9))
        except OSError as error:
            raise HostsError(f"{host} has no address that this machine knows: {error}") from None
        return str(unsent.getsockname()[0])


def _queue(job: str) -> tuple[str, str, str]:
    """State, reason and expected start of a job."""
    found = _ask(["squeue", "--noheader", f"--job={job}", "--format=%T|%r|%S"], fails=False).strip()
    state, _, rest = found.partition("|")
    reason, _, start = rest.partition("|")
    return state or "ENDED", reason, start


def _state(job: str) -> str:
    state = _queue(job)[0]
    if state != "ENDED":
        return state
    shown = re.search(r"JobState=(\w+)", _ask(["scontrol", "show", "job", job], fails=False))
    return shown[1] if shown else state


def _ask(command: list[str], fails: bool = True) -> str:
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode and fails:
        raise HostsError(f"{command[0]}: {_last(answer.stderr)}")
    return answer.stdout


def _cause(log: str) -> str:
    """The last line of a job's output that is not of Slurm's ending it."""
    lines = [line for line in log.splitlines() if not re.match(r"srun: |.*\*\*\*", line)]
    return _last("\n".join(lines))


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else "no output"
