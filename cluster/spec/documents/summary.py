"""summary.json: what a run measured, beside what theory predicts.

What is not known is null, and a key that is missing is null, too. Bytes are those that the
interfaces count, headers included, unless a key says payload: bytes less 66 of headers a packet.
"""

from dataclasses import field

from cluster.spec.documents.codec import SCHEMA, Amount, Count, Document, Options, Share
from cluster.spec.documents.faults import Faults, LateNode
from cluster.spec.documents.links import MeasuredLink

HELD, CONTENDED, COARSE, UNKNOWN = "held", "contended", "coarse", "unknown"
"""Verdicts on a run's times, in `fidelity`."""
OUT_OF_MEMORY = "ran out of memory"
"""In the error of a run whose node was ended for its memory."""
NO_CONCLUSION = (CONTENDED, COARSE)
"""Verdicts of runs whose times allow no conclusion."""


class CurvePoint(Document):
    """The score after one epoch, and what it took until then."""

    epoch: Count
    """Epoch, from 1."""
    accuracy: Share | None = None
    """Accuracy of the average of all workers' models, 0 to 1."""
    test_samples: Count | None = None
    """Test samples that it was scored on."""
    loss: float | None = None
    """Its mean loss on the test samples."""
    sent_bytes: Count | None = None
    """Bytes that all nodes have sent in training until then; of virtual workers the predicted
    payload."""
    seconds: Amount | None = None
    """Seconds of training until then, without evaluation."""
    consensus_distance: Amount | None = None
    """Distance of the workers' models from their average, as in the event `epoch`."""


class Traffic(Document):
    """Bytes of all nodes that exchange, in one phase."""

    sent_bytes: Count = 0
    """Bytes sent."""
    received_bytes: Count = 0
    """Bytes received: the same traffic counted at the other end."""
    sent_payload_bytes: int | None = None
    """Of the bytes sent, payload: unlike them, it does not vary with the grouping in packets."""


class NodeTraffic(Document):
    """Bytes of one node. Auxiliary services are listed, but not part of any sum."""

    node: str
    """The node's name."""
    rank: Count | None = None
    """The node's rank; null for an auxiliary service."""
    role: str = "worker"
    """`worker`, `server`, or the name of the auxiliary service."""
    train_sent_bytes: Count
    """Bytes sent in the train phase."""
    train_received_bytes: Count
    """Bytes received in the train phase."""
    sent_bytes: Count | None = None
    """Bytes sent in all phases."""
    received_bytes: Count | None = None
    """Bytes received in all phases."""


class Bytes(Document):
    """Bytes by phase and by node, from the workers' own counters."""

    setup: Traffic
    """Until training begins."""
    train: Traffic
    """In the train phase."""
    evaluate: Traffic
    """While models are averaged and scored."""
    finish: Traffic
    """After the last epoch."""
    recover: Traffic = field(default_factory=Traffic)
    """Between two generations of workers (`--on-failure continue`): connections, and the state of
    those that come back."""
    total: Traffic
    """In all phases."""
    background: Traffic | None = None
    """Background traffic (`--background`) of all nodes, which no other number counts; null
    without."""
    nodes: list[NodeTraffic] = field(default_factory=list)
    """Every node's bytes."""


class PerStep(Document):
    """Payload that a worker sends in a training step, measured and predicted."""

    sent_mean_bytes: float | None = None
    """Measured payload sent, mean over workers, without control traffic."""
    sent_max_bytes: float | None = None
    """Measured payload sent by the busiest node, which may be a server."""
    predicted_mean_bytes: Amount | None = None
    """Predicted payload, mean over workers."""
    predicted_max_bytes: Amount | None = None
    """Predicted payload of the busiest node."""
    predicted_framing_bytes: Amount | None = None
    """Predicted bytes that the library adds to its messages (Gloo, 144 for each), with the
    barriers at phase boundaries, mean over workers; null where they are not known (Horovod,
    NCCL)."""
    ratio: float | None = None
    """Measured over predicted: sent_mean_bytes / (predicted_mean_bytes + predicted_framing_bytes).
    1 is exactly as predicted; above 1 is what TCP sent again, and framing where it is not
    predicted. Runs recorded before 2026-11-18 have no framing in it. Where workers changed, what
    was predicted is the sum over generations; above 1 is also what exchanges that were cut short
    had sent. Null where nothing is predicted, and where GPUs exchanged past the interfaces that
    are counted."""
    retransmitted_mean_bytes: float | None = None
    """Of the measured payload, what crossed the wire again (retransmitted by TCP, without what the
    node's own queue dropped before it left) at most, mean over workers."""
    retransmitted_by_busiest_bytes: float | None = None
    """The same for the busiest node."""


