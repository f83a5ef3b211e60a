"""Strategies: one record each, with all that is known without torch. Standard library only.

Adding a strategy takes its record here and its code in workloads/strategies.

Averaging parameters instead of gradients, adding up instead of averaging, exchanging in buckets
and overlapping change no byte of payload. Compression changes the bytes of the model, M. With H
local steps there is a round every H steps. Averaged buffers of B bytes are exchanged with the
model, M + B; broadcast, they go down a binomial tree from worker 0 after the exchange.
"""

import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from cluster.spec.errors import one_of
from cluster.spec.schedules import messages as schedules
from cluster.spec.schedules import push_sum, unpaced
from cluster.spec.schedules.hierarchical import hierarchical
from cluster.spec.schedules.messages import Messages, MessageSchedule, Setting, step_count
from cluster.spec.schedules.pairwise import Repeat

AVERAGES = ("gradients", "parameters")
REDUCTIONS = ("mean", "sum")
BUFFERS = {
    "broadcast": "after each exchange everyone takes worker 0's",
    "average": "averaged as the parameters are",
    "local": "they never leave their worker",
}


@dataclass(frozen=True, kw_only=True)
class StrategyFacts:
    """What a strategy does, what it does by default, and what it refuses."""

    summary: str
    messages: MessageSchedule
    """Who sends how many bytes to whom in a round of the exchange."""
    colour: str
    """In figures. Contrast of 3:1 or better against the white and the dark page."""
    repeat: Callable[[Setting], Repeat] = lambda setting: setting.repeat
    """When the same messages come again."""
    averages: tuple[str, ...] = AVERAGES
    """What it can average; the first is the default."""
    has_passes: bool = False
    with_one_other: bool = False
    """A worker sends to one other in a round."""
    exchanges: bool = True
    local_steps: int = 1
    """The default of --local-steps."""
    unpaced: bool = False
    """No barrier holds workers to the same number of steps: an epoch ends by samples in all, and
    messages depend on timing. `messages` is what is expected of equal nodes."""
    own_options: tuple[str, ...] = ()
    """Options that only this strategy has."""
    has_server: bool = False
    """A node of its own, the last rank, serves the workers."""
    needs_sites: bool = False
    """It is made for nodes in sites (--sites)."""
    overlaps_backward: bool = False
    """Always: pieces of the model are exchanged while backward still computes."""
    collective: str = "all-reduce"
    """The operation whose result it delivers, for nccl-tests' bandwidths: or `all-gather`."""
    centre: str = ""
    """Name of the rank that collects from the others and then sends to them, if there is one."""
    leaf: str = ""
    """Name of a rank that sends only what is its own, and then receives."""
    leaves: str = ""
    """The plural."""
    imports: tuple[str, ...] = ()
    """Slow modules that workers import: imported once before workers are forked."""
    buffers: str = "broadcast"
    """The default of --buffers."""
    lr_rule: str = "sqrt"
    """The default of --lr-rule: N workers take N times fewer steps per epoch (learning_rate.py)."""
    refuses: dict[str, str] = field(default_factory=dict)
    """Option, or option=value -> why it makes no sense here."""

    @property
    def has_schedule(self) -> bool:
        """Whether its messages are known without a run."""
        return self.messages is not schedules.unknown and not self.unpaced

    @property
    def averages_everything(self) -> bool:
        """All workers with all, at every step, by default."""
        one_step = self.has_passes or self.with_one_other or self.unpaced
        return not one_step and self.local_steps == 1


GRACE = 0.1
"""Default of --grace."""
WARMUP_EPOCHS = 1.0
"""Of a scaled learning rate: without, some seeds do not learn in the first epochs."""

IN_ONE_PIECE = "whose exchange with one other node is in one piece, whenever both are free"
OF_UNPACED = {
    "bucket_mb": IN_ONE_PIECE,
    "overlap": IN_ONE_PIECE,
    "buffers=broadcast": "which has no moment at which everyone could take worker 0's",
    "reduce=sum": "where no round has a gradient of every worker",
    "compress": "which sends what it exchanges as it is",
    "gpu": "which sends from main memory",
}
"""What no strategy without a barrier takes."""

NOTHING_SENT = "which exchanges nothing"
EXCHANGE_OPTIONS = (
    *("average", "reduce", "local_steps", "bucket_mb", "overlap", "compress", "buffers", "lr_rule"),
    *("error_feedback", "outer", "stream"),
    *("link", "bottleneck", "sites", "between", "inside", "link_trace", "background"),
)
"""Options that mean nothing without an exchange."""

