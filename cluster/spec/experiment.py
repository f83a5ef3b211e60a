"""Experiment: every option of one run, with its unit, meaning and default.

Command line flags, spec.json and the worker's settings are all made from this one list of fields.
What is refused is in experiment_checks.py.
"""

import copy
import dataclasses
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import PurePath
from reprlib import repr as short
from typing import Any, Self

from cluster.spec import experiment_checks, program, synthetic
from cluster.spec.background import Flow, parse_background
from cluster.spec.catalogue import DATASETS
from cluster.spec.dilation import UNDILATED
from cluster.spec.documents import schema1
from cluster.spec.documents.codec import SCHEMA
from cluster.spec.errors import SpecError
from cluster.spec.exchange.algorithms import ALGORITHMS
from cluster.spec.exchange.algorithms import NONE as NO_ALGORITHM
from cluster.spec.exchange.codecs import parse_codec
from cluster.spec.exchange.strategies import (
    AVERAGES,
    BUFFERS,
    BY_SITE,
    REDUCTIONS,
    RING_ORDERS,
    facts_of,
)
from cluster.spec.faults.checks import ON_FAILURE, STOP
from cluster.spec.faults.fault import Act, Fault, parse_faults
from cluster.spec.faults.storm import parse_storm
from cluster.spec.launchers import LAUNCHERS, Launcher
from cluster.spec.link_trace import Place, Trace, parse_traces
from cluster.spec.links import Link, parse_cores, parse_link, parse_links
from cluster.spec.options import (
    CROSS_ENTROPY,
    LR_RULES,
    OPTIMIZERS,
    SCORED_ON,
    SHUFFLES,
    TEST,
)
from cluster.spec.program import ISOLATED, NETWORKS
from cluster.spec.quantities import parse_memory
from cluster.spec.schedules.consensus import SCHEDULE_CHOICES
from cluster.spec.sites import Pair, members, parse_between, parse_inside, parse_sites
from cluster.spec.virtual import MOST_WORKERS

PROCESSES = 512
"""Processes and threads of a node; as `pids_limit` in compose/node.yml."""
LONGEST_LABEL = 120
"""Characters; the name of a folder has 255 at most."""
MAX_GPUS = 16
"""Of one host, and so of one process."""
EXISTING = "existing"
"""The engine of nodes that are there already."""


def node_name(rank: int) -> str:
    return f"node{rank}"