class ControlTraffic(Document):
    """What a launcher sends to coordinate its workers (Horovod) and, on hosts that are there
    already, what other programs send over the same interfaces; mean over nodes."""

    message_bytes: Amount | None = None
    """Payload of one message; null of other programs."""
    sent_mean_bytes: Amount | None = None
    """Payload of all of it that a node sent in the train phase."""
    bytes_per_s: Amount | None = None
    """Payload a second."""


class PairTraffic(Document):
    """Payload of training from one node to another."""

    sender: Count
    """Rank of the node that sends."""
    receiver: Count
    """Rank of the node that receives."""
    sent_bytes: Count
    """Payload as the sender counts it."""
    received_bytes: Count
    """Payload as the receiver counts it."""
    control_bytes: Count = 0
    """Of it, control traffic (estimated)."""
    predicted_bytes: Count | None
    """Payload that the message schedule predicts; null where none is known."""


class InterfaceTraffic(Document):
    """What interfaces counted of the traffic in the matrix."""

    payload_bytes: int
    """Payload of all nodes, without what TCP sent again."""
    payload_bytes_by_node: list[int] = field(default_factory=list)
    """Payload by rank, without what TCP sent again."""
    retransmitted_bytes_by_node: list[Count] = field(default_factory=list)
    """What TCP sent again, by rank."""
    header_bytes: Count
    """Headers of all nodes: 66 bytes a packet."""


class TrafficMatrix(Document):
    """Bytes from node i to node j in training, from every TCP connection's own counters."""

    pairs: list[PairTraffic]
    """Every pair of nodes that exchanged, or should have."""
    other_destinations_bytes: Count = 0
    """Payload to hosts that are none of the nodes."""
    closed_connections: Count = 0
    """Connections that were closed during training, whose bytes are lost."""
    interfaces: InterfaceTraffic
    """The same traffic as the interfaces count it."""


class CounterBytes(Document):
    """Bytes sent by all nodes in training, by several readers of the nodes' interfaces."""

    worker_bytes: Count | None = None
    """The workers' own reading of their interfaces."""
    kernel_bytes: int | None = None
    """Read by the host; null where the run did not end. With Docker it reads the same interfaces
    as the worker, with namespaces the other ends of their veth pairs."""
    docker_bytes: int | None = None
    """The Docker API; null without Docker."""
    largest_difference: Amount | None = None
    """Largest difference of one of them from the workers' reading, as a fraction."""
    workers_per_host: Count | None = None
    """Workers that share a host's interfaces, booked equal parts; null where each has its own."""


class NodeSeconds(Document):
    """Medians over one node's steps without the first; null for a server."""

    node: str = ""
    """The node's name."""
    rank: Count
    """The node's rank."""
    role: str
    """`worker` or `server`."""
    step_median_s: Amount | None = None
    """A step."""
    compute_median_s: Amount | None = None
    """Of it, forward, backward and update."""
    exposed_communication_median_s: Amount | None = None
    """Of it, the exchange that computation does not hide."""
    waiting_median_s: Amount | None = None
    """Of the exchange, waiting for the last node of the group."""
    waits_mostly_for: Count | None = None
    """Rank of the node that it waits for most."""


class Seconds(Document):
    """Durations in emulated time: wall time divided by the dilation. Medians are over all workers'
    steps without the first, which warms up."""

    total_s: Amount | None = None
    """From the first event to the last."""
    wall_s: Amount | None = None
    """The same on this host's clock: `total_s` times the dilation."""
    train_s: Amount | None = None
    """The train phases together."""
    step_median_s: Amount | None = None
    """A step."""
    compute_median_s: Amount | None = None
    """Of it, forward, backward and update; null where they hide the exchange."""
    exposed_communication_median_s: Amount | None = None
    """Of it, the exchange that computation does not hide."""
    communication_bound_s: Amount | None = None
    """Lower bound of a step's exchange on these links, less a burst; null where none is shaped."""
    by_node: list[NodeSeconds] = field(default_factory=list)
    """Every node's medians."""


class PredictedSeconds(Document):
    """What nodes would take, simulated from the measured `compute_median_s`: on links as asked, and
    with a core for each worker."""

    step_s: Amount
    """A step."""
    exchange_s: Amount
    """Of a round, the exchange that computation does not hide."""
    train_s: Amount
    """All steps."""


