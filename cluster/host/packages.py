"""--requirements FILE: packages that nodes have beside torch, installed once for each content.

For namespaces they are a private environment on this machine, below the cache; an image has them as
a layer (cluster/containers/image.py). Only wheels: building a package would run its code here.
"""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

from cluster.engine import EngineUnavailable
from cluster.environment import run_and_follow
from cluster.spec.errors import SpecError

VARIABLE = "GRADWIRE_PACKAGES"
"""In nodes: the folder with the packages."""
LINE = re.compile(r"[A-Za-z0-9][\w.-]*\s*(\[[\w,\s.-]*\])?\s*([=<>!~][^@]*)?(;.*)?")
LONGEST_BYTES = 100_000


def read(requirements: Path) -> str:
    """The packages that a file names; SpecError for a line that is not just a package."""
    try:
        text = requirements.read_text(encoding="utf-8")[:LONGEST_BYTES]
    except (OSError, ValueError) as error:
        raise SpecError(f"requirements {requirements}: {error}") from None
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    for number, line in enumerate(lines, 1):
        if line and not LINE.fullmatch(line):
            raise SpecError(
                f"requirements {requirements}, line {number}: {line!r} is no package with a"
                " version, such as einops==0.8.1; wheels of a package index are installed, nothing"
                " else"
            )
    found = [line for line in lines if line]
    if not found:
        raise SpecError(f"requirements {requirements} names no package")
    return "\n".join(found) + "\n"


def fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def ensure(requirements: Path, say: Callable[[str], None]) -> Path:
    """The folder with these packages for this Python, installed on first use."""
    text = read(requirements)
    environment = _cache() / fingerprint(f"{sys.version} {sys.prefix} {text}")
    folder = Path(sysconfig.get_path("purelib", "venv", {"base": str(environment)}))
    if (environment / "complete").exists():
        return folder
    say(f"installing the packages of {requirements}")
    environment.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=environment.parent) as made:
        _install(Path(made), text, say)
        (Path(made) / "complete").touch()
        os.chmod(made, 0o755)
        with contextlib.suppress(OSError):  # another measure was faster
            shutil.copytree(made, environment, symlinks=True)
    return folder


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "gradwire" / "packages"


def _install(environment: Path, text: str, say: Callable[[str], None]) -> None:
    """An environment that sees this Python's packages: torch is not installed again."""
    made = [sys.executable, "-m", "venv", "--without-pip", str(environment)]
    subprocess.run(made, check=True, capture_output=True)
    folder = Path(sysconfig.get_path("purelib", "venv", {"base": str(environment)}))
    (folder / "gradwire.pth").write_text(sysconfig.get_path("purelib") + "\n")
    listed = environment / "requirements.txt"
    listed.write_text(text)
    command = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")]
    command += ["install", "--quiet", "--disable-pip-version-check", "--no-input"]
    said: list[str] = []
    failed = run_and_follow(
        [*command, "--only-binary", ":all:", "--requirement", str(listed)], said.append
    )
    (folder / "gradwire.pth").unlink()
    if failed:
        errors = [line for line in said if line.startswith("ERROR")] or said or ["no message"]
        raise EngineUnavailable(
            f"requirements: the packages could not be installed: {errors[-1]}; is a package index"
            " reachable, and is there a wheel for this Python?"
        )