BY_RANK, BY_SITE = "ranks", "sites"
RING_ORDERS = {
    BY_RANK: "each worker's neighbours are the ranks beside its own, as in torch",
    BY_SITE: "the workers of a site are neighbours, so that a ring crosses a path once each way",
}
OF_RINGS = ("ring_order",)
"""Options of strategies whose workers stand in a ring."""

STRATEGIES: dict[str, StrategyFacts] = {
    "single": StrategyFacts(
        summary="one worker, no exchange: the baseline",
        messages=schedules.nothing,
        colour="#7d848c",
        exchanges=False,
        buffers="local",
        lr_rule="none",
        refuses=dict.fromkeys(EXCHANGE_OPTIONS, NOTHING_SENT),
    ),
    "allreduce": StrategyFacts(
        summary="ring all-reduce of the gradients",
        messages=schedules.all_reduce,
        colour="#2f7ed8",
        own_options=OF_RINGS,
    ),
    "ring": StrategyFacts(
        summary="the same ring written out with send and receive, for teaching",
        messages=schedules.ring,
        colour="#1797a6",
        own_options=OF_RINGS,
    ),
    "halving-doubling": StrategyFacts(
        summary="all-reduce in 2 log2 N messages: partners swap halves, then pieces",
        messages=schedules.halving_doubling,
        colour="#3b5bb5",
    ),
    "hierarchical": StrategyFacts(
        summary="all-reduce in two levels: inside every site, then between sites",
        messages=hierarchical,
        colour="#a2583c",
        needs_sites=True,
    ),
    "allgather": StrategyFacts(
        summary="everyone gets every gradient and averages for itself",
        messages=schedules.all_gather,
        colour="#d64545",
        collective="all-gather",
        own_options=OF_RINGS,
    ),
    "gather-scatter": StrategyFacts(
        summary="gather to a root, average there, send the mean back",
        messages=schedules.gather_scatter,
        colour="#d9730d",
        centre="root",
        leaf="leaf",
        leaves="leaves",
    ),
    "reduce-broadcast": StrategyFacts(
        summary="sums go up a tree to a root, the mean comes down",
        messages=schedules.reduce_broadcast,
        colour="#a08300",
        centre="root",
        leaf="leaf",
        leaves="leaves",
    ),
    "parameter-server": StrategyFacts(
        summary="a node of its own holds the model; workers push gradients and pull parameters",
        messages=schedules.parameter_server,
        colour="#8b6cd9",
        has_server=True,
        centre="server",
        refuses={
            "optimizer=lars": "whose server updates the model piece by piece as gradients arrive,"
            " while LARS needs the norm of whole layers"
        },
    ),
    "ddp": StrategyFacts(
        summary="torch's DistributedDataParallel: all-reduce during backward, the baseline",
        messages=schedules.all_reduce,
        colour="#1f9d6b",
        averages=("gradients",),
        own_options=OF_RINGS,
        overlaps_backward=True,
        imports=("torch._dynamo",),
        refuses={
            "average=parameters": "which all-reduces gradients during backward",
            "reduce=sum": "which always divides by the number of workers",
            "overlap": "which always overlaps; --bucket-mb is its option",
            "buffers=average": "which broadcasts buffers or leaves them alone",
        },
    ),
    "pairwise": StrategyFacts(
        summary="groups of passes+1 neighbours average their parameters after a local update",
        messages=schedules.groups_of_neighbours,
        colour="#c2417c",
        averages=("parameters",),
        has_passes=True,
        own_options=("passes", "schedule"),
        buffers="average",
        refuses={
            "average=gradients": "which averages within small groups: with gradients alone the"
            " parameters of different groups would diverge"
        },
    ),
    "sgp": StrategyFacts(
        summary="stochastic gradient push: half of the parameters go to one other worker",
        messages=push_sum.push_sum,
        colour="#4a8f8f",
        repeat=push_sum.repeat,
        with_one_other=True,
        averages=("parameters",),
        buffers="average",
        refuses={
            "average=gradients": "which mixes parameters with one other worker a round: with"
            " gradients alone the parameters of workers would diverge"
        },
    ),
    "local-sgd": StrategyFacts(
        summary="all-reduce of the parameters every few local steps",
        messages=schedules.all_reduce_in_turn,
        colour="#5f8f1f",
        averages=("parameters",),
        local_steps=8,
        own_options=OF_RINGS,
        refuses={
            "average=gradients": "which trains on locally between exchanges; to accumulate"
            " gradients use --strategy allreduce with --local-steps"
        },
    ),
    "async-pairwise": StrategyFacts(
        summary="no barrier: a worker averages parameters with whoever is free, and trains on",
        messages=unpaced.expected_pairs,
        colour="#e0559b",
        averages=("parameters",),
        unpaced=True,
        buffers="average",
        refuses=OF_UNPACED
        | {"average=gradients": "whose workers train on different models, which they average"},
    ),
    "async-server": StrategyFacts(
        summary="no barrier: a server updates the model by each gradient as it arrives",
        messages=unpaced.expected_at_server,
        colour="#7a52c7",
        averages=("gradients",),
        unpaced=True,
        own_options=("staleness",),
        has_server=True,
        centre="server",
        buffers="local",
        refuses=OF_UNPACED
        | {
            "average=parameters": "whose server updates the model by gradients; quorum averages",
            "buffers=average": "which sends gradients; buffers are averaged to be scored",
        },
    ),
    "quorum": StrategyFacts(
        summary="local-sgd at a server that goes on when Q workers have arrived; late ones merge",
        messages=unpaced.expected_at_server,
        colour="#3f8f4f",
        averages=("parameters",),
        unpaced=True,
        own_options=("quorum", "grace"),
        local_steps=8,
        has_server=True,
        centre="server",
        buffers="average",
        refuses=OF_UNPACED | {"average=gradients": "which merges changes of local training"},
    ),
}


