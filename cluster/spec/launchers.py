"""Launchers: what starts the workers and carries their exchanges. Standard library only."""

from dataclasses import dataclass, field

from cluster.spec.exchange.strategies import STRATEGIES

MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """What a launcher has, what it needs, and what it cannot do."""

    summary: str
    peers: str
    """Module of workloads whose join() connects a worker to the others."""
    image: str
    """Target of docker/Dockerfile. Images are nested: each contains those of the rows above."""
    packages: tuple[str, ...] = ()
    """Python packages needed beside torch where workers or their driver run on the host."""
    has: tuple[str, ...] | None = None
    """Names of its strategies; None: all of them."""
    offers: str = ""
    """The operations it carries: why it does not have every strategy."""
    imports: tuple[str, ...] = ()
    """Slow modules that workers import: imported once before workers are forked."""
    least_memory: int = 256 * MIB
    """Bytes in which a worker with a small model just runs, in a container of its own."""
    auxiliary_services: tuple[str, ...] = ()
    """Names of nodes that do not train."""
    event_writers: tuple[str, ...] = ()
    """The auxiliary services that write events as workers do."""
    on_hosts_only: bool = False
    """Whether its nodes are always hosts that are already there."""
    spreads_virtual: bool = False
    """Whether hosts of its clusters carry out runs of virtual workers."""
    refuses: dict[str, str] = field(default_factory=dict)
    """Option, or option=value -> why it does not apply."""

    @property
    def is_torch(self) -> bool:
        """Whether torch.distributed carries the exchanges."""
        return self.peers == TORCH_PEERS

    @property
    def strategies(self) -> tuple[str, ...]:
        return tuple(STRATEGIES) if self.has is None else self.has


HOROVOD_HAS = ("single", "allreduce", "allgather", "gather-scatter", "pairwise", "local-sgd")
"""The functions of workloads/launchers/horovod_exchange.py."""
HOROVOD_OFFERS = "it carries only Horovod's own all-reduce, all-gather and all-to-all"
TORCH_PEERS = "workloads.launchers.torch_peers"
HOROVOD_PEERS = "workloads.launchers.horovod_peers"
TORCH_REFUSES = {"timeline": "which has none; Horovod has"}
HOROVOD_REFUSES = {
    "compress=bf16": "which halves numbers to fp16 only",
    "overlap": "which lets all-reduces of gradients overlap by itself, and nothing else",
}

LAUNCHERS: dict[str, Launcher] = {
    "torch": Launcher(
        summary="torch.distributed, on Gloo",
        peers=TORCH_PEERS,
        image="worker",
        refuses=TORCH_REFUSES,
    ),
    "horovod": Launcher(
        summary="Horovod, on Gloo",
        peers=HOROVOD_PEERS,
        image="horovod",
        packages=("horovod",),
        has=HOROVOD_HAS,
        offers=HOROVOD_OFFERS,
        imports=("torch._dynamo", "horovod.torch", HOROVOD_PEERS),
        least_memory=350 * MIB,
        refuses=HOROVOD_REFUSES,
    ),
    "spark": Launcher(
        summary="Horovod on a Spark cluster: a master, a driver, and a Spark worker on every node",
        peers=HOROVOD_PEERS,
        image="spark",
        packages=("horovod", "pyspark"),
        has=HOROVOD_HAS,
        offers=HOROVOD_OFFERS,
        least_memory=768 * MIB,  # two Java virtual machines run beside the worker
        auxiliary_services=("master", "driver"),
        event_writers=("driver",),
        spreads_virtual=True,
        refuses=HOROVOD_REFUSES,
    ),
    "slurm": Launcher(
        summary="torch.distributed, on hosts of a Slurm cluster",
        peers=TORCH_PEERS,
        image="worker",
        event_writers=("driver",),
        on_hosts_only=True,
        refuses=TORCH_REFUSES,
    ),
    "ray": Launcher(
        summary="torch.distributed, on hosts of a Ray cluster",
        peers=TORCH_PEERS,
        image="worker",
        packages=("ray",),
        event_writers=("driver",),
        on_hosts_only=True,
        spreads_virtual=True,
        refuses=TORCH_REFUSES,
    ),
}
