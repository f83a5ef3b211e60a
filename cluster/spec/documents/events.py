"""What a node writes to events/node<k>.jsonl, a line for each event: a class for each kind."""

from collections.abc import Sequence
from dataclasses import field, replace
from reprlib import repr as short
from typing import Any, NamedTuple, Self

from cluster.spec.documents import fault_events as fault_events  # adds its classes to KINDS
from cluster.spec.documents import link_events as link_events
from cluster.spec.documents import schema1
from cluster.spec.documents.codec import SCHEMA, Amount, Count, DocumentError, parse_json
from cluster.spec.documents.event import KINDS, Event
from cluster.spec.documents.membership import Place
from cluster.spec.documents.records import SEGMENT_BYTES, Counters
from cluster.spec.schedules.recorded import PlannedMessage
from cluster.spec.schedules.unpaced import Partner

__all__ = ["KINDS", "Event"]


class Hello(Event, kind="hello"):
    """The node is up, and has made its model."""

    schema: int = SCHEMA
    """Version of the document."""
    node: str = ""
    """The node's name."""
    rank: Count
    """The node's rank."""
    role: str = "worker"
    """`worker` or `server`."""
    workers: Count = 1
    """Number of workers of the run."""
    host: str | None = None
    """Name of the host; null for a server."""
    network: str | None = None
    """Identifies the network namespace: equal for nodes with the same interfaces."""
    workers_on_host: Count = 1
    """Workers that share this node's interfaces; each books an equal part of their counters."""
    segment_bytes: Count = SEGMENT_BYTES
    """Payload of a full TCP segment on this node's interfaces."""
    model_bytes: Count = 0
    """Bytes of the model as it is sent, after compression; 0 for a server."""
    bucket_bytes: list[Count] = field(default_factory=list)
    """Bytes, as they are sent, of the pieces in which the model is exchanged one after the other;
    empty where it is one piece, and where the launcher decides."""
    buffer_bytes: Count = 0
    """Bytes of the model's buffers, such as batch-norm statistics."""
    parameters: Count | None = None
    """Number of the model's parameters."""
    labels: list[Count] | None = None
    """How often each label occurs in this worker's shard; null without labels."""


class VirtualWorker(Event, kind="virtual_worker"):
    """A virtual worker beside worker 0 has made its model, which is like the one of `hello`."""

    worker: Count
    """The worker's rank."""
    labels: list[Count] | None = None
    """How often each label occurs in this worker's shard; null without labels."""


class RankOrder(Event, kind="rank_order"):
    """The library's ranks are not ours (Horovod, `--ring-order`)."""

    order: list[Count]
    """This run's ranks in the order of the launcher's."""


class Schedule(Event, kind="schedule"):
    """What `messages` of the user's own strategy says of the run; the first node writes it."""

    rounds: list[list[PlannedMessage]]
    """The distinct rounds, each a list of messages."""
    order: list[Count]
    """Which of them each round of the run has, up to where they come again."""


class ConnectionBytes(NamedTuple):
    """What one open TCP connection has carried so far: an array of four in JSON."""

    local: str
    """Own end, ADDRESS:PORT."""
    remote: str
    """Other end, ADDRESS:PORT."""
    sent_bytes: Count
    """Payload sent, each byte once."""
    received_bytes: Count
    """Payload received."""


class Boundary(Event):
    """The node's own cumulative counters at a phase boundary."""

    counters: Counters
    """All interfaces of the node but `lo`."""
    retransmitted_bytes: Count | None = None
    """Bytes that TCP has sent again on the connections that are open."""
    sent_segments: Count | None = None
    """TCP segments with data, without retransmissions."""
    connections: list[ConnectionBytes] | None = None
    """Every open TCP connection; null on an old kernel."""
    background: Counters | None = None
    """What of `counters` is background traffic (`--background`), cumulative, too; null without."""

    @property
    def own(self) -> Counters:
        """Of the counters, the workers' own traffic."""
        return self.counters if self.background is None else self.counters - self.background


class Phase(Boundary, kind="phase"):
    """A phase begins here, and the one before ends."""

    phase: str
    """`setup`, `train`, `evaluate`, `finish` or `recover`."""
    epoch: Count | None = None
    """Epoch, from 1; null outside of epochs."""


class Idle(Boundary, kind="idle"):
    """Begin and end of a pause in which nothing is exchanged: what is sent is control traffic."""

    began: bool
    """Whether the pause begins here."""


class End(Boundary, kind="end"):
    """The node's last reading, with all connections closed."""


class Held(Event, kind="held"):
    """With `--on-failure continue`: the node has stopped, and waits for the next generation."""

    generation: Count
    """The generation that has ended for it."""
    latest: Place | None = None
    """Its last completed step; null where it has no state that counts."""
    before: Place | None = None
    """The last completed step before its last round."""
    read: list[Count] = field(default_factory=list)
    """Without a barrier: the numbers of the steps of all workers, in this epoch, that this worker
    has completed, or that are in this server's model."""