class NodeFidelity(Document):
    """The CPU that one worker got in its steps without the first; null where it is not counted."""

    node: str
    """The node's name."""
    rank: Count
    """The node's rank."""
    cpu_s: Amount | None = None
    """Seconds in which its threads ran, summed over threads."""
    wait_s: Amount | None = None
    """Seconds by which it is late since it waited for a core, of the thread that waited longest in
    each step: without what its own CPU limit makes it wait. Wall time."""
    throttled_s: Amount | None = None
    """Seconds in which its own CPU limit stopped it, as asked for; not contention. Wall time."""
    cpu_share: Share | None = None
    """The share of its entitled CPU that it got while it wanted CPU: a core, or its limit."""
    wait_share: Amount | None = None
    """`wait_s` over the wall time of these steps."""
    ahead_share: Amount | None = None
    """With a CPU limit or time dilation, how far it was ahead of its part of a core, over the wall
    time of these steps: what fits into one quota runs at the full speed of a core. Null without."""


class Fidelity(Document):
    """Whether the host gave every node the CPU that it was entitled to (docs/time.md)."""

    verdict: str
    """`held`: the nodes got the CPU that they wanted. `contended`: a node waited for a core for
    more than 15 % of its step time (5 % with time dilation), or the hypervisor took more than 15 %
    of the CPU, so that times allow no conclusion. `coarse`: a node with a CPU limit or with time
    dilation was ahead of its part of a core by more than 15 % of its step time, so that they do not
    either: steps are too short for this limit. `unknown`: not recorded."""
    largest_wait_share: Amount | None = None
    """Largest `wait_share` of a node."""
    largest_ahead_share: Amount | None = None
    """Largest `ahead_share` of a node; null without CPU limits."""
    least_cpu_share: Share | None = None
    """Least `cpu_share` of a node."""
    busy_share: Share | None = None
    """Share of all cores' time in the train phase in which they ran any process."""
    others_share: Share | None = None
    """Share of it in which they ran other processes than the workers in their steps."""
    steal_share: Share | None = None
    """Share of it that the hypervisor took from this virtual machine."""
    pressure_share: Share | None = None
    """Share of the train phase in which any process of the host waited for a core."""
    load: Amount | None = None
    """Load of the host, mean over the train phase."""
    by_node: list[NodeFidelity] = field(default_factory=list)
    """Every worker's CPU; a server is not measured."""


class LearningRate(Document):
    """What the learning rate was, and why."""

    given: Amount | None = None
    """As given by `--lr`."""
    rule: str | None = None
    """The rule by which it is scaled."""
    full: Amount | None = None
    """The scaled rate, after warm-up."""
    warmup_steps: Count | None = None
    """Steps in which it rises to that."""


class Shards(Document):
    """Labels of the workers' shards."""

    label_counts: list[list[Count]] = field(default_factory=list)
    """By worker and label: how often the label occurs."""
    label_skew: Share | None = None
    """Mean total variation distance of the workers' labels from all labels: 0 equal, 1 disjoint."""


class EpochCourse(Document):
    """One epoch of training that all workers completed: means over workers."""

    epoch: Count
    """Epoch, from 1."""
    seconds: Amount | None = None
    """Seconds of its steps."""
    data_s: Amount | None = None
    """Of it, reading batches."""
    compute_s: Amount | None = None
    """Of it, forward, backward and update."""
    exposed_communication_s: Amount | None = None
    """Of it, the exchange that computation does not hide."""
    train_loss: float | None = None
    """Mean training loss."""
    train_accuracy: Share | None = None
    """Mean training accuracy, 0 to 1."""


class Training(Document):
    """With what rate, on what shards, and how each epoch went."""

    parameters: Count | None = None
    """Number of the model's parameters."""
    learning_rate: LearningRate | None = None
    """The learning rate."""
    shards: Shards | None = None
    """The workers' labels; null without labels."""
    epochs: list[EpochCourse] = field(default_factory=list)
    """Every completed epoch."""


class WorkerProgress(Document):
    """How far one worker came in a run without a barrier."""

    node: str
    """The node's name."""
    rank: Count
    """The node's rank."""
    steps: Count = 0
    """Steps that it made."""
    samples: Count = 0
    """Samples that it trained on."""
    samples_per_s: Amount | None = None
    """Samples a second of training, emulated time."""
    rounds: Count = 0
    """Exchanges that it took part in."""
    skipped: Count = 0
    """Rounds that it left out: no partner was free, or its last exchange was still going on."""
    participation: Share | None = None
    """Its exchanges over those of the worker that has most; null without exchanges."""
    staleness_mean: Amount | None = None
    """Mean staleness of its exchanges (docs/strategies.md); null without exchanges."""
    staleness_max: Count | None = None
    """The largest."""


