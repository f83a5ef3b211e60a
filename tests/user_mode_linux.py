"""A kernel with netem where this one has none: Debian's user-mode-linux, run as a process.

It needs no virtual machine. Its root is this machine's own file system, where it finds the project,
this Python and tc; /run and the folder of temporary files are its own. The package is taken from
PATH, or fetched by apt (not installed) into the user's cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.measuring import PROJECT

PACKAGE, PROGRAM = "user-mode-linux", "linux.uml"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gradwire" / PACKAGE
MEMORY = "1G"
TIMEOUT_S = 600
SCRIPT = """#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys
mount -t tmpfs none /run
ip link set lo up
export TMPDIR={folder}
cd {project}
{command} > {output} 2>&1
echo o > /proc/sysrq-trigger
sleep 60
"""


class NotThere(Exception):
    """This machine cannot run it; the message says why."""


@dataclass(frozen=True)
class UserModeLinux:
    program: Path
    modules: Path
    """The folder with the kernel's modules, by version."""

    def run(self, module: str, *arguments: str, folder: Path) -> list[str]:
        """What `python -m module` prints, run as root in a boot of its own."""
        output, script = folder / "output", folder / "init"
        output.touch()
        command = " ".join([sys.executable, "-m", module, *arguments])
        text = SCRIPT.format(project=PROJECT, folder=folder, command=command, output=output)
        script.write_text(text)
        script.chmod(0o755)
        boot = [str(self.program), f"mem={MEMORY}", "rootfstype=hostfs", "rootflags=/", "rw"]
        boot += [f"init={script}", "con=null", "con0=fd:0,fd:1", "quiet"]
        subprocess.run(
            boot, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False
        )
        return output.read_text().splitlines()


def find() -> UserModeLinux:
    """NotThere where it is neither installed nor to be had."""
    if os.geteuid() != 0:
        raise NotThere("what boots from this machine's file system must be able to read it as root")
    if installed := shutil.which(PROGRAM):
        return UserModeLinux(Path(installed), Path("/usr/lib/uml/modules"))
    fetched = UserModeLinux(CACHE / "usr/bin" / PROGRAM, CACHE / "usr/lib/uml/modules")
    if not fetched.program.exists():
        _fetch()
    return fetched


def _fetch() -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    try:
        for command in (["apt-get", "download", PACKAGE], ["dpkg", "--version"]):
            subprocess.run(command, cwd=CACHE, check=True, capture_output=True, timeout=300)
        (package,) = CACHE.glob("*.deb")
        subprocess.run(["dpkg", "-x", package, CACHE], check=True, capture_output=True, timeout=300)
        package.unlink()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error).encode()
        raise NotThere(f"{PACKAGE} cannot be fetched: {said.decode().strip()[-200:]}") from error
