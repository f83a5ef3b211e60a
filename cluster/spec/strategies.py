"""What the command line must know of every strategy without importing torch. Standard library only.

workloads/strategies does them, analysis/theory/predicted_bytes.py predicts them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

AVERAGES = ("gradients", "parameters")
REDUCTIONS = ("mean", "sum")
BUFFERS = {
    "broadcast": "after each exchange everyone takes worker 0's",
    "average": "averaged as the parameters are",
    "local": "they never leave their worker",
}
SCHEDULES = {
    "ring": "consecutive neighbours, shifted by one place each round",
    "random": "a seeded shuffle cut into groups",
    "exponential": "pairs at distance 1, 2, 4, ...; exact after log2 N rounds if N is a power of two",
    "grid": "rows, then columns, of a grid of the workers; exact after one cycle where N factors",
    "auto": "the one that reaches consensus for the fewest bytes; says which and why",
}


@dataclass(frozen=True)
class StrategyFacts:
    """What can be asked of a strategy, and what it does unless asked."""

    summary: str
    averages: tuple[str, ...] = AVERAGES
    """What it can average; the first is the default."""
    has_passes: bool = False
    exchanges: bool = True
    local_steps: int = 1
    """The default of --local-steps."""
    has_server: bool = False
    """A node of its own, the last rank, serves the workers."""
    imports: tuple[str, ...] = ()
    """Slow modules that workers will import: where they are forked, they are imported once before."""
    buffers: str = "broadcast"
    """The default of --buffers."""
    lr_rule: str = "sqrt"
    """The default of --lr-rule: N workers go through the samples in N times fewer steps (learning_rate.py)."""
    refuses: dict[str, str] = field(default_factory=dict)
    """Option, or option=value -> why it makes no sense here."""


WARMUP_EPOCHS = 1.0
"""Where a rule raises the rate: with the full rate at once some seeds do not learn anything in the first epochs."""

NOTHING_SENT = "which exchanges nothing"
EXCHANGE_OPTIONS = (
    *("average", "reduce", "local_steps", "bucket_mb", "overlap", "compress", "buffers", "lr_rule"),
    *("link", "bottleneck"),
)
"""Options that mean nothing without an exchange."""

STRATEGIES: dict[str, StrategyFacts] = {
    "single": StrategyFacts(
        "one worker, no exchange: the baseline",
        exchanges=False,
        buffers="local",
        lr_rule="none",
        refuses=dict.fromkeys(EXCHANGE_OPTIONS, NOTHING_SENT),
    ),
    "allreduce": StrategyFacts("ring all-reduce of the gradients"),
    "ring": StrategyFacts("the same ring written out with send and receive, for teaching"),
    "allgather": StrategyFacts("everyone gets every gradient and averages for itself"),
    "gather-scatter": StrategyFacts("gather to a root, average there, send the mean back"),
    "reduce-broadcast": StrategyFacts("add up a tree to a root, send the mean down the tree"),
    "parameter-server": StrategyFacts(
        "a node of its own holds the model; workers push gradients and pull parameters",
        has_server=True,
        refuses={
            "optimizer=lars": "whose server updates the model piece by piece as gradients arrive, while"
            " LARS needs the norm of whole layers"
        },
    ),
    "ddp": StrategyFacts(
        "torch's DistributedDataParallel: the peer to beat",
        averages=("gradients",),
        imports=("torch._dynamo",),
        refuses={
            "average=parameters": "which all-reduces gradients during backward",
            "reduce=sum": "which always divides by the number of workers",
            "overlap": "which always overlaps; --bucket-mb is its option",
            "buffers=average": "which broadcasts buffers or leaves them alone",
        },
    ),
    "pairwise": StrategyFacts(
        "groups of passes+1 neighbours average their parameters after a local update",
        averages=("parameters",),
        has_passes=True,
        buffers="average",
        refuses={
            "average=gradients": "whose workers meet a few at a time: with gradients alone their"
            " parameters would drift apart and never meet again"
        },
    ),
    "local-sgd": StrategyFacts(
        "all-reduce of the parameters every few local steps",
        averages=("parameters",),
        local_steps=8,
        refuses={
            "average=gradients": "which trains on locally between exchanges; to accumulate gradients"
            " use --strategy allreduce with --local-steps"
        },
    ),
}


def own_defaults(strategy: str) -> dict[str, object]:
    """Options whose default depends on the strategy."""
    facts = STRATEGIES[strategy]
    return {
        "average": facts.averages[0],
        "buffers": facts.buffers,
        "local_steps": facts.local_steps,
        "lr_rule": facts.lr_rule,
        "warmup_epochs": 0.0 if facts.lr_rule == "none" else WARMUP_EPOCHS,
    }


def says_nothing(option: str, strategies: Iterable[str], values: Iterable[object]) -> bool:
    """Do runs differ in a option only because their strategies do? Then it tells nothing new.

    The number of local steps always does: it divides the bytes.
    """
    if option == "local_steps":
        return False
    return all(
        strategy in STRATEGIES and own_defaults(strategy).get(option, ...) == value
        for strategy, value in zip(strategies, values, strict=True)
    )
