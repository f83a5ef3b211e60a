"""The machine and its software: what a run was made with, and what launchers need on the host."""

import contextlib
import importlib
import os
import platform
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from cluster import PROJECT
from cluster.engine import EngineUnavailable
from cluster.host.ownership import tied
from cluster.spec.documents.codec import Options
from cluster.spec.documents.environment import Environment
from cluster.spec.documents.run_folder import write_at_once
from cluster.spec.launchers import LAUNCHERS

PACKAGES = (
    *("torch", "docker", "psutil", "pandas", "numpy", "PyYAML", "rich", "plotly"),
    *("horovod", "pyspark"),
)


def need(kind: str, say: Callable[[str], None]) -> None:
    """Prepare this Python for launcher `horovod`, `spark` or `ray`, installing what is missing.

    EngineUnavailable, with the reason and the way out, where that fails.
    """
    _check_java(kind)
    if _lacking(kind):
        _set_up(kind, say)
        importlib.invalidate_caches()
    if lacking := _lacking(kind):
        raise EngineUnavailable(
            f"launcher {kind}: {sys.executable} has no {' and no '.join(lacking)} for its torch;"
            " start with ./measure.sh, which has a Python of its own"
        )


def readiness(kind: str) -> str:
    """Versions of a launcher's packages on the host; containers have their own."""
    _check_java(kind)
    if _lacking(kind):
        compiles = "horovod" in LAUNCHERS[kind].packages
        return "is set up on first use" + ("; compiling Horovod takes 4 minutes" * compiles)
    return ", ".join(f"{name} {_version(name)}" for name in LAUNCHERS[kind].packages)


def _check_java(kind: str) -> None:
    if kind == "spark" and not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise EngineUnavailable(
            "launcher spark: there is no Java on this machine; install Java 17"
            " (on Debian: apt-get install openjdk-17-jre-headless)"
        )


def _lacking(kind: str) -> list[str]:
    """Packages that are missing, and Horovod where it was built for another version of torch."""
    lacking = [name for name in LAUNCHERS[kind].packages if _version(name) is None]
    _, _, built_for = (_version("horovod") or "").partition("+torch")
    torch = (_version("torch") or "").partition("+")[0]
    return ["horovod"] if built_for and built_for != torch and not lacking else lacking


def _set_up(kind: str, say: Callable[[str], None]) -> None:
    said = ["the set-up failed without a message"]

    def follow(line: str) -> None:
        said.append(line.strip() or said[-1])
        say(f"  {line}")

    if run_and_follow(["bash", str(PROJECT / "cluster" / "environment.sh"), kind], follow):
        reason = said[-1].removeprefix("gradwire: ").removeprefix("build_horovod: ")
        raise EngineUnavailable(f"launcher {kind}: {reason}")


def run_and_follow(command: list[str], follow: Callable[[str], None]) -> int:
    """The exit code of a command; `follow` gets every line of its output as it is printed."""
    process = subprocess.Popen(
        tied(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        bufsize=1,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            follow(line.rstrip())
    except BaseException:
        process.terminate()
        raise
    finally:
        process.wait()
    return process.returncode


def describe(command: list[str], engine: Options) -> Environment:
    return Environment(
        command=command,
        engine=engine,
        commit=_commit(),
        kernel=platform.release(),
        system=platform.platform(),
        machine=platform.machine(),
        cpu=_cpu_model(),
        cores=os.cpu_count(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        python=platform.python_version(),
        packages={name: _version(name) for name in PACKAGES},
    )


def version() -> str:
    """Of this project, with the checkout's commit where there is one."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    commit = _commit()
    return f"{project['version']}, commit {commit}" if commit else str(project["version"])


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The checkout's commit, with + where files differ; None outside a checkout or without git."""
    if shutil.which("git") is None:
        return None
    answer = subprocess.run(
        ["git", "-C", str(PROJECT), "describe", "--always", "--dirty=+", "--abbrev=12"],
        capture_output=True,
        text=True,
    )
    return answer.stdout.strip() or None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def note_data_folder(data_folder: Path) -> None:
    """Write the data folder of this machine into compose/.env, for Compose files started by hand.

    Other lines of that file are the user's own.
    """
    if data_folder.name != "mnist":
        return
    path = PROJECT / "compose" / ".env"
    with contextlib.suppress(OSError):
        before = path.read_text() if path.exists() else ""
        kept = [line for line in before.splitlines() if not line.startswith("GRADWIRE_DATA_DIR=")]
        text = "\n".join([*kept, f"GRADWIRE_DATA_DIR={data_folder.parent}"]) + "\n"
        if text != before:  # Compose, or another measure, may be reading it
            write_at_once(path, text)
