"""The images of nodes: one per launcher, named after its content, built on first use.

Each is a target of docker/Dockerfile. The tag is a fingerprint of everything that goes into the
image, so an image of that name is up to date; the Compose files of compose/ use `latest`.
"""

import contextlib
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from cluster import PROJECT
from cluster.engine import EngineError
from cluster.environment import run_and_follow
from cluster.host import packages
from cluster.spec.launchers import LAUNCHERS

TARGETS = {
    **{name: facts.image for name, facts in LAUNCHERS.items() if not facts.on_hosts_only},
    "torch on GPUs": "gpu",
    "horovod on GPUs": "gpu-horovod",
    "report": "report",
}
"""Launcher, launcher on GPUs, or `report` -> target of docker/Dockerfile."""

_TORCH = "requirements-torch-locked.txt"
_GPU = ("Dockerfile", "requirements-worker-locked.txt")
_GPU_HOROVOD = (*_GPU, "build_horovod.sh", "requirements-horovod-locked.txt")
MADE_WITH = {
    "worker": (*_GPU, _TORCH),
    "horovod": (*_GPU_HOROVOD, _TORCH),
    "spark": (*_GPU_HOROVOD, _TORCH, "requirements-spark-locked.txt"),
    "gpu": _GPU,
    "gpu-horovod": _GPU_HOROVOD,
    "report": ("Dockerfile", "requirements-report-locked.txt"),
}
"""Target -> the files in docker/ that decide what is in it, beside gradwire's code."""

ON_NODES = ("cluster/spec", "cluster/links", "cluster/gpu", "workloads")
"""Packages that docker/Dockerfile copies into a node's image, beside cluster/__init__.py."""

BASES = {"gpu": ("GPU_BASE",), "gpu-horovod": ("GPU_BASE", "GPU_DEVEL_BASE")}
"""Target -> environment variables that name another base image (docker/build_image.sh)."""

REQUIREMENTS = "GRADWIRE_REQUIREMENTS"
"""For docker/build_image.sh: a folder with a requirements.txt of the user's."""

OLD_S = 24 * 3600.0
"""--clean keeps images younger than this."""

TAKES = {
    "worker": "a minute or two",
    "horovod": "about 6 minutes on 2 cores, most of it for compiling Horovod",
    "spark": "about 8 minutes on 2 cores, most of it for compiling Horovod",
    "gpu": "as long as it takes to pull PyTorch's CUDA image, some gigabytes",
    "gpu-horovod": "as long as it takes to pull PyTorch's CUDA images and to compile Horovod",
    "report": "a minute",
}


def repository(launcher: str) -> str:
    return f"gradwire-{TARGETS[launcher]}"


def name(launcher: str) -> str:
    return f"{repository(launcher)}:{fingerprint(launcher)}"


def sources(launcher: str) -> list[Path]:
    """Every file that goes into a launcher's image."""
    files = [(PROJECT / "docker" / file).resolve() for file in MADE_WITH[TARGETS[launcher]]]
    if launcher == "report":
        folders = [PROJECT / name for name in ("cluster", "workloads", "analysis")]
        found = {path for folder in folders for path in folder.rglob("*") if path.is_file()}
        return files + sorted(path for path in found if "__pycache__" not in path.parts)
    return files + [
        path for folder in ON_NODES for path in sorted((PROJECT / folder).rglob("*.py"))
    ]


def fingerprint(launcher: str) -> str:
    """A digest of all sources of an image: the same fingerprint means the same content."""
    digest = hashlib.sha256()
    for file in sources(launcher):
        digest.update(str(file.relative_to(PROJECT)).encode() + b"\0" + file.read_bytes() + b"\0")
    for variable in BASES.get(TARGETS[launcher], ()):
        if base := os.environ.get(variable):
            digest.update(f"{variable}={base}\0".encode())
    return digest.hexdigest()[:12]


def ensure(launcher: str, docker: Any, say: Callable[[str], None]) -> str:
    """Build the launcher's image if the engine does not have it; its name."""
    image = name(launcher)
    if docker.images.list(name=image):
        # `latest` may be an image of another checkout.
        docker.images.get(image).tag(repository(launcher), "latest")
    else:
        build(launcher, say)
    return image


def ensure_with_packages(
    launcher: str, requirements: Path, docker: Any, say: Callable[[str], None]
) -> str:
    """The launcher's image with the packages of a requirements file as a layer; its name."""
    text = packages.read(requirements)
    image = (
        f"{repository(launcher)}-with-packages:{fingerprint(launcher)}-{packages.fingerprint(text)}"
    )
    if not docker.images.list(name=image):
        say(f"building the image {image}, with the packages of {requirements}")
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "requirements.txt").write_text(text)
            target, variables = f"{TARGETS[launcher]}-with-packages", {REQUIREMENTS: folder}
            _build(target, [image], say, variables)
    return image


def remove_old(docker: Any, used: Iterable[str], age_s: float = OLD_S) -> list[str]:
    """Remove images of earlier sources, but for young ones and those in use; their names.

    The sources of another checkout may build a young one.
    """
    from docker.errors import APIError

    kept = {*used, *(name(launcher) for launcher in TARGETS)}
    removed = []
    for tag, tag_age_s in _tags(docker):
        if tag not in kept and tag_age_s > age_s:
            with contextlib.suppress(APIError):  # a container uses it
                docker.images.remove(tag)
                removed.append(tag)
    return removed


def _tags(docker: Any) -> Iterator[tuple[str, float]]:
    """Every image that is named after its content, and its age in seconds."""
    for launcher in TARGETS:
        pattern = rf"{repository(launcher)}:[0-9a-f]{{12}}"
        for found in docker.images.list(name=repository(launcher)):
            age_s = time.time() - datetime.fromisoformat(found.attrs["Created"]).timestamp()
            yield from ((tag, age_s) for tag in found.tags if re.fullmatch(pattern, tag))


def build(launcher: str, say: Callable[[str], None]) -> None:
    target = TARGETS[launcher]
    say(f"building the image {name(launcher)} (the first time this takes {TAKES[target]})")
    _build(target, [name(launcher), f"{repository(launcher)}:latest"], say, {})


def _build(
    target: str, tags: list[str], say: Callable[[str], None], variables: dict[str, str]
) -> None:
    lines: list[str] = []

    def follow(line: str) -> None:
        lines.append(line)
        if (text := progress(line)) is not None:
            say(f"  {text}")

    command = ["env", *(f"{name}={value}" for name, value in variables.items())]
    command += [str(PROJECT / "docker" / "build_image.sh"), target, *tags]
    if run_and_follow(command, follow):
        raise EngineError("the image could not be built:\n" + "\n".join(lines[-15:]))


def progress(line: str) -> str | None:
    """A line of the build's output in short, where it begins a step or tells Horovod's progress."""
    step = re.match(r"#\d+ \[([a-z-]+ +\d+/\d+)\]", line)
    if step:
        return " ".join(step[1].split())
    horovod = re.match(r"#\d+ [\d.]+ build_horovod: (.+)", line)
    return f"horovod: {horovod[1]}" if horovod else None