class GpuUse(Document):
    """One GPU in its node's training; null is what the driver does not tell."""

    node: str
    """The node's name."""
    gpu: Count
    """Index of the GPU in its node."""
    utilisation_mean: Share | None = None
    """Mean share of the time in which a kernel ran."""
    memory_max_bytes: Count | None = None
    """Largest amount of memory in use."""
    pcie_sent_bytes: Count | None = None
    """Bytes sent over PCIe."""
    pcie_received_bytes: Count | None = None
    """Bytes received over PCIe."""
    nvlink_sent_bytes: Count | None = None
    """Payload sent over NVLink."""
    nvlink_received_bytes: Count | None = None
    """Payload received over NVLink."""
    pcie_estimated: bool = False
    """Whether PCIe bytes are estimated from rates, since the driver does not count them."""


class ProgramProcess(Document):
    """One process of a program."""

    node: str
    """The node's name."""
    local_rank: Count = 0
    """Its number on the node, from 0."""
    exit_code: Count = 0
    """Exit code; 128 + signal where one ended it."""
    cpu_s: Amount = 0.0
    """CPU time, children included."""
    memory_bytes: Count = 0
    """The most memory that it had resident."""


class Operation(Document):
    """Calls of one collective of torch.distributed, all processes together."""

    name: str
    """The function; `all_reduce (DDP)` is what DistributedDataParallel does by itself."""
    calls: Count
    """Number of calls."""
    tensor_bytes: Count
    """Bytes of the tensors that callers contributed; what is sent depends on the collective."""


class Program(Document):
    """What is known of a user's program beside its traffic."""

    processes: list[ProgramProcess] = field(default_factory=list)
    """Every process that has ended."""
    operations: list[Operation] = field(default_factory=list)
    """Collectives that it called, the largest first."""


class Summary(Document):
    """summary.json: one run."""

    schema: int = SCHEMA
    """Version of the document."""
    session: str
    """Name of the session's folder."""
    run: str
    """Name of the run's folder."""
    status: str
    """`completed`, `failed`, `interrupted`; `running` in a report of a run that goes on."""
    error: str | None = None
    """Why the run did not complete: node and cause."""
    spec: Options
    """The experiment, as in spec.json."""
    model_bytes: Count | None = None
    """Bytes of the model as it is sent, after compression."""
    bucket_bytes: list[Count] = field(default_factory=list)
    """Of it, the pieces that are exchanged one after the other, as in the event `hello`."""
    steps: Count | None = None
    """Steps that every worker has made; without a barrier the mean of all, rounded down; of the
    whole run where workers changed."""
    rounds: Count | None = None
    """Exchanges; without a barrier those of a worker, the mean rounded down."""
    epochs: Count | None = None
    """Epochs that were evaluated."""
    samples_seen: Count | None = None
    """Samples that each worker has trained on; without a barrier the mean; the first one's that was
    there at the end, where workers changed."""
    accuracy: Share | None = None
    """Final accuracy of the average of all workers' models, 0 to 1, on the last point's samples."""
    loss: float | None = None
    """Its mean loss on the test samples; null where it is not finite."""
    accuracy_by_worker: list[Share] | None = None
    """Final accuracy of every worker's own model, by rank."""
    accuracy_by_worker_samples: Count | None = None
    """Test samples that every worker's own model was scored on."""
    consensus_distance: Amount | None = None
    """Final distance of the workers' models from their average, as in the event `epoch`."""
    curve: list[CurvePoint] = field(default_factory=list)
    """Score by epoch."""
    progress: list[WorkerProgress] = field(default_factory=list)
    """By rank, how far every worker came without a barrier; empty where they are in step."""
    bytes: Bytes | None = None
    """Bytes by phase and node."""
    per_step: PerStep | None = None
    """Payload a step, measured and predicted."""
    control_traffic: ControlTraffic | None = None
    """Control traffic; null where the launcher has none."""
    traffic_matrix: TrafficMatrix | None = None
    """Payload by pair of nodes; null where connections were not counted."""
    counters: CounterBytes | None = None
    """The same bytes as other readers count them."""
    seconds: Seconds | None = None
    """Durations."""
    predicted: PredictedSeconds | None = None
    """Predicted times of virtual workers, which have no measured ones but those of the process that
    they share; null where every worker has a node."""
    fidelity: Fidelity | None = None
    """Whether times can be trusted; null in older runs, and of virtual workers."""
    faults: Faults | None = None
    """What faults cost; null in a run without any."""
    arrivals: list[LateNode] = field(default_factory=list)
    """By rank, which worker came last to exchanges; empty where that cannot be told."""
    links: list[MeasuredLink] = field(default_factory=list)
    """Shaped links, as in links.json."""
    program: Program | None = None
    """Of a user's program; null for our own training."""
    network_activity_sum: Count | None = None
    """Sum over one reading a second of all bytes sent and received so far: the metric of some
    published tables, not a number of bytes."""
    training: Training | None = None
    """How training went."""
    gpus: list[GpuUse] = field(default_factory=list)
    """Every GPU."""
