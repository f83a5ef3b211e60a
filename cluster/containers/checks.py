"""What a Docker engine has to be able to do before a cluster is raised, and the way to it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from cluster.engine import EngineUnavailable, check_cores, check_memory
from cluster.namespaces import cgroups as limits
from cluster.spec.errors import SpecError

CDI_GPU = "nvidia.com/gpu="
GPU_HOOK = "nvidia-container-runtime-hook"
HOW_TO_GET_ONE = "install Docker with Compose v2 (on Debian: docker/install_engine.sh as root), or use --engine netns"


def check(nodes: int = 1, cpus: float | None = None, total_memory: int | None = None) -> str:
    """The engine's version; EngineUnavailable, with the way out, where no cluster could be raised."""
    if shutil.which("docker") is None:
        raise EngineUnavailable(
            f"engine docker: there is no 'docker' command; {HOW_TO_GET_ONE}", "no docker command"
        )
    try:
        about = client().info()
    except Exception as error:
        denied = "permission denied" in str(error).lower()
        reason = "no permission to talk to Docker" if denied else "no Docker engine answers"
        way_out = "add yourself to the group docker" if denied else HOW_TO_GET_ONE
        raise EngineUnavailable(f"engine docker: {reason}; {way_out}", reason) from None
    for plugin in ("compose", "buildx"):
        if subprocess.run(["docker", plugin, "version"], capture_output=True).returncode != 0:
            raise EngineUnavailable(
                f"engine docker: 'docker {plugin}' is missing; {HOW_TO_GET_ONE}",
                f"docker has no {plugin}",
            )
    _check_size(nodes)
    check_cores(cpus, about["NCPU"])
    check_memory(total_memory, about["MemTotal"])
    if total_memory is not None:
        _check_memory_limits(about)
    return f"version {about['ServerVersion']}"


def check_gpus(wanted: int) -> str:
    """How GPUs reach containers; EngineUnavailable, with what was looked for, where they do not."""
    about = client().info()
    runtime = "nvidia" in about.get("Runtimes", {})
    listed = [str(one.get("ID")) for one in about.get("DiscoveredDevices") or []]
    by_name = [one for one in listed if one.startswith(CDI_GPU)]
    seen = _gpus_of_this_machine()
    hook = (
        shutil.which(GPU_HOOK) is not None
    )  # of an engine on this machine: enough without a runtime
    if not runtime and not by_name and not hook:
        here = "no nvidia-smi on this machine" if seen is None else f"nvidia-smi lists {seen} here"
        raise EngineUnavailable(
            "gpu: no GPU is visible to Docker: looked for a runtime 'nvidia' and for CDI devices"
            f" '{CDI_GPU}' in 'docker info' and for {GPU_HOOK}, found none ({here}); install the NVIDIA driver and the"
            " NVIDIA container toolkit (docs/gpu.md)"
        )
    if seen is not None and seen < wanted:
        raise SpecError(
            f"gpu: a run has {wanted} nodes, and needs a GPU for each: nvidia-smi lists {seen}"
        )
    return "the NVIDIA container toolkit" if runtime or hook else f"CDI: {', '.join(by_name)}"


def _gpus_of_this_machine() -> int | None:
    """None where nobody can say: no driver, or the engine is on another machine."""
    if shutil.which("nvidia-smi") is None:
        return None
    answer = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True)
    return sum(line.startswith("GPU ") for line in answer.stdout.splitlines())


def client() -> Any:
    """The engine that the docker command talks to; a context may name another than the default."""
    import docker

    host = os.environ.get("DOCKER_HOST")
    if not host:
        command = ["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]
        host = subprocess.run(command, capture_output=True, text=True).stdout.strip() or None
    return docker.DockerClient(base_url=host, timeout=30)


def _check_size(nodes: int) -> None:
    """Every node knows every other: N (N-1) entries in the kernel's neighbour table, shared by all."""
    try:
        most = int(Path("/proc/sys/net/ipv4/neigh/default/gc_thresh3").read_text())
    except OSError:
        return
    if nodes * (nodes + 1) > most:
        raise EngineUnavailable(
            f"engine docker: {nodes} containers overflow this kernel's neighbour table of {most}"
            f" entries: use --engine netns, or 'sysctl -w"
            f" net.ipv4.neigh.default.gc_thresh3={2 * nodes * nodes}'"
        )


def _check_memory_limits(about: dict[str, Any]) -> None:
    """Docker itself would warn and go on without."""
    if not about["MemoryLimit"]:
        raise EngineUnavailable(
            "total_memory: this Docker engine cannot limit memory, its kernel has no memory controller;"
            " on Debian start the kernel with cgroup_enable=memory, or use --total-memory none"
        )
    limits.check_swap(about["SwapLimit"])