EXCHANGING = tuple(
    name for name, facts in STRATEGIES.items() if facts.exchanges and not facts.needs_sites
)
"""Those that exchange, on any nodes."""
IN_STEP = tuple(name for name in EXCHANGING if not STRATEGIES[name].unpaced)
"""Of them, those with a barrier: what they send when is known without a run."""
OF_FEW: dict[str, tuple[str, ...]] = {
    option: tuple(name for name, facts in STRATEGIES.items() if option in facts.own_options)
    for option in dict.fromkeys(
        option for facts in STRATEGIES.values() for option in facts.own_options
    )
}
"""Options that only a few strategies have -> which."""


OWN_COLOURS = ("#4c8c8a", "#b0639a", "#98713a", "#6f78c9", "#b3593e", "#4f8a3d", "#8f6fae")
"""Of users' programs and strategies, by name. Contrast as in StrategyFacts."""


def is_own(strategy: str) -> bool:
    """Whether it is the user's: a file, FILE.py, or a module that is run, -m MODULE."""
    return strategy.endswith(".py") or strategy.startswith("-m ")


def facts_of(strategy: str) -> StrategyFacts:
    """The record of a strategy; SpecError for an unknown one.

    Of a user's own nothing is known before it runs.
    """
    if strategy not in STRATEGIES and is_own(strategy):
        return StrategyFacts(
            summary="the user's own",
            messages=schedules.unknown,
            colour=OWN_COLOURS[zlib.crc32(strategy.encode()) % len(OWN_COLOURS)],
            refuses={"reduce=sum": "your own, which is asked for the mean"},
        )
    one_of("strategy", strategy, [*STRATEGIES, "FILE.py"])
    return STRATEGIES[strategy]


def messages(strategy: str, index: int, setting: Setting) -> Messages:
    """All messages of a round: the exchange, and the broadcast of buffers that follows it."""
    facts = facts_of(strategy)
    exchange = facts.messages(index, setting)
    if not facts.exchanges:
        return exchange
    return exchange + schedules.broadcast_of_buffers(setting, step_count(exchange))


def own_defaults(strategy: str) -> dict[str, object]:
    """Options whose default depends on the strategy."""
    facts = facts_of(strategy)
    return {
        "average": facts.averages[0],
        "buffers": facts.buffers,
        "error_feedback": 1.0,
        "outer": "none",
        "local_steps": facts.local_steps,
        "grace": GRACE if "grace" in facts.own_options else None,
        "lr_rule": facts.lr_rule,
        "warmup_epochs": 0.0 if facts.lr_rule == "none" else WARMUP_EPOCHS,
    }


def follows_from_strategy(
    option: str, strategies: Collection[str], values: Collection[object]
) -> bool:
    """Do runs differ in an option only because their strategies do? Then it tells nothing new.

    The number of local steps always does: it divides the bytes.
    """
    if option == "local_steps":
        return False
    if option in ("folder", "code_sha256"):  # of strategies that are the user's own
        return len(set(strategies)) == len(set(zip(strategies, values, strict=True)))
    return all(
        (strategy in STRATEGIES or is_own(strategy))
        and (value is None or own_defaults(strategy).get(option, ...) == value)
        for strategy, value in zip(strategies, values, strict=True)
    )
