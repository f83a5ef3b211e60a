"""Parts of summary.json: what faults cost a run, and which worker came last to exchanges."""

from dataclasses import field

from cluster.spec.documents.codec import Amount, Count, Document, Share


class FaultOutcome(Document):
    """One fault. Seconds are emulated; null is what did not happen."""

    fault: str
    """As it was asked for, in the spelling of `--fault`."""
    node: str
    """Name of the node."""
    began_s: Amount
    """When it really happened, seconds after training began."""
    step: Count | None = None
    """The step that the node was in, from 1."""
    exchange: Count | None = None
    """The exchange that it was in, where it was asked for inside one."""
    failure: str | None = None
    """Why it could not be done."""
    noticed_s: Amount | None = None
    """Seconds until the host had noticed that the node does not go on."""
    resumed_s: Amount | None = None
    """Seconds until another worker had ended a step that it began after the fault."""
    over_s: Amount | None = None
    """Seconds until it was undone, or the node could start again."""
    back_s: Amount | None = None
    """Seconds until the node had ended a step again after that."""


class Faults(Document):
    """What all faults of a run cost it."""

    faults: list[FaultOutcome] = field(default_factory=list)
    """In the order in which they happened."""
    never: list[str] = field(default_factory=list)
    """Faults that were asked for and that the run did not reach."""
    generations: Count = 1
    """Times at which workers formed a group: 1 where all stayed together."""
    committed_steps: Amount | None = None
    """Steps that count at the end; without a barrier the mean of all workers."""
    repeated_steps: Count = 0
    """Steps of single workers that they made once more, since the group went back."""
    repeated_samples: Count = 0
    """Samples of these steps."""
    participation: Share | None = None
    """Of the workers, how many took part in a step that counts: mean over steps."""
    participation_least: Share | None = None
    """In the step with the fewest."""
    train_s: Amount | None = None
    """Seconds from the begin of training to the last step, without evaluation."""
    undisturbed_step_s: Amount | None = None
    """Median time from one step to the next where no fault lasted."""
    goodput: Amount | None = None
    """Steps that count, over those that fit into train_s at undisturbed_step_s. Against the same
    run without faults it is in the report."""
    recovered_bytes: Count = 0
    """State that workers got from others to come back or to join."""


class LateNode(Document):
    """One worker's arrivals at exchanges."""

    node: str
    """The node's name."""
    rank: Count
    """Its rank."""
    exchanges: Count
    """Exchanges in which all workers that were there told when they arrived."""
    last: Count
    """Of them, those to which it came last."""
    late_median_s: Amount | None = None
    """In these, how much later than the median worker: median."""
    computing: Count = 0
    """Of these, since it computed longer."""
    core: Count = 0
    """Since others had its CPU core."""
    link: Count = 0
    """Since its exchange before took longer than others'."""
    another: Count = 0
    """Since it had waited for another worker in its exchange before."""
    cause: str | None = None
    """The most frequent."""
