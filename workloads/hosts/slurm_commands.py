"""Slurm's commands: what they answer of hosts and jobs. HostsError where one cannot."""

import os
import re
import socket
import subprocess

from workloads.hosts.launcher import HostsError

UNUSABLE = ("down", "drain", "fail", "maint", "unk", "resv")


def usable_hosts(partition: str | None) -> list[str]:
    """Names of a partition's hosts, by default of the default one, that are not down or drained."""
    command = ["sinfo", "--noheader", "--Node", "--format=%N %t %P"]
    found = ask([*command, *([f"--partition={partition}"] if partition else [])])
    rows = [line.split() for line in found.splitlines()]
    if partition is None:  # the default one has a star
        rows = [row for row in rows if row[2].endswith("*")] or rows
    if not rows:
        named = ask(["sinfo", "--noheader", "--format=%R"]).split()
        raise HostsError(f"there is no partition {partition!r}; there is {', '.join(named)}")
    return sorted({row[0] for row in rows if not row[1].startswith(UNUSABLE)})


def submit(script: str, **variables: str) -> str:
    """The job's number."""
    submitted = subprocess.run(
        ["sbatch", "--parsable"],
        input=script,
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )
    if submitted.returncode:
        raise HostsError(f"sbatch: {_last(submitted.stderr)}")
    return submitted.stdout.strip().partition(";")[0]


def cancel(job: str) -> None:
    subprocess.run(["scancel", "--quiet", job], capture_output=True)


def own_address(host: str) -> str:
    """This machine's address on the way to a host of the cluster."""
    shown = ask(["scontrol", "show", "node", host])
    there = re.search(r"NodeAddr=(\S+)", shown)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unsent:
        try:
            unsent.connect((there[1] if there else host, 9))
        except OSError as error:
            raise HostsError(f"{host} has no address that this machine knows: {error}") from None
        return str(unsent.getsockname()[0])


def queue_of(job: str) -> tuple[str, str, str]:
    """State, reason and expected start of a job."""
    found = ask(["squeue", "--noheader", f"--job={job}", "--format=%T|%r|%S"], fails=False).strip()
    state, _, rest = found.partition("|")
    reason, _, start = rest.partition("|")
    return state or "ENDED", reason, start


def state_of(job: str) -> str:
    state = queue_of(job)[0]
    if state != "ENDED":
        return state
    shown = re.search(r"JobState=(\w+)", ask(["scontrol", "show", "job", job], fails=False))
    return shown[1] if shown else state


def ask(command: list[str], fails: bool = True) -> str:
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode and fails:
        raise HostsError(f"{command[0]}: {_last(answer.stderr)}")
    return answer.stdout


def cause_of(log: str) -> str:
    """The last line of a job's output that is not of Slurm's ending it."""
    lines = [line for line in log.splitlines() if not re.match(r"srun: |.*\*\*\*", line)]
    return _last("\n".join(lines))


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else "no output"
