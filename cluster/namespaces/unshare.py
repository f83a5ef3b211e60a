"""The `unshare` command that starts a program in fresh namespaces, with or without root."""

import shutil
from pathlib import Path

CAP_SYS_ADMIN = 21


def unshare_command() -> list[str]:
    """The start of a command line that runs what follows it in the namespaces all nodes share."""
    command = [find_tool("unshare") or "unshare", "--net", "--mount"]
    command += ["--pid", "--fork", "--mount-proc"]
    if not has_sys_admin():
        command += ["--user", "--map-root-user"]
    return [*command, "--kill-child"]


def has_sys_admin() -> bool:
    """Whether this process has CAP_SYS_ADMIN. Root in a container often lacks it."""
    status = Path("/proc/self/status").read_text()
    capabilities = int(status.partition("CapEff:\t")[2].split()[0], 16)
    return bool(capabilities >> CAP_SYS_ADMIN & 1)


def find_tool(name: str) -> str | None:
    """Like `which`, and also in the sbin folders that a user's PATH may lack."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin")
