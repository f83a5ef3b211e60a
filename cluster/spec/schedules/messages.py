"""Message schedules: who sends how many bytes to whom in a round, and what each message waits for.

A message schedule is a pure function of the round's number and a Setting; it returns the messages
of that round. All that is said about a strategy's traffic follows from this value: bytes by rank,
the traffic matrix, bounds, the critical path, who waits for whom (analysis/theory).

Steps. Every message has a step, and a rank sends its messages in the order of their steps. A
message that leaves rank r at step k waits for all messages that reach r at steps before k, and for
nothing else: two messages of one rank with no arrival between them leave at the same time and
share the link. A message may be cut into parts: each part waits only for the same part of the
messages that the message depends on, so that rounds flow like a pipeline.

The building blocks, for M bytes:

    ring    g members cut M into g pieces. In g-1 steps each passes a piece to its neighbour and
            adds what arrives, so that each owns the sum of one piece; in g-1 more steps the sums
            go round: 2(g-1) messages of M/g. No all-reduce sends less on average: every piece must
            leave all but one of its g holders to be added up, and reach g-1 of them again as a sum
    star    leaves send M to a centre, which sends M back to each of them, chunk by chunk
    two phases   everyone sends piece j, M/g, to member j, which averages what it got, encodes it
            again and sends it to everyone: 2(g-1) messages of M/g, for codes that do not add up
    halving-doubling   partners at distance P/2, P/4, ..., 1 swap halves of halves, then pieces:
            2 log2 P messages
    tree    binomial: place p hangs below p without its lowest binary 1. Sums go up, one level a
            step; results go down, to all children at once. Both chunk by chunk, at the same time

Equal messages are stored as one flow with a count: a ring of 1,024 is one flow of 2,046 steps. Not
modelled: packet headers, acknowledgements, and pieces of a ring that are of unequal size where M/g
is not whole. What the library adds to every part (framing) is a message schedule of its own.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple, Self

from cluster.spec.exchange.codecs import (
    FLOAT_BYTES,
    HALF_BYTES,
    HALVES,
    parse_codec,
    takes_two_phases,
)
from cluster.spec.schedules.consensus import resolve
from cluster.spec.schedules.pairwise import EVERY_ROUND, Partition, Repeat, groups, repeat


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the messages of a round depend on."""

    workers: int
    model_bytes: int
    """Gradients or parameters of one model, as they are sent (after compression)."""
    compress: str = "none"
    """The codec: a lossy one is exchanged in two phases instead of a ring."""
    passes: int | None = None
    schedule: str | None = None
    """Of a strategy with passes; None and `auto` are what choose_schedule() takes."""
    seed: int = 0
    buffers: str = "local"
    """What happens to buffers such as batch-norm statistics: see strategies.BUFFERS."""
    buffer_bytes: int = 0
    elements: int | None = None
    """Numbers of the model before encoding; None: as many as are encoded into `model_bytes`."""
    bucket_bytes: tuple[int, ...] = ()
    """Of the pieces in which the model is exchanged one after the other; empty: it is one piece."""
    sites: tuple[tuple[int, ...], ...] = ()
    """Ranks of each site's workers; empty without sites."""
    fragments: int = 1
    """Parts of the model of which a round exchanges one, in turn: bucket_bytes are theirs."""
    first_round: int = 0
    """Rounds before round 0: of the run that this one goes on with."""
    order: tuple[int, ...] | None = None
    """Our ranks in the order of the library's, where that is another one: with Horovod, and where
    the workers of a site are neighbours (--ring-order)."""

    def __post_init__(self) -> None:
        for name, least in (("workers", 1), ("model_bytes", 0), ("buffer_bytes", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be {least} or more, not {getattr(self, name)}")

    @property
    def exchanged_bytes(self) -> int:
        """Of one worker in a round: averaged buffers are exchanged with the model."""
        return self.model_bytes + (self.buffer_bytes if self.buffers == "average" else 0)

    @property
    def item_bytes(self) -> int:
        """Of a number as it is sent, where numbers are added up."""
        return HALF_BYTES if self.compress in HALVES else FLOAT_BYTES

    @property
    def by_bucket(self) -> list[Self]:
        """The setting of each piece; buffers go with the last."""
        if len(self.bucket_bytes) < 2 or self.fragments > 1:
            return [self]
        alone: dict[str, Any] = {"bucket_bytes": (), "buffer_bytes": 0, "elements": None}
        pieces = [replace(self, model_bytes=size, **alone) for size in self.bucket_bytes]
        return [*pieces[:-1], replace(pieces[-1], buffer_bytes=self.buffer_bytes)]

    @property
    def ring(self) -> tuple[int, ...]:
        """All workers, in the order in which the library's collectives connect them."""
        return tuple(range(self.workers)) if self.order is None else self.order

    @property
    def repeat(self) -> Repeat:
        """When the same messages come again, and between which ranks; always without passes."""
        if self.fragments > 1:
            return Repeat(self.fragments, 0)
        if self.passes is None:
            return EVERY_ROUND
        return repeat(self.workers, self.passes, self.resolved_schedule)

    @property
    def resolved_schedule(self) -> str:
        """The schedule that `auto` or None stands for."""
        if self.passes is None:
            raise ValueError("passes must be given: how many hops an update travels, 1 or more")
        return resolve(self.workers, self.passes, self.schedule, self.seed)

    def groups(self, index: int) -> Partition:
        """Workers that average with each other in this round, for a strategy with passes."""
        schedule = self.resolved_schedule
        assert self.passes is not None
        return groups(self.first_round + index, self.workers, self.passes, schedule, self.seed)

    def of_fragment(self, index: int) -> Self:
        """The setting of the fragment that is exchanged in this round."""
        if self.fragments == 1:
            return self
        at = (self.first_round + index) % self.fragments

        def part(whole: int) -> int:
            return whole // self.fragments + (at < whole % self.fragments)

        size = self.bucket_bytes[at] if self.bucket_bytes else part(self.model_bytes)
        elements = None if self.elements is None else part(self.elements)
        alone: dict[str, Any] = {"bucket_bytes": (), "fragments": 1, "elements": elements}
        return replace(self, model_bytes=size, **alone)


CHUNKS, FEW_CHUNKS, LEAST_CHUNK_BYTES = 128, 6, 32 * 1024
"""Parts of a message that is passed on part by part: about so many, none smaller but at its two
ends and in short messages."""
MANY_CHUNKS = 16
SEGMENT_BYTES = 2**20
"""Most of a segment of Gloo's all-reduce."""
SENDER_FRAMING_BYTES, RECEIVER_FRAMING_BYTES = 96, 48
"""Gloo's headers of 48 bytes each: for a message the sender says that it is ready and marks the
data, the receiver says that it is ready, back to the sender (gloo/transport/tcp/pair.cc)."""
Amount = int | Fraction
"""Bytes, exactly: a piece of a ring need not be whole."""


@dataclass(frozen=True)
class Flow:
    """Equal messages: sources[i] sends to destinations[i], `count` times in consecutive steps."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]
    message_bytes: Amount
    step: int = 0
    count: int = 1
    parts: Amount = 1
    """Of each message, on average: the library sends them as messages of their own."""
    cuts: tuple[Amount, ...] = ()
    """Bytes of each part; empty: they are equal."""
    in_step: bool = False
    """Whether it also waits for what reaches its destination at earlier steps: where a rank asks
    for a message only after the one before, the library holds it back until then."""

    @property
    def pair_bytes(self) -> Amount:
        """From each source to its destination, in all steps together."""
        return self.count * self.message_bytes


Messages = tuple[Flow, ...]
MessageSchedule = Callable[[int, Setting], Messages]
"""(number of the round, setting) -> the messages of that round."""


class Message(NamedTuple):
    """A single message of a round; `waits_for` are places of messages in each_message().

    For example, in gather-scatter among 3 workers messages 0 and 1 go to the root and wait for
    nothing; messages 2 and 3 come back from the root, and `waits_for` of both is (0, 1).
    What its source has waited for at an earlier step is left out, unless nothing has arrived since.
    """

    source: int
    destination: int
    bytes: Amount
    step: int
    parts: Amount
    cuts: tuple[Amount, ...]
    waits_for: tuple[int, ...]


def step_count(messages: Messages) -> int:
    """Messages that follow each other in a round."""
    return max((flow.step + flow.count for flow in messages), default=0)


def each_message(messages: Messages) -> list[Message]:
    """Every message by itself, in the order of steps: 2N(N-1) of them for a ring of N."""
    found: list[Message] = []
    arrived: dict[int, list[int]] = {}
    waited: dict[int, tuple[int, ...]] = {}
    for step in range(step_count(messages)):
        now = [flow for flow in messages if flow.step <= step < flow.step + flow.count]
        for rank in set(chain.from_iterable(flow.sources for flow in now)):
            waited[rank] = tuple(arrived.pop(rank, ())) or waited.get(rank, ())
        begin = len(found)
        for flow in now:
            for source, destination in zip(flow.sources, flow.destinations, strict=True):
                message = (source, destination, flow.message_bytes, step, flow.parts, flow.cuts)
                others = arrived.get(destination) or waited.get(destination, ())
                more = [place for place in others if flow.in_step and place < begin]
                waits_for = tuple(sorted({*waited[source], *more})) if more else waited[source]
                found.append(Message(*message, waits_for))
        for place in range(begin, len(found)):
            arrived.setdefault(found[place].destination, []).append(place)
    return found


def chunk_lengths(length: int, least: int) -> list[int]:
    """The chunks of a pipelined message of so many elements; `least` is the usual least length.

    A pipeline idles for its first chunk while it fills and for its last while it drains. So the
    chunks at both ends of a long message are an eighth, a quarter and half as long as the others,
    and a short one has FEW_CHUNKS equal ones, or fewer of about a quarter of that.
    """
    short = max(-(-length // FEW_CHUNKS), least // 4, 1)
    size = max(-(-length // CHUNKS), min(short, least))
    ends = [size // 8, size // 4, size // 2] if length >= MANY_CHUNKS * size else []
    middle = length - 2 * sum(ends)
    shorter, longer = divmod(middle, count) if (count := -(-middle // size)) else (0, 0)
    chunks = [shorter + 1] * longer + [shorter] * (count - longer)
    return [*ends, *chunks, *reversed(ends)]


def framing(messages: Messages) -> Messages:
    """The bytes that Gloo adds to these messages, which go both ways."""
    return tuple(
        Flow(*ends, size * flow.parts, flow.step, flow.count)
        for flow in messages
        if flow.message_bytes
        for ends, size in (
            ((flow.sources, flow.destinations), SENDER_FRAMING_BYTES),
            ((flow.destinations, flow.sources), RECEIVER_FRAMING_BYTES),
        )
    )


def boundary_bytes(nodes: int) -> int:
    """What a node sends in a phase by passing its boundaries (workloads/comm/peers.py).

    Two barriers, of which each is log2 N empty messages in Gloo (gloo/barrier.cc).
    """
    return 2 * (nodes - 1).bit_length() * (SENDER_FRAMING_BYTES + RECEIVER_FRAMING_BYTES)


def pipeline_cuts(message_bytes: int) -> dict[str, Any]:
    """Of a flow of messages that are passed on part by part (workloads/comm/messages.py)."""
    cuts = tuple(chunk_lengths(message_bytes, LEAST_CHUNK_BYTES))
    return {"parts": len(cuts) or 1, "cuts": cuts}


def all_reduce_segments(message_bytes: int, workers: int, item_bytes: int) -> int:
    """Of a tensor in Gloo's all-reduce (gloo/allreduce.cc).

    As many for each worker, and two at least, so that one is added up while the other travels.
    Each is rounded up to whole numbers, so that a small tensor ends before the last ones: 436 bytes
    among 6 workers are 10 segments of 40 bytes and one of 36, and the twelfth is not sent.
    """
    each = max(2, -(-message_bytes // (SEGMENT_BYTES * workers)))
    items = -(-message_bytes // (each * workers * item_bytes))
    return -(-message_bytes // max(1, items * item_bytes))


# --------------------------------------------------------------------------------- building blocks


def _rings(members: Iterable[Sequence[int]], message_bytes: int) -> Iterator[Flow]:
    """A ring in every group, written with send and receive: to the next member.

    Two members send each other everything at once.
    """
    for size, same in _by_size(members).items():
        if size == 2:
            yield _round_the_ring(same, message_bytes, 1, 1)
        else:
            yield _round_the_ring(same, Fraction(message_bytes, size), 2 * (size - 1), 1)


def _library_rings(members: Iterable[Sequence[int]], setting: Setting) -> Iterator[Flow]:
    """The library's all-reduce in every group: to the member before."""
    total = setting.exchanged_bytes
    for size, same in _by_size(members).items():
        flow = _round_the_ring(same, Fraction(total, size), 2 * (size - 1), -1)
        segments = all_reduce_segments(total, size, setting.item_bytes)
        yield replace(flow, parts=Fraction(segments, size))


def _by_size(groups: Iterable[Sequence[int]]) -> dict[int, list[Sequence[int]]]:
    found: dict[int, list[Sequence[int]]] = {}
    for members in groups:
        if len(members) > 1:
            found.setdefault(len(members), []).append(members)
    return found


def _round_the_ring(
    groups: Sequence[Sequence[int]], message_bytes: Amount, count: int, shift: int
) -> Flow:
    neighbours = ((*members[shift:], *members[:shift]) for members in groups)
    sources = tuple(chain.from_iterable(groups))
    return Flow(sources, tuple(chain.from_iterable(neighbours)), message_bytes, count=count)


def _star(centre: int, leaves: Sequence[int], message_bytes: int) -> Messages:
    if not leaves:
        return ()
    ends, middle = tuple(leaves), (centre,) * len(leaves)
    cuts = pipeline_cuts(message_bytes)
    return (
        Flow(ends, middle, message_bytes, step=0, **cuts),
        Flow(middle, ends, message_bytes, step=1, **cuts),
    )


def _in_one_piece(star: Messages, setting: Setting) -> Messages:
    """Lossy codes are decoded and averaged as a whole, not chunk by chunk."""
    if parse_codec(setting.compress).adds_up:
        return star
    return tuple(replace(flow, parts=1, cuts=()) for flow in star)


def _two_phases(members: Sequence[int], setting: Setting) -> Messages:
    """Everyone sends piece j to member j, which sends its mean of them back to everyone.

    Each piece is encoded by itself. The first ones have a number more where there is a rest.
    """
    codec, count = parse_codec(setting.compress), len(members)
    elements = setting.elements or codec.elements_of(setting.model_bytes)
    length, rest = divmod(elements, count)
    pieces = ((length + 1, members[:rest]), (length, members[rest:]))
    flows = []
    for phase in range(2):
        for numbers, owners in pieces:
            pairs = [(owner, other) for owner in owners for other in members if other != owner]
            if pairs and numbers:
                mine, others = zip(*pairs, strict=True)
                ends = (mine, others) if phase else (others, mine)
                flows.append(Flow(*ends, codec.encoded_bytes(numbers), step=phase))
    return tuple(flows)


def parent_of(place: int) -> int:
    """In a binomial tree: the place without its lowest binary 1."""
    return place & (place - 1)


def children_of(place: int, places: int) -> list[int]:
    """In a binomial tree of so many places, the nearest first."""
    below = place & -place or places
    distances = (2**level for level in range(below.bit_length()) if 2**level < below)
    return [place + distance for distance in distances if place + distance < places]


def _levels(places: Sequence[int]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Children and parents in a binomial tree, by the lowest binary 1 of the child's place."""
    levels = []
    for level in range((len(places) - 1).bit_length()):
        children = range(2**level, len(places), 2 ** (level + 1))
        parents = (places[parent_of(child)] for child in children)
        levels.append((tuple(places[child] for child in children), tuple(parents)))
    return levels


def _up_the_tree(places: Sequence[int], message_bytes: int) -> Messages:
    return tuple(
        Flow(children, parents, message_bytes, step)
        for step, (children, parents) in enumerate(_levels(places))
    )


def _down_the_tree(places: Sequence[int], message_bytes: int, first_step: int) -> Messages:
    return tuple(
        Flow(parents, children, message_bytes, first_step + step)
        for step, (children, parents) in enumerate(reversed(_levels(places)))
    )


# ----------------------------------------------------------------- message schedules of strategies


def nothing(_index: int, _setting: Setting) -> Messages:
    return ()


def unknown(_index: int, _setting: Setting) -> Messages:
    """Of a strategy of the user's own: only nodes call its messages() (schedules/recorded.py)."""
    raise ValueError("the messages of a strategy of your own are known from its runs only")


def all_reduce(_index: int, setting: Setting) -> Messages:
    """A ring of everybody. Gloo's all-reduce, which Horovod uses too, sends to the rank before.

    Lossy codes cannot be added up: they go in two phases, or round a ring as they are.
    """
    codec = parse_codec(setting.compress)
    if takes_two_phases(codec, setting.workers):
        return _two_phases(setting.ring, setting)
    if not codec.adds_up:
        return all_gather(_index, setting)
    return tuple(_library_rings([setting.ring], setting))


def all_reduce_in_turn(index: int, setting: Setting) -> Messages:
    """Of a fragment of the model, where rounds exchange one (--stream)."""
    return all_reduce(index, setting.of_fragment(index))


def ring(_index: int, setting: Setting) -> Messages:
    """A ring of everybody, written with send and receive: to the next rank."""
    return tuple(_rings([setting.ring], setting.exchanged_bytes))


def halving_doubling(_index: int, setting: Setting) -> Messages:
    """Partners at distance P/2, ..., 1 swap halves, then pieces, P being a power of two.

    Ranks from P on hand their M to the rank P below before, and get the result back.
    """
    if setting.workers == 1:
        return ()
    power = 1 << setting.workers.bit_length() - 1
    late, early = tuple(range(power, setting.workers)), tuple(range(setting.workers - power))
    first = 1 if late else 0
    size, ranks = setting.exchanged_bytes, tuple(range(power))
    flows = [Flow(late, early, size)] if late else []
    distances = [power >> level for level in range(1, power.bit_length())]
    for step, distance in enumerate((*distances, *reversed(distances))):
        partners = tuple(rank ^ distance for rank in ranks)
        flows.append(Flow(ranks, partners, Fraction(size * distance, power), step=first + step))
    if late:
        flows.append(Flow(early, late, size, step=first + 2 * len(distances)))
    return tuple(replace(flow, in_step=True) for flow in flows)


def all_gather(_index: int, setting: Setting) -> Messages:
    """Everyone's M goes round the ring, chunk by chunk: N-1 messages of M."""
    if setting.workers == 1:
        return ()
    flow = _round_the_ring([setting.ring], setting.exchanged_bytes, setting.workers - 1, 1)
    return (replace(flow, **pipeline_cuts(setting.exchanged_bytes)),)


def gather_scatter(_index: int, setting: Setting) -> Messages:
    """The leaves send M to the root (worker 0), the root sends M back to each."""
    found = _star(0, range(1, setting.workers), setting.exchanged_bytes)
    return _in_one_piece(found, setting)


def parameter_server(_index: int, setting: Setting) -> Messages:
    """A star around the server, the rank after the last worker's."""
    found = _star(setting.workers, range(setting.workers), setting.exchanged_bytes)
    return _in_one_piece(found, setting)


def reduce_broadcast(_index: int, setting: Setting) -> Messages:
    """Chunk by chunk: the mean of one goes down while sums of the next ones go up."""
    up = _up_the_tree(setting.ring, setting.exchanged_bytes)
    down = _down_the_tree(setting.ring, setting.exchanged_bytes, step_count(up))
    cuts = pipeline_cuts(setting.exchanged_bytes)
    return tuple(replace(flow, **cuts) for flow in up + down)


def groups_of_neighbours(index: int, setting: Setting) -> Messages:
    """A ring in every group of the round; a pair sends each other all of M at once.

    One group of all workers is the library's all-reduce. Smaller groups use send and receive; with
    Horovod they are all-reduces, too, in the order of its ranks.
    """
    found = setting.groups(index)
    to_next = setting.order is None and len(found) > 1
    if setting.order is not None:
        place = {rank: at for at, rank in enumerate(setting.order)}
        found = tuple(tuple(sorted(members, key=place.__getitem__)) for members in found)
    if to_next:
        return tuple(_rings(found, setting.exchanged_bytes))
    return tuple(_library_rings(found, setting))


def broadcast_of_buffers(setting: Setting, first_step: int) -> Messages:
    """From worker 0 down a tree of the library's ranks, where buffers are broadcast."""
    if setting.buffers != "broadcast" or not setting.buffer_bytes:
        return ()
    root = setting.ring.index(0)
    places = (*setting.ring[root:], *setting.ring[:root])
    return _down_the_tree(places, setting.buffer_bytes, first_step)