class Step(Event, kind="step"):
    """A training step has ended."""

    epoch: Count = 0
    """Epoch, from 1."""
    step: Count = 0
    """Step of the run, from 1: this worker's own."""
    of_all: Count | None = None
    """Which of the steps of all workers it is, from 1; null where a barrier keeps them equal."""
    loss: float | None = None
    """Training loss of the batch; null where it is not finite."""
    correct: Count | None = None
    """Labels of the batch that were predicted correctly: one for each sample, or for each byte of
    a text."""
    step_s: Amount
    """Seconds from the step's begin to its end."""
    data_s: Amount
    """Seconds of it for reading the batch."""
    compute_s: Amount | None
    """Seconds of it for forward, backward and update; null where the exchange is hidden in them."""
    exchange_s: Amount | None
    """Seconds of it for the exchange that computation does not hide; null where unknown."""
    ready_t: float | None = None
    """Unix time at which the worker was ready to exchange; null in a step without an exchange, and
    where it is hidden in backward."""
    samples: Count | None = None
    """Samples of the batch, where it is not `--batch-size`."""
    cpu_s: Amount | None = None
    """Seconds in which the worker's threads ran in this step, summed over threads."""
    wait_s: Amount | None = None
    """Seconds in which a thread was ready to run and waited for a core, of the thread that waited
    longest, `throttled_s` included; null where the kernel does not count it."""
    worker: Count | None = None
    """Rank of the virtual worker that made the step; null where every worker has a node."""
    throttled_s: Amount | None = None
    """Seconds of it in which the node's own CPU limit (`--cpus`, `--straggler`) stopped it; null
    where its control group cannot be read."""
    paced_s: Amount | None = None
    """Seconds of step_s that a node with a CPU limit waited, because it had computed faster than
    its part of a core does; null in older runs."""


class Exchanges(Event, kind="exchanges"):
    """What a worker did in an epoch without a barrier: it depends on timing."""

    epoch: Count
    """Epoch, from 1."""
    steps: Count
    """Steps that this worker made."""
    rounds: Count
    """Exchanges that it took part in."""
    skipped: Count = 0
    """Rounds that found no partner free, or its last exchange still going on."""
    staleness_sum: Count = 0
    """Staleness of its exchanges, added up (docs/strategies.md)."""
    staleness_max: Count = 0
    """The largest of them."""
    partners: list[Partner] = field(default_factory=list)
    """The exchanges that it began, by partner: what all nodes sent follows from them."""

    def named(self, members: Sequence[int]) -> Self:
        """With partners' ranks in the run, by their ranks among its members."""
        return replace(self, partners=[p._replace(rank=members[p.rank]) for p in self.partners])


class Epoch(Event, kind="epoch"):
    """An epoch has been evaluated: the score of the average of all workers' models."""

    epoch: Count
    """Epoch, from 1."""
    accuracy: float | None = None
    """Accuracy on the test samples, 0 to 1; null for synthetic models."""
    test_samples: Count | None = None
    """Number of these test samples."""
    loss: float | None = None
    """Mean loss on the test samples."""
    consensus_distance: Amount | None = None
    """Root mean square distance of the workers' models from their average, over its norm."""


class Result(Event, kind="result"):
    """The final score."""

    accuracy: float | None = None
    """Accuracy of the average of all workers' models, 0 to 1."""
    loss: float | None = None
    """Its mean loss on the test samples."""
    test_samples: Count | None = None
    """Number of these test samples."""
    own_accuracy: float | None = None
    """Accuracy of this worker's own model."""
    own_test_samples: Count | None = None
    """Test samples that it was scored on."""
    consensus_distance: Amount | None = None
    """As in `epoch`, after the last one."""
    samples_seen: Count = 0
    """Samples that this worker has trained on."""
    steps: Count = 0
    """Steps that this worker has made."""
    rounds: Count = 0
    """Exchanges that this worker has taken part in."""
    parameters_sha256: str | None = None
    """With `--on-failure continue`: of this worker's own parameters before the final average, the
    first digits. Workers with the same have equal parameters, bit for bit."""
    worker: Count | None = None
    """Rank of the virtual worker; null where every worker has a node."""


class Operations(Event, kind="operations"):
    """What the processes of a program on this node called, as far as it could be seen."""

    operations: dict[str, list[Count]] = field(default_factory=dict)
    """Collective of torch.distributed -> number of calls, and bytes of the tensors that the caller
    contributed."""


class Exited(Event, kind="exited"):
    """A process of a program has ended."""

    local_rank: Count = 0
    """Its number on the node, from 0."""
    code: Count = 0
    """Exit code; 128 + signal where one ended it."""
    cpu_s: Amount = 0.0
    """CPU time of the process and of the children that it waited for."""
    memory_bytes: Count = 0
    """The most memory that it had resident."""


class Failure(Event, kind="error"):
    """The node gave up."""

    message: str
    """Why, in one line."""


class Notice(Event, kind="notice"):
    """A line for the person who waits, from a launcher's own node."""

    text: str
    """The line."""


def parse_event(line: str | bytes) -> Event:
    """One line as its class; an event of a later version is an Event that keeps its keys."""
    document: Any = parse_json(line)
    if not isinstance(document, dict):
        raise DocumentError(f"an event must be an object, not {short(document)}")
    if not isinstance(document.get("event"), str):
        raise DocumentError(f"must be text, not {short(document.get('event'))}", "event")
    document = schema1.upgrade_event(document)
    return KINDS.get(document.pop("event"), Event).from_json(document)