def _option(
    default: Any,
    group: str,
    unit: str,
    within: tuple[float, float] | None = None,
    choices: Collection[str] = (),
) -> Any:
    """A field that is a flag: its group in the help, its unit, and which values it takes.

    Without a group it is no flag: the plan fills it in. Default None: it depends on other options
    and is filled in by experiment_checks.
    """
    about = {"group": group, "unit": unit, "within": within, "choices": choices}
    return field(default=default, metadata=about)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One run. Frozen and complete: every default is filled in and stored."""

    strategy: str = _option("allreduce", "strategy", "NAME")
    """how workers combine what they learned; or FILE.py, with a function exchange of your own; of a
    program, its name"""
    algorithm: str | None = _option(None, "strategy", "NAME", choices=(NO_ALGORITHM, *ALGORITHMS))
    """a published algorithm: a strategy with its local steps, codec and outer optimiser, which
    flags beside it replace (docs/algorithms.md); none, in a list, is the strategy as it is"""
    workers: int = _option(4, "cluster", "N", within=(1, MOST_WORKERS))
    """number of nodes that train, one worker each: up to 256, more with --virtual"""
    virtual: bool = _option(False, "cluster", "yes|no|N")
    """all workers are models in one process on one node, with exact accuracy, predicted bytes and
    predicted times; --virtual 1000 is --virtual --workers 1000"""
    passes: int | None = _option(None, "strategy", "P", within=(1, MOST_WORKERS))
    """hops an update travels round the ring before it is averaged: groups of P+1 workers, pairwise
    only (default: 1, pairs)"""
    schedule: str | None = _option(None, "strategy", "NAME", choices=SCHEDULE_CHOICES)
    """which workers form a group in a round, pairwise only (default: ring; auto chooses the fewest
    bytes to consensus)"""
    local_steps: int = _option(None, "strategy", "H", within=(1, 100_000))
    """steps between two exchanges: gradients are accumulated, parameters trained locally (default:
    1; 8 for local-sgd)"""
    average: str = _option(None, "strategy", "WHAT", choices=AVERAGES)
    """what is averaged: gradients before the update, or parameters after it (default: parameters
    for pairwise and local-sgd, else gradients)"""
    reduce: str = _option("mean", "strategy", "HOW", choices=REDUCTIONS)
    """gradients are averaged, or summed (N times the step)"""
    bucket_mb: float | None = _option(None, "strategy", "MIB", within=(0, 1024 * 1024))
    """exchange the model in buckets of at most this many MiB, whole tensors each; 0 is one tensor
    at a time (default: all at once; with --overlap chosen from model and link; 25 for ddp)"""
    overlap: bool = _option(False, "strategy", "yes|no")
    """send each bucket during backward, as soon as it is ready"""
    compress: str = _option("none", "strategy", "CODEC")
    """how numbers are encoded for the wire: none, fp16, bf16; or with error feedback int8, int4,
    2bit, sign, topk:SHARE such as topk:0.01, randk:SHARE, powersgd:RANK: gradients of strategies
    that average all workers, outer deltas of local-sgd"""
    error_feedback: float | None = _option(None, "strategy", "DECAY", within=(0, 1))
    """share of what a lossy codec lost that is added to the next exchange; 0 turns it off (default:
    1)"""
    outer: str = _option(None, "strategy", "OPTIMISER")
    """outer optimiser, which takes the mean change of parameters since the last round as its
    gradient: none, sgd:LR or nesterov:LR:MOMENTUM, for local-sgd and pairwise (default: none; sgd:1
    with a lossy codec)"""
    staleness: int | None = _option(None, "strategy", "S", within=(0, 100_000))
    """rounds that a worker may be ahead of the slowest, async-server only (default: no limit)"""
    quorum: int | None = _option(None, "strategy", "Q", within=(1, MOST_WORKERS))
    """workers that must have arrived before a round of quorum goes on (default: all but one)"""
    grace: float | None = _option(None, "strategy", "SHARE", within=(0, 100))
    """quorum only: how long it then waits for the others, as a share of the time that the round has
    taken (default: 0.1)"""
    stream: str = _option("none", "strategy", "FRAGMENTS:DELAY:KEPT")
    """rounds exchange one of so many fragments of the model, in turn, while workers train on; its
    result is taken DELAY steps later, and the share KEPT of the worker's own parameters stays:
    4:1:0.5, for local-sgd"""
    ring_order: str | None = _option(None, "strategy", "ORDER", choices=RING_ORDERS)
    """order of the workers in a ring: ranks, as torch has them, or sites, so that the ring crosses
    the path between two sites once each way (default: ranks)"""
    buffers: str = _option(None, "strategy", "WHAT", choices=BUFFERS)
    """what happens to buffers such as batch-norm statistics after an exchange (default: average for
    pairwise, else broadcast)"""
    epochs: int = _option(12, "training", "E", within=(1, 100_000))
    """times every worker goes through its shard"""
    train_size: int = _option(6000, "training", "SAMPLES", within=(1, 10**9))
    """training samples of all workers together"""
    batch_size: int = _option(64, "training", "SAMPLES", within=(1, 10**9))
    """samples per step and worker"""
    lr: float = _option(0.05, "training", "RATE", within=(1e-9, 1000))
    """learning rate for one worker's batch; with --global-batch-size, for the global batch"""
    momentum: float | None = _option(None, "training", "M")
    """momentum of SGD and LARS, 0 to below 1 (default: 0.5)"""
    seed: int = _option(1, "training", "SEED", within=(0, 2**31 - 1))
    """seed of weights, shuffles and random schedules"""
    engine: str = _option("netns", "cluster", "NAME")
    """what nodes are made of"""
    cpus: float | None = _option(None, "cluster", "CORES", within=(0.01, 1024))
    """CPU cores that each node may use at most (default: no limit)"""
    dilation: str | float = _option(None, "cluster", "K|auto")
    """time dilation: the cluster runs K times slower than it would by itself, and all reported
    seconds are divided by K, so that nodes that share cores have times as on cores of their own;
    auto is the least K at which they fit on this machine's cores, 1 is none (default: auto where a
    link is shaped and the model computes, else 1)"""
    link: str | None = _option(None, "cluster", "RATE[/DELAY[/LOSS]]")
    """link of every node, both directions: 20mbit, or 100mbit/5ms/0.1% with delay and loss where
    the kernel has netem; 20mbit/100mbit is 20 up, from the node, and 100 down (default: not
    shaped)"""
    bottleneck: str | None = _option(None, "cluster", "RANK:LINK[,...]")
    """nodes with a slower link: 2:20mbit, or 0:20mbit,2:5mbit for two of them; repeat the flag for
    more cases: --bottleneck none --bottleneck 2:20mbit makes two runs"""
    sites: str | None = _option(None, "cluster", "NAME:NODES[,...]")
    """nodes in groups: a:3,b:3 puts nodes 0 to 2 into site a and 3 to 5 into b; or FILE.toml
    (docs/links.md); repeat the flag for more cases, as with --bottleneck"""
    between: str | None = _option(None, "cluster", "SITE-SITE:LINK[,...]")
    """the path between two sites, which all their nodes share: a-b:50mbit/40ms, or
    a-b:50mbit/20mbit for two rates; repeat the flag for more cases (default: not shaped)"""
    inside: str | None = _option(None, "cluster", "SITE:LINK[,...]")
    """link of every node of a site, in place of --link: a:1gbit; repeat the flag for more cases"""
    link_trace: str | None = _option(None, "cluster", "PLACE:FILE[,...]")
    """rates over time, from when training begins: 2:lte.csv for node 2's link, a-b:FILE for a path
    between sites; lines of seconds,mbit, or a Mahimahi trace; or the trace itself,
    2:0s=100mbit/20s=10mbit; repeat the flag for more cases"""
    background: str | None = _option(None, "cluster", "NODE-NODE:RATE[,...]")
    """others' traffic on the nodes' links while they train: with 1-3:10mbit, node 1 sends 10 Mbit/s
    to node 3, or what a full link leaves it; not counted as the workers' bytes; repeat the flag for
    more cases"""
    straggler: str | None = _option(None, "cluster", "RANK:CORES[,...]")
    """nodes with less CPU: 1:0.5; repeat the flag for more cases, as with --bottleneck"""
    total_memory: str | None = _option(None, "cluster", "SIZE")
    """memory of all training nodes together, each an equal share: 6g or 900m, powers of 1024
    (default: none, no limit)"""
    interval: float = _option(1.0, "cluster", "SECONDS", within=(0.1, 3600))
    """seconds between samples of the Docker API; kernel counters are sampled ten times as often"""
    model: str = _option("mnist-cnn", "training", "NAME")
    """the network (below); or synthetic:SIZE[:LAYERS[:COMPUTE]], such as synthetic:16M:64:2s:
    layers of so many bytes in all, emulated compute; or
    synthetic:resnet50|vgg16|bert-base|gpt2[:COMPUTE]: that network's layers; or FILE.py:NAME, a
    class or function of your own that gives an nn.Module"""
    dataset: str = _option(None, "training", "NAME", choices=DATASETS)
    """data set; or FILE.py:NAME, a function of your own that returns training and test samples
    (default: the first below that the model takes)"""
    launcher: str = _option("torch", "cluster", "NAME", choices=LAUNCHERS)
    """what starts the workers and carries their exchanges"""
    timeline: bool = _option(False, "cluster", "yes|no")
    """write Horovod's timeline to logs/timeline.json of the run, for a browser's tracing page;
    takes a core of node 0"""
    save_state: bool = _option(False, "training", "yes|no")
    """keep every worker's state at the end (parameters, optimizer, codec, outer optimiser), so that
    the run can be continued: --continue RUN --epochs E"""
    optimizer: str = _option("sgd", "training", "NAME", choices=OPTIMIZERS)
    """how gradients become an update"""
    weight_decay: float = _option(0.0, "training", "D", within=(0, 1))
    """weight decay: L2 for SGD and LARS, decoupled for AdamW"""
    lr_rule: str = _option("auto", "training", "NAME", choices=LR_RULES)
    """how the learning rate is scaled where several batches make an update"""
    warmup_epochs: float = _option(None, "training", "E", within=(0, 100_000))
    """epochs over which the learning rate is warmed up linearly (default: 1 where a rule scales it
    and there are more epochs, else 0)"""
    partition: str = _option("iid", "training", "HOW")
    """how training samples are split over workers: iid; label (sorted by label); dirichlet:ALPHA
    (label skew, the stronger the smaller ALPHA)"""
    shuffle: str = _option("epoch", "training", "HOW", choices=SHUFFLES)
    """order of the samples"""
    augment: bool = _option(False, "training", "yes|no")
    """augment training images: shift by up to 4 pixels, mirror half of them"""
    test_size: int | None = _option(None, "training", "SAMPLES")
    """test samples that score the result (default: all)"""
    score_on: str = _option(TEST, "training", "WHAT", choices=SCORED_ON)
    """samples that score the result: the test set, or training samples that are left out"""
    loss: str = _option(CROSS_ENTROPY, "training", "NAME")
    """what is minimised: cross-entropy, or FILE.py:NAME, a function of your own of outputs and
    labels"""
    gpu: int = _option(0, "cluster", "K", within=(0, MAX_GPUS))
    """train on GPUs, one for each node, through NCCL; with strategy single, --gpu K is one process
    with K of them (nn.DataParallel); 0 is the CPU, through Gloo (default: 0)"""
    program: str | None = _option(None, "program", "COMMAND")
    """a program of your own, run on every node instead of our training: the same as -- COMMAND,
    which ends the options; for a sweep, repeat the flag"""
    folder: str | None = _option(None, "program", "FOLDER")
    """folder with your own files, which nodes see read-only (default: that of the program, or of
    the files of strategy, model, dataset and loss; the current one for -m MODULE)"""
    nproc_per_node: int = _option(1, "program", "K", within=(1, 64))
    """processes of the program on each node"""
    network: str = _option(ISOLATED, "program", "WHAT", choices=NETWORKS)
    """what the program's nodes reach beside each other: nothing (isolated), or this host and what
    it reaches, by a second interface that is not counted (host-access; Docker)"""
    requirements: str | None = _option(None, "program", "FILE")
    """packages that nodes need beside torch, as pip's requirements file (default: none)"""
    fault: str | None = _option(None, "faults", "RANK:ACT@MOMENT[/DURATION][,...]")
    """what happens to nodes: kill, freeze, unplug, throttle=RATE, cpu=CORES, restart or join, at
    step40, at exchange40 (while its bytes move) or after 30s of training: 2:kill@exchange40,
    2:freeze@30s/10s; repeat the flag for more cases, as with --bottleneck (docs/faults.md)"""
    storm: str | None = _option(None, "faults", "KEY=VALUE[,...]")
    """faults drawn from a seed, the same for every strategy: kills=60s,freezes=240s,unplugs=240s
    are the mean seconds between two of a kind, down=10s is how long each lasts, seed=7"""
    on_failure: str = _option(STOP, "faults", "WHAT", choices=ON_FAILURE)
    """what a run does when a worker fails: it ends, or the others go on"""
    continues: str | None = _option(None, "", "FOLDER")
    """the run that this one goes on with, whose workers' states it begins with"""
    epochs_before: int = _option(0, "", "E", within=(0, 10**9))
    """epochs that were trained in the runs before, so that data order, learning rate and groups go
    on"""
    code_sha256: str | None = _option(None, "", "DIGITS")
    """of the files in which your own strategy, model, data set and loss are, the first digits:
    runs of other code are not alike"""

    def __post_init__(self) -> None:
        experiment_checks.complete(self)

    def settled(self, engine: str, schedule: str | None, dilation: float) -> Self:
        """With the host's choices. No other option depends on them: nothing is checked again."""
        chosen = copy.copy(self)
        for name, value in (("engine", engine), ("schedule", schedule), ("dilation", dilation)):
            object.__setattr__(chosen, name, value)
        return chosen

    def among(self, workers: int) -> Self:
        """The same run among so many workers: what is left of it after others were lost."""
        fewer = copy.copy(self)
        object.__setattr__(fewer, "workers", workers)
        return fewer

    @property
    def slowdown(self) -> float:
        """Seconds on this host for each emulated second; 1 until `auto` is settled."""
        return self.dilation if isinstance(self.dilation, float) else 1.0

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in the smallest shard: every worker makes the same number of steps."""
        return self.train_size // self.workers // self.batch_size

    @property
    def warmup_steps(self) -> int:
        return round(self.warmup_epochs * self.steps_per_epoch)

    @property
    def steps_before(self) -> int:
        """Of the runs that this one goes on with."""
        return self.epochs_before * self.steps_per_epoch

    @property
    def rounds_before(self) -> int:
        return self.epochs_before * self.rounds_per_epoch

    @property
    def rounds(self) -> int:
        """Exchanges in the whole run."""
        return self.rounds_per_epoch * self.epochs

    @property
    def rounds_per_epoch(self) -> int:
        """One every local_steps, and one for an incomplete rest at the end of the epoch."""
        if not facts_of(self.strategy).exchanges:
            return 0
        return -(-self.steps_per_epoch // self.local_steps)

    @property
    def nodes(self) -> int:
        """Workers are ranks 0 to workers-1; a parameter server is one node more."""
        return self.workers + facts_of(self.strategy).has_server

    @property
    def is_unpaced(self) -> bool:
        """Whether no barrier holds workers to the same number of steps."""
        return self.program is None and facts_of(self.strategy).unpaced

    @property
    def counter_rank(self) -> int:
        """The worker that counts all steps of a run without a barrier or a server: the first that
        is not slower than the others."""
        slow = {
            *(parse_links(self.bottleneck) if self.bottleneck else ()),
            *(parse_cores(self.straggler) if self.straggler else ()),
        }
        return next((rank for rank in range(self.workers) if rank not in slow), 0)

    @property
    def started_nodes(self) -> int:
        """Nodes that are started: virtual workers share one."""
        return 1 if self.virtual else self.nodes

    @property
    def carrier(self) -> Launcher:
        """What carries the exchanges: of virtual workers torch's, whatever started them."""
        return LAUNCHERS["torch" if self.virtual else self.launcher]

    @property
    def is_spread(self) -> bool:
        """Whether it is one of several runs that hosts of a cluster carry out at a time."""
        return self.virtual and self.engine == EXISTING

    @property
    def processes_per_node(self) -> int:
        """Processes and threads that a node may have: a virtual worker is a thread."""
        return PROCESSES + (self.nodes if self.virtual else 0)

    @property
    def device(self) -> str:
        """Where tensors are, as torch calls it. The one place that decides."""
        return "cuda" if self.gpu else "cpu"

    @property
    def backend(self) -> str:
        """What carries tensors, as torch calls it."""
        return "nccl" if self.gpu else "gloo"

    @property
    def total_memory_bytes(self) -> int | None:
        return None if self.total_memory is None else parse_memory(self.total_memory)

    @property
    def memory_per_node(self) -> int | None:
        """Bytes, whole MiB; None where there is no limit."""
        total = self.total_memory_bytes
        return None if total is None else total // self.started_nodes // 2**20 * 2**20

    @property
    def node_names(self) -> list[str]:
        """By rank: nodes that exchange, then auxiliary services."""
        return [*map(node_name, range(self.started_nodes)), *self.auxiliary_services]

    @property
    def auxiliary_services(self) -> tuple[str, ...]:
        """Nodes that the launcher adds: they do not train."""
        return () if self.engine == EXISTING else LAUNCHERS[self.launcher].auxiliary_services

    @property
    def all_names(self) -> list[str]:
        """The nodes' names by rank, then those of event writers that are not nodes."""
        return list(dict.fromkeys((*self.node_names, *self.event_writers)))

    @property
    def event_writers(self) -> tuple[str, ...]:
        """Names of those that write events; the run ends when all of them have."""
        return (*map(node_name, range(self.started_nodes)), *LAUNCHERS[self.launcher].event_writers)

    @property
    def links(self) -> dict[int, Link]:
        """By rank, where the link is shaped: a bottleneck's own, its site's, or the one for all."""
        links = dict.fromkeys(range(self.nodes), parse_link(self.link)) if self.link else {}
        members = self.site_members
        for site, link in (parse_inside(self.inside, members) if self.inside else {}).items():
            links |= dict.fromkeys(members[site], link)
        links |= parse_links(self.bottleneck) if self.bottleneck else {}
        return dict(sorted(links.items()))

    @property
    def paths(self) -> dict[Pair, Link]:
        """Between two sites, where the path is shaped; up is from the first to the second."""
        return parse_between(self.between, self.site_members) if self.between else {}

    @property
    def shaped_links(self) -> dict[int, Link]:
        """By rank, links that are shaped on nodes; those of virtual workers are only simulated."""
        return {} if self.virtual else self.links

    @property
    def link_traces(self) -> dict[Place, Trace]:
        """Of links and paths whose rates change."""
        return parse_traces(self.link_trace) if self.link_trace else {}

    @property
    def background_flows(self) -> tuple[Flow, ...]:
        return parse_background(self.background) if self.background else ()

    @property
    def shaped_paths(self) -> dict[Pair, Link]:
        """The same of paths between sites."""
        return {} if self.virtual else self.paths

    @property
    def all_shaped(self) -> tuple[Link, ...]:
        return (*self.shaped_links.values(), *self.shaped_paths.values())

    @property
    def site_members(self) -> dict[str, tuple[int, ...]]:
        """Site -> ranks of its nodes; empty without sites."""
        return members(parse_sites(self.sites)) if self.sites else {}

    @property
    def ring(self) -> tuple[int, ...] | None:
        """Ranks in the order of their ring, where that is not the order of ranks."""
        return tuple(chain(*self.site_members.values())) if self.ring_order == BY_SITE else None

    def site_of(self, rank: int) -> str | None:
        """The node's site; None without sites."""
        return parse_sites(self.sites)[rank] if self.sites else None

    def rate_between(self, source: int, destination: int) -> int | None:
        """Bits a second that links and path carry from one node to another; None: no limit."""
        links, ends = self.links, (self.site_of(source), self.site_of(destination))
        rates = [links[source].rate_bit] if source in links else []
        rates += [links[destination].down_bit] if destination in links else []
        for pair, path in self.paths.items():
            if set(pair) == set(ends):
                rates.append(path.rate_bit if pair == ends else path.down_bit)
        return min(rates, default=None)

    @property
    def links_by_rank(self) -> list[Link | None]:
        """Of every node; None where it is not shaped."""
        links = self.links
        return [links.get(rank) for rank in range(self.nodes)]

    @property
    def slowest_mbit(self) -> float | None:
        """Of the shaped links and paths."""
        shaped = (*self.links.values(), *self.paths.values())
        return min((link.slowest_mbit for link in shaped), default=None)

    @property
    def cpus_by_rank(self) -> dict[int, float]:
        """By rank, where CPU is limited: a straggler's own limit, else the one for all."""
        limits = {} if self.cpus is None else dict.fromkeys(range(self.nodes), self.cpus)
        return {**limits, **(parse_cores(self.straggler) if self.straggler else {})}

    def faults(self) -> Iterator[Fault]:
        """What is to happen to nodes, in the order of moments; those of a storm have no end."""
        if self.storm is not None:
            return parse_storm(self.storm).faults(self.workers)
        return iter(() if self.fault is None else parse_faults(self.fault))

    @property
    def absent(self) -> tuple[int, ...]:
        """Ranks of the workers that join later."""
        given = () if self.fault is None else parse_faults(self.fault)
        return tuple(fault.rank for fault in given if fault.act == Act.JOIN)

    @property
    def fault_cores(self) -> dict[int, float]:
        """By rank, the most cores of this host that a fault limits a node to."""
        given = () if self.fault is None else parse_faults(self.fault)
        limits: dict[int, float] = {}
        for fault in given:
            if fault.cores is not None:
                cores = fault.cores / self.slowdown
                limits[fault.rank] = max(cores, limits.get(fault.rank, 0.0))
        return limits

    @property
    def averages_some(self) -> bool:
        """Whether a few parameters at random places are averaged, and all others stay."""
        own = facts_of(self.strategy).averages[0] if self.average is None else self.average
        is_random = parse_codec(self.compress).name == "randk"
        return is_random and own == "parameters" and self.strategy != "local-sgd"

    @property
    def can_be_dilated(self) -> bool:
        """Whether dilation is a good default: pretended compute needs no cores, a Java virtual
        machine takes minutes to start on a part of one, and a program may look at the clock."""
        is_synthetic = self.model.startswith(synthetic.PREFIX)
        launcher = LAUNCHERS[self.launcher]
        is_ours = not (launcher.auxiliary_services or launcher.on_hosts_only)
        is_ours = is_ours and not (self.gpu or self.virtual or self.program)
        return is_ours and not is_synthetic

    @property
    def cores_by_rank(self) -> dict[int, float]:
        """Of every node: a process computes in one thread where nothing else is said."""
        cores = float(self.nproc_per_node)
        return {**dict.fromkeys(range(self.nodes), cores), **self.cpus_by_rank}

    @property
    def host_limits(self) -> dict[int, float]:
        """By rank, cores of this host that a node may use, where it is limited."""
        if self.slowdown == 1:
            return self.cpus_by_rank
        return {rank: cores / self.slowdown for rank, cores in self.cores_by_rank.items()}

    @property
    def cluster(self) -> tuple[object, ...]:
        """What a run asks of its nodes; runs that ask for the same can share them."""
        launcher = LAUNCHERS[self.launcher]  # some hosts may stay idle
        is_any = launcher.on_hosts_only or (self.virtual and launcher.spreads_virtual)
        nodes = None if is_any else self.nodes
        return (
            *(nodes, self.virtual, self.cpus, self.link, self.bottleneck, self.straggler),
            *(self.sites, self.between, self.inside, self.background),
            *(self.launcher, self.total_memory, self.gpu),
            *(self.dilation,),
            *(self.user_folders, self.requirements, self.network),
            *(self.fault, self.storm, self.on_failure),
        )

    @property
    def user_folders(self) -> tuple[str, ...]:
        """Folders of the user's own files: nodes see them read-only, at the same paths."""
        return () if self.folder is None else (self.folder,)

    @property
    def label(self) -> str:
        """Short, for folder names, where a number makes it unique."""
        parts = [
            self._strategy_label,
            f"n{self.workers}",
            self.virtual and "virtual",
            self.passes is not None and f"p{self.passes}-{self.schedule}",
            self.nproc_per_node > 1 and f"k{self.nproc_per_node}",
            *self._exchange_label(),
            self.overlap and "overlap",
            self.launcher != "torch" and self.launcher,
            self.gpu > 0 and ("gpu" if self.gpu == 1 else f"gpu{self.gpu}"),
            self.link is not None and self.link.partition("/")[0],
            *(["slow", *map(str, parse_links(self.bottleneck))] if self.bottleneck else ()),
            self.sites is not None and f"{len(self.site_members)}sites",
            self.ring_order is not None and f"by-{self.ring_order}",
            *(["straggler", *map(str, parse_cores(self.straggler))] if self.straggler else ()),
            self.link_trace is not None and "trace",
            self.background is not None and "background",
            self.fault is not None and "fault",
            self.storm is not None and "storm",
        ]
        return "-".join(part for part in parts if part)[:LONGEST_LABEL]

    @property
    def _strategy_label(self) -> str:
        """Of an algorithm its name, of a strategy in a file the file's."""
        name = (self.algorithm or self.strategy).removeprefix("-m ")
        return PurePath(name).name if self.program is None else name

    def _exchange_label(self) -> list[str | bool]:
        if self.program is not None:
            return []
        return [
            self.local_steps > 1 and f"h{self.local_steps}",
            self.compress != "none" and self.compress.replace(":", "-"),
            self.outer != "none" and self.outer.replace(":", "-"),
            self.staleness is not None and f"s{self.staleness}",
            self.quorum is not None and f"q{self.quorum}",
            self.stream != "none" and f"stream-{self.stream.replace(':', '-')}",
        ]

    def to_json(self) -> dict[str, Any]:
        """Options that do not apply to a program are null."""
        document = {"schema": SCHEMA, **dataclasses.asdict(self)}
        if self.program is not None:
            fields = dataclasses.fields(self)
            document |= {f.name: None for f in fields if not program.applies(f)}
        return document

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """What a spec.json holds; SpecError for anything else."""
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SpecError(f"the spec is no JSON document: {error}") from None
        return cls.from_json(document)

    @classmethod
    def from_json(cls, document: object) -> Self:
        """The inverse of to_json; refuses what it does not know rather than dropping it."""
        if not isinstance(document, dict):
            raise SpecError(f"the spec must be an object, not {short(document)}")
        values = dict(schema1.upgrade_spec(document))
        schema = values.pop("schema", None)
        if type(schema) is not int or schema != SCHEMA:
            raise SpecError(f"schema of the spec must be 1 or {SCHEMA}, not {short(schema)}")
        unknown = sorted(set(values) - {f.name for f in dataclasses.fields(cls)})
        if unknown:
            raise SpecError(f"unknown field in the spec: {', '.join(unknown)}")
        if values.get("program") is not None:
            values = {name: value for name, value in values.items() if value is not None}
        return cls(**{"dilation": UNDILATED, **values})  # which older versions do not name
