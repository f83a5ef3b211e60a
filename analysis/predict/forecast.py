"""What a step takes on any cluster: its strategy's rounds, simulated on its nodes. Pure.

A Cluster is described as a person asks for it: workers, links, slow nodes, computing time. It
becomes nodes and message schedules for the event simulator, which has two constants of the host:

    message_s   of each message, before its first byte leaves
    byte_s      of a core, to move a byte from one node to another

Everything else follows: bytes from the message schedule (with the library's framing), codecs by
their encoded bytes, links by their payload rate (1448 of 1514 bytes on the wire), bursts of token
buckets, buckets that are exchanged while backward computes, and nodes that are late because of
others. Lossy codecs take as long as measured (coding.py); losses are not modelled.
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from typing import Self

from analysis.predict.coding import coding_s
from analysis.predict.lower_bound import all_reduce_bound_s
from analysis.predict.simulation.nodes import Background, Costs, Node, Path, Timeline
from analysis.predict.simulation.simulator import simulate
from analysis.theory.predicted_bytes import WIRE_PER_PAYLOAD, predict, predict_framing
from cluster.spec.background import Flow as BackgroundFlow
from cluster.spec.documents.records import HEADER_BYTES, SEGMENT_BYTES
from cluster.spec.exchange.codecs import FLOAT_BYTES, parse_codec
from cluster.spec.exchange.strategies import StrategyFacts, facts_of
from cluster.spec.link_trace import Trace
from cluster.spec.links import Link
from cluster.spec.schedules.messages import (
    RECEIVER_FRAMING_BYTES,
    Amount,
    Flow,
    Messages,
    Setting,
)
from cluster.spec.schedules.pairwise import cycle_length
from cluster.spec.schedules.recorded import RecordedSchedule
from cluster.spec.synthetic import BACKWARD_SHARE

ROUNDS, MOST_ROUNDS = 2, 256
NODE_BYTES_PER_S = 1e9
"""That a node with a core of its own moves each way: on free links an all-reduce of 100 MB between
two took 84 to 103 ms (2026-11-19, python3 -m bench free_links)."""
MOST_TRACED_ROUNDS = 10_000
"""Where links change over time, all of a run has to be simulated."""
Sites = tuple[int, int]
"""That are simulated where nobody says how many."""
FIRST_BUCKET_BYTES, BUCKET_BYTES = 2**20, 25 * 2**20
"""Defaults of torch's DistributedDataParallel."""
TREE, SMALL_TREE = "reduce-broadcast", 16
"""All nodes of a tree differ, and a round is as long as its root's link takes: log2 N messages."""
LARGEST_PACKET = 64 * 1024
"""Where packets of this size pass a link whole, few acknowledgements are sent."""
ACK_SHARE = HEADER_BYTES / (2 * SEGMENT_BYTES)
"""Else one for two segments."""
MOST_CUT_MBIT = 50
"""Where no burst is known: faster links take large packets whole."""
DATA_FRAMING_BYTES, NOTICES = RECEIVER_FRAMING_BYTES, 2
"""Of Gloo: a header before the data, and as large ones by which both sides say they are ready."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster and a workload, as far as a step's time depends on them."""

    strategy: str
    workers: int
    model_bytes: int
    """Before compression: float32."""
    link: Link | None = None
    """Of every node; None: not throttled."""
    slow: tuple[tuple[int, Link], ...] = ()
    """Ranks with a link of their own."""
    compute_s: float = 0.0
    """Of a step."""
    stragglers: tuple[tuple[int, float], ...] = ()
    """Ranks with a share of a core: below 1 they compute longer."""
    compress: str = "none"
    passes: int | None = None
    schedule: str | None = None
    seed: int = 0
    local_steps: int = 1
    overlap: bool = False
    bucket_bytes: tuple[int, ...] = ()
    """As they are sent; empty: one, or what the strategy makes by itself."""
    sites: tuple[tuple[int, ...], ...] = ()
    """Ranks of each site's workers."""
    order: tuple[int, ...] | None = None
    """Of workers in a ring; None: by rank."""
    paths: tuple[tuple[Sites, Link], ...] = ()
    """Between two sites, by their numbers, where they are shaped; up is from the first."""
    traces: tuple[tuple[int | Sites, Trace], ...] = ()
    """Rates over time of a node's link, or of a path; of a whole run (`rounds`)."""
    background: tuple[BackgroundFlow, ...] = ()
    """What others send between its nodes, all the time."""
    burst_bytes: tuple[float, ...] = ()
    """By node, where links are throttled by token buckets."""
    cores: int | None = None
    """That all nodes share, where they are emulated; None: every node has its own."""
    rounds: int | None = None
    """To simulate; None: until they repeat themselves."""
    recorded: RecordedSchedule | None = None
    """The message schedule of a strategy of the user's own."""

    @property
    def facts(self) -> StrategyFacts:
        return facts_of(self.strategy)

    @property
    def rate_mbit(self) -> float | None:
        return self.link.rate_mbit if self.link else None

    @property
    def sent_model_bytes(self) -> int:
        """The model as it is sent."""
        if self.bucket_bytes:
            return sum(self.bucket_bytes)
        if self.compress == "none":
            return self.model_bytes
        return parse_codec(self.compress).encoded_bytes(max(1, self.model_bytes // FLOAT_BYTES))

    @property
    def buckets(self) -> tuple[int, ...]:
        """Bytes of each, as sent, in the order in which backward completes them."""
        size = self.sent_model_bytes
        if self.bucket_bytes:
            return self.bucket_bytes
        if not self.facts.overlaps_backward or self.model_bytes <= FIRST_BUCKET_BYTES:
            return (size,)
        share = size / self.model_bytes
        first = round(FIRST_BUCKET_BYTES * share)
        if size <= first:
            return (size,)
        count = math.ceil((size - first) / (BUCKET_BYTES * share))
        return (first, *[round((size - first) / count)] * count)

    @property
    def setting(self) -> Setting:
        return Setting(
            workers=self.workers,
            model_bytes=self.sent_model_bytes,
            elements=max(1, self.model_bytes // FLOAT_BYTES),
            compress=self.compress,
            passes=self.passes,
            schedule=self.schedule,
            seed=self.seed,
            bucket_bytes=self.buckets,
            sites=self.sites,
            order=self.order,
        )

    @property
    def with_equal_nodes(self) -> Self:
        return replace(self, slow=(), stragglers=(), paths=(), traces=(), background=())

    @property
    def period(self) -> int:
        """Rounds after which a node begins again with the same partners."""
        if self.passes is None:
            return self.facts.repeat(self.setting).rounds
        return cycle_length(self.workers, self.passes, self.setting.resolved_schedule)


@dataclass(frozen=True)
class Forecast:
    step_s: float
    exchange_s: float
    """What a round adds to computing: exposed communication."""
    sent_bytes: float
    """Payload and framing, per worker and round."""
    busiest_bytes: float
    """Payload that the busiest node sends or receives in a round."""


@functools.lru_cache(maxsize=4096)
def forecast(cluster: Cluster, costs: Costs) -> Forecast:
    """`costs` are those of the host; the cores are the cluster's."""
    round_s = _round_s(cluster, costs)
    plain = replace(cluster.with_equal_nodes, link=None, compute_s=0.0, burst_bytes=())
    sent, busiest = _bytes(plain)
    computing = cluster.compute_s * cluster.local_steps
    return Forecast(round_s / cluster.local_steps, max(0.0, round_s - computing), sent, busiest)


def _round_s(cluster: Cluster, costs: Costs) -> float:
    """Of a large tree of equal nodes: what a level of a small one takes, for each of its levels."""
    if cluster.strategy == TREE and cluster.workers > SMALL_TREE and _is_equal(cluster):
        computing = cluster.compute_s * cluster.local_steps
        small = _round_s(replace(cluster, workers=SMALL_TREE), costs) - computing
        return (
            computing + small * (cluster.workers - 1).bit_length() / (SMALL_TREE - 1).bit_length()
        )
    found = timeline(cluster, costs)
    first = 1 if cluster.rounds else len(found.exchanged) // 2
    return found.median_round_s(cluster.period, cluster.workers, first)


def _is_equal(cluster: Cluster) -> bool:
    uneven = cluster.slow or cluster.stragglers or cluster.paths or cluster.traces
    return not (uneven or cluster.background or cluster.burst_bytes)


def bound_s(cluster: Cluster) -> float | None:
    """The shortest exchange of all schedules on these links; None where there is none to compare.

    That is where not everyone averages with everyone, computing hides the exchange, or the exchange
    has the wait for a straggler in it.
    """
    facts = cluster.facts
    averages_few = cluster.passes is not None or facts.with_one_other
    if averages_few or cluster.overlap or facts.overlaps_backward or cluster.stragglers:
        return None
    slow = dict(cluster.slow)
    links = [slow.get(rank, cluster.link) for rank in range(cluster.workers)]
    ends = [_payload_rates(link) for link in links]
    ups, downs = [up for up, _ in ends], [down for _, down in ends]
    return all_reduce_bound_s(cluster.sent_model_bytes, ups, downs) or None


def _payload_rates(link: Link | None) -> tuple[float, float]:
    """Bytes of payload per second, from the node and to it."""
    if link is None:
        return math.inf, math.inf
    return link.rate_bit / 8 / WIRE_PER_PAYLOAD, link.down_bit / 8 / WIRE_PER_PAYLOAD


def timeline(cluster: Cluster, costs: Costs) -> Timeline:
    """Of as many rounds as the cluster says, or as show what happens."""
    rounds = cluster.rounds or _enough_rounds(cluster)
    pieces = cluster.setting.by_bucket
    emulated = replace(costs, cores=math.inf if cluster.cores is None else cluster.cores)

    def messages(stage: int) -> Messages:
        index, bucket = divmod(stage, len(pieces))
        if cluster.recorded is not None:
            return on_the_wire(cluster.recorded.messages(index))
        return on_the_wire(cluster.facts.messages(index, pieces[bucket]))

    nodes = list(_nodes(cluster, costs))
    most = MOST_TRACED_ROUNDS if cluster.traces else MOST_ROUNDS
    background = [
        Background(flow.source, flow.destination, flow.rate_bit / 8 / WIRE_PER_PAYLOAD)
        for flow in cluster.background
    ]
    return simulate(messages, nodes, min(rounds, most), emulated, _paths(cluster), background)


def train_s(cluster: Cluster, costs: Costs) -> float:
    """From the begin of the first round to the end of the last."""
    return float(timeline(cluster, costs).exchanged[-1].max())


def _paths(cluster: Cluster) -> dict[Sites, Path]:
    """Both directions of every path."""
    traces, found = dict(cluster.traces), {}
    for pair, link in cluster.paths:
        trace: Trace = traces.get(pair, ())
        up, down = _payload_rates(link)
        rates = [(change.at_s, *_payload_rates(change.link(link))) for change in trace]
        ups = tuple((at_s, rate) for at_s, rate, _ in rates)
        downs = tuple((at_s, rate) for at_s, _, rate in rates)
        found[pair] = Path(up, link.delay_s, ups)
        found[pair[::-1]] = Path(down, link.delay_s, downs)
    return found


def _enough_rounds(cluster: Cluster) -> int:
    """Equal nodes repeat the first round; lateness travels from pair to pair."""
    equal = _is_equal(cluster)
    if cluster.passes is None:
        return cluster.period if equal and _have_equal_parts(cluster) else ROUNDS * cluster.period
    return cluster.period if equal else max(2 * cluster.period, 2 * cluster.workers)


def _have_equal_parts(cluster: Cluster) -> bool:
    """Whether all nodes send and receive as much in a round."""
    if cluster.facts.centre:
        return False
    if cluster.recorded is not None:
        return True
    found = predict(cluster.strategy, cluster.setting, cluster.period)
    return math.isclose(found.sent_max, found.sent_mean)


def is_cut_short(cluster: Cluster) -> bool:
    """Whether lateness of slow nodes has not reached all others in the rounds simulated."""
    return not _is_equal(cluster) and _enough_rounds(cluster) > MOST_ROUNDS


def on_the_wire(messages: Messages) -> Messages:
    """What messages take of a link, as payload of full segments that take as much.

    Every part has its own segments, of which the last is not full, and the library's two notices
    are packets of their own. All of it goes with the data.
    """
    return tuple(map(_flow_on_the_wire, messages))


def _flow_on_the_wire(flow: Flow) -> Flow:
    if not flow.cuts:
        whole = flow.parts * _wire_bytes(Fraction(flow.message_bytes) / flow.parts)
        return replace(flow, message_bytes=Fraction(whole))
    sizes = {cut: _wire_bytes(cut) for cut in set(flow.cuts)}
    cuts = tuple(sizes[cut] for cut in flow.cuts)
    return replace(flow, message_bytes=sum(cuts), cuts=cuts)


def _wire_bytes(part_bytes: Amount) -> Fraction:
    part = part_bytes + DATA_FRAMING_BYTES
    packets = math.ceil(part / SEGMENT_BYTES) + NOTICES
    taken = float(part + NOTICES * DATA_FRAMING_BYTES + HEADER_BYTES * packets)
    return Fraction(taken / WIRE_PER_PAYLOAD)


def _nodes(cluster: Cluster, costs: Costs) -> Iterator[Node]:
    """Workers, and a server, which does not compute."""
    slow, stragglers = dict(cluster.slow), dict(cluster.stragglers)
    count = cluster.workers + cluster.facts.has_server
    bursts = cluster.burst_bytes or (0.0,) * count
    encoding_s = _encoding_s(cluster) if costs.encodes else 0.0
    own = NODE_BYTES_PER_S if costs.byte_s and cluster.cores is None else math.inf
    site_of = {rank: site for site, ranks in enumerate(cluster.sites) for rank in ranks}
    traces = dict(cluster.traces)
    for rank in range(count):
        link = slow.get(rank, cluster.link)
        changes: Trace = traces.get(rank, ()) if link else ()
        up, down = _payload_rates(link)
        longer = cluster.local_steps / min(1.0, stragglers.get(rank, 1.0))
        compute_s = cluster.compute_s * longer if rank < cluster.workers else 0.0
        yield Node(
            up=min(up, own),
            down=min(down, own),
            delay_s=link.delay_s if link else 0.0,
            burst_bytes=bursts[rank] / WIRE_PER_PAYLOAD,
            ack_share=_ack_share(link, bursts[rank]),
            compute_s=compute_s + (encoding_s if rank < cluster.workers else 0.0),
            earlier_s=_earlier(cluster, compute_s / cluster.local_steps),
            site=site_of.get(rank, 0),
            trace=tuple(
                (change.at_s, *_payload_rates(change.link(link))) for change in changes if link
            ),
        )


def _encoding_s(cluster: Cluster) -> float:
    """Of a round, before anything is sent; workers that share cores encode at the same time."""
    numbers = max(1, cluster.model_bytes // FLOAT_BYTES)
    alone_s = coding_s(cluster.strategy, cluster.compress, cluster.workers, numbers)
    return alone_s * max(1.0, cluster.workers / (cluster.cores or math.inf))


def _ack_share(link: Link | None, burst_bytes: float) -> float:
    if link is None:
        return 0.0
    is_cut = burst_bytes < LARGEST_PACKET if burst_bytes else link.slowest_mbit <= MOST_CUT_MBIT
    return ACK_SHARE if is_cut else 0.0


def _earlier(cluster: Cluster, compute_s: float) -> tuple[float, ...]:
    """How long before computing ends each bucket is ready."""
    sizes = cluster.buckets
    blocks = parse_codec(cluster.compress).lossy  # backward waits for its exchange
    if blocks or not (cluster.overlap or cluster.facts.overlaps_backward):
        return (0.0,) * len(sizes)
    backward_s = compute_s * BACKWARD_SHARE
    return tuple(backward_s * (1 - done / sum(sizes)) for done in accumulate(sizes))


@functools.cache
def _bytes(cluster: Cluster) -> tuple[float, float]:
    """Sent by a worker, with framing; and sent or received by the busiest node."""
    rounds = min(cluster.period * 2, 200) if cluster.passes else cluster.period
    found = predict(cluster.strategy, cluster.setting, cluster.rounds or rounds, cluster.recorded)
    if cluster.recorded is not None:  # how it cuts its messages is its own matter
        return found.sent_mean, max(found.sent_max, found.received_max)
    added = predict_framing(cluster.strategy, cluster.setting, cluster.rounds or rounds)
    return found.sent_mean + added.sent_mean, max(found.sent_max, found.received_max)
