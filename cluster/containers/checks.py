"""What a Docker engine must be able to do before a cluster starts, and how to get one."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cluster.containers.projects import client
from cluster.engine import EngineUnavailable, check_limits
from cluster.host.cgroups import check_swap
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment

CDI_GPU = "nvidia.com/gpu="
GPU_HOOK = "nvidia-container-runtime-hook"
INSTALL = (
    "install Docker with Compose v2 (on Debian: docker/install_engine.sh as root),"
    " or use --engine netns"
)


@dataclass(frozen=True)
class DockerInfo:
    """What `docker info` tells about an engine's machine."""

    version: str
    cores: int
    memory_bytes: int
    limits_memory: bool
    limits_swap: bool

    @classmethod
    def read(cls) -> Self:
        """EngineUnavailable where no engine answers."""
        try:
            info = client().info()
        except Exception as error:
            denied = "permission denied" in str(error).lower()
            reason = "no permission to use Docker" if denied else "no Docker engine answers"
            way_out = "add yourself to the group docker" if denied else INSTALL
            raise EngineUnavailable(f"engine docker: {reason}; {way_out}", reason) from None
        limits = info["MemoryLimit"], info["SwapLimit"]
        return cls(info["ServerVersion"], info["NCPU"], info["MemTotal"], *limits)


def check_docker(experiments: Sequence[Experiment]) -> str:
    """The engine's version; EngineUnavailable, with the way out, where no cluster could start."""
    if shutil.which("docker") is None:
        raise EngineUnavailable(
            f"engine docker: there is no 'docker' command; {INSTALL}", "no docker command"
        )
    info = DockerInfo.read()
    for plugin in ("compose", "buildx"):
        if subprocess.run(["docker", plugin, "version"], capture_output=True).returncode != 0:
            raise EngineUnavailable(
                f"engine docker: 'docker {plugin}' is missing; {INSTALL}", f"docker has no {plugin}"
            )
    _check_neighbour_table(max((len(e.node_names) for e in experiments), default=1))
    _, memory_bytes = check_limits(experiments, info.cores, info.memory_bytes)
    if memory_bytes is not None:
        _check_memory_limits(info)
    return f"version {info.version}"


def _check_neighbour_table(nodes: int) -> None:
    """Every node knows every other: N (N-1) entries in the kernel's neighbour table for all."""
    try:
        size = int(Path("/proc/sys/net/ipv4/neigh/default/gc_thresh3").read_text())
    except OSError:
        return
    if nodes * (nodes + 1) > size:
        raise EngineUnavailable(
            f"engine docker: {nodes} containers overflow this kernel's neighbour table of {size}"
            f" entries: use --engine netns, or 'sysctl -w"
            f" net.ipv4.neigh.default.gc_thresh3={2 * nodes * nodes}'"
        )


def _check_memory_limits(info: DockerInfo) -> None:
    """Docker itself only warns and runs the container without a limit."""
    if not info.limits_memory:
        raise EngineUnavailable(
            "total_memory: this Docker engine cannot limit memory, its kernel has no memory"
            " controller; on Debian start the kernel with cgroup_enable=memory, or use"
            " --total-memory none"
        )
    check_swap(info.limits_swap)


@dataclass(frozen=True)
class GpuAccess:
    """The ways by which GPUs can reach containers, as far as they are found."""

    runtime: bool
    """`docker info` lists the runtime 'nvidia'."""
    hook: bool
    """The toolkit's hook is installed on this machine: enough without a runtime."""
    devices: tuple[str, ...]
    """CDI names of GPUs that `docker info` lists."""

    @classmethod
    def find(cls) -> Self:
        info = client().info()
        names = [str(device.get("ID")) for device in info.get("DiscoveredDevices") or []]
        return cls(
            runtime="nvidia" in info.get("Runtimes", {}),
            hook=shutil.which(GPU_HOOK) is not None,
            devices=tuple(name for name in names if name.startswith(CDI_GPU)),
        )

    def __str__(self) -> str:
        if self.runtime or self.hook:
            return "the NVIDIA container toolkit"
        return f"CDI: {', '.join(self.devices)}"


def check_gpus(wanted: int) -> str:
    """How GPUs reach containers; EngineUnavailable, with what was looked for, where they do not."""
    access = GpuAccess.find()
    count = _gpus_of_this_machine()
    if not access.runtime and not access.hook and not access.devices:
        here = "no nvidia-smi on this machine"
        if count is not None:
            here = f"nvidia-smi lists {count} here"
        raise EngineUnavailable(
            "gpu: no GPU is visible to Docker: looked for a runtime 'nvidia' and for CDI devices"
            f" '{CDI_GPU}' in 'docker info' and for {GPU_HOOK}, found none ({here}); install the"
            " NVIDIA driver and the NVIDIA container toolkit (docs/gpu.md)"
        )
    if count is not None and count < wanted:
        raise SpecError(
            f"gpu: a run has {wanted} nodes, and needs a GPU for each: nvidia-smi lists {count}"
        )
    return str(access)


def _gpus_of_this_machine() -> int | None:
    """How many GPUs nvidia-smi lists; None without it: no driver, or the engine is remote."""
    if shutil.which("nvidia-smi") is None:
        return None
    answer = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True)
    return sum(line.startswith("GPU ") for line in answer.stdout.splitlines())
