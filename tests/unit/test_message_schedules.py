"""Messages of a round: what each of them waits for, and what follows for the round as a whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from analysis.theory.critical_path import path_bytes
from analysis.theory.predicted_bytes import predict_framing
from cluster.spec.exchange.strategies import STRATEGIES, facts_of, messages
from cluster.spec.schedules.messages import (
    CHUNKS,
    LEAST_CHUNK_BYTES,
    Amount,
    Flow,
    Message,
    Messages,
    Setting,
    chunk_lengths,
    each_message,
    framing,
    step_count,
)
from cluster.spec.schedules.pairwise import SCHEDULES

SIZE = 840
WORKERS = [1, 2, 3, 4, 5, 6, 7, 8, 13]


def setting(strategy: str, workers: int, **options: object) -> Setting:
    passes = 2 if STRATEGIES[strategy].has_passes else None
    return Setting(workers=workers, model_bytes=SIZE, passes=passes, schedule="ring", **options)  # type: ignore[arg-type]


def round_of(strategy: str, workers: int, index: int = 0) -> Messages:
    """The exchange, and a broadcast of buffers after it."""
    return messages(
        strategy, index, setting(strategy, workers, buffers="broadcast", buffer_bytes=7)
    )


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_single_messages_add_up_to_their_flows(strategy: str, workers: int) -> None:
    found = round_of(strategy, workers)
    total: Counter[tuple[int, int]] = Counter()
    for message in each_message(found):
        total[message.source, message.destination] += message.bytes  # type: ignore[assignment]
    expected: Counter[tuple[int, int]] = Counter()
    for flow in found:
        for pair in zip(flow.sources, flow.destinations, strict=True):
            expected[pair] += flow.pair_bytes  # type: ignore[assignment]
    assert total == expected
    assert step_count(found) == max(
        (message.step + 1 for message in each_message(found)), default=0
    )


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_message_waits_for_all_that_reached_its_source_before(
    strategy: str, workers: int
) -> None:
    """With what its source's earlier messages waited for, these are all earlier arrivals.

    And those at its destination, where ranks go from step to step.
    """
    found = round_of(strategy, workers)
    each, in_step = each_message(found), {flow.step for flow in found if flow.in_step}
    waited: dict[int, set[int]] = {}
    for message in each:
        together = message.step in in_step
        ends = {message.source, message.destination} if together else {message.source}
        of_ends = waited.setdefault(message.source, set())
        of_ends.update(message.waits_for, *(waited.get(rank, set()) for rank in ends))
        before = {
            place
            for place, other in enumerate(each)
            if other.destination in ends and other.step < message.step
        }
        assert before <= of_ends if in_step else before == of_ends, message


@pytest.mark.parametrize("workers", WORKERS[1:])
@pytest.mark.parametrize(
    "strategy", [name for name, facts in STRATEGIES.items() if facts.averages_everything]
)
def test_at_the_end_every_worker_has_heard_of_every_other(strategy: str, workers: int) -> None:
    """A message carries what its source has heard of by all that it waited for."""
    if not STRATEGIES[strategy].exchanges:
        return
    heard = {rank: {rank} for rank in range(workers + 1)}
    each = each_message(facts_of(strategy).messages(0, setting(strategy, workers)))
    carried: list[set[int]] = []
    for message in each:
        heard[message.source].update(*(carried[place] for place in message.waits_for))
        carried.append(set(heard[message.source]))
    for message, ranks in zip(each, carried, strict=True):
        heard[message.destination] |= ranks
    assert all(heard[rank] >= set(range(workers)) for rank in range(workers))


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_round_repeats_as_its_setting_says(strategy: str, workers: int) -> None:
    """After `rounds` rounds the same messages come again, between ranks that have moved on."""
    schedules = [name for name in SCHEDULES if not SCHEDULES[name].pairs_only]
    for schedule in schedules if STRATEGIES[strategy].has_passes else [None]:
        repeating = replace(setting(strategy, workers), schedule=schedule)
        repeat = facts_of(strategy).repeat(repeating)
        if repeat.shift is None:
            continue
        for index in range(5):
            first, again = (
                pairs_of(facts_of(strategy).messages(t, repeating))
                for t in (index, index + repeat.rounds)
            )
            moved = {
                ((i + repeat.shift) % workers, (j + repeat.shift) % workers): count
                for (i, j), count in first.items()
            }
            assert again == (moved if repeat.shift else first)


def pairs_of(messages: Messages) -> dict[tuple[int, int], Amount]:
    return {
        pair: flow.pair_bytes
        for flow in messages
        for pair in zip(flow.sources, flow.destinations, strict=True)
    }


def test_a_step_of_a_ring_waits_for_the_neighbours_step_before() -> None:
    each = each_message(facts_of("ring").messages(0, Setting(workers=4, model_bytes=SIZE)))
    assert len(each) == 6 * 4
    for message in each:
        expected = [] if message.step == 0 else [(message.step - 1, (message.source - 1) % 4)]
        assert [(each[at].step, each[at].source) for at in message.waits_for] == expected


def test_a_root_waits_for_all_its_leaves_and_buffers_for_the_exchange() -> None:
    star = Setting(workers=4, model_bytes=SIZE, buffers="broadcast", buffer_bytes=7)
    each = each_message(messages("gather-scatter", 0, star))
    gathered = [at for at, message in enumerate(each) if message.destination == 0]
    assert [(m.source, m.destination, int(m.bytes)) for m in each if m.step == 1] == [
        (0, leaf, SIZE) for leaf in (1, 2, 3)
    ]
    sent = [m for m in each if m.source == 0]
    assert {m.bytes for m in sent} == {SIZE, 7}
    assert all(m.waits_for == tuple(gathered) for m in sent)


def arrivals(each: list[Message]) -> Amount:
    """The end of a round in which a message takes its bytes' time, however many share a link."""
    ends: list[Amount] = []
    for message in each:
        begin = max((ends[at] for at in message.waits_for), default=0)
        ends.append(begin + message.bytes)
    return max(ends, default=0)


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_round_is_shorter_than_its_longest_chain_of_messages(
    strategy: str, workers: int
) -> None:
    found = facts_of(strategy).messages(0, setting(strategy, workers))
    if not any(flow.parts > 1 for flow in found):
        assert path_bytes(found) >= arrivals(each_message(found))


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_message_of_the_library_adds_144_bytes(strategy: str, workers: int) -> None:
    large = replace(setting(strategy, workers), model_bytes=10**6)
    found = facts_of(strategy).messages(0, large)
    parts = sum(flow.parts * flow.count * len(flow.sources) for flow in found)
    assert sum(flow.pair_bytes * len(flow.sources) for flow in framing(found)) == 144 * parts


@pytest.mark.parametrize("size", [0, 1, 8192, 8193, 48_000, 87_040, 10**6, 4 * 10**6, 10**8])
def test_the_chunks_of_a_pipeline_are_all_of_it_and_short_at_its_ends(size: int) -> None:
    chunks = chunk_lengths(size, LEAST_CHUNK_BYTES)
    assert sum(chunks) == size
    assert min(chunks, default=1) >= 1
    assert max(chunks, default=0) <= max(LEAST_CHUNK_BYTES, -(-size // CHUNKS))
    assert max(chunks, default=0) >= min(size, LEAST_CHUNK_BYTES // 8)
    filling = chunks[0] + chunks[-1] if chunks else 0
    assert filling <= max(2 * LEAST_CHUNK_BYTES / 4, size / 3 + 2)


def test_an_all_reduce_cuts_its_pieces_in_two_and_a_star_in_chunks() -> None:
    def sent(strategy: str, size: int, *buckets: int) -> float:
        found = Setting(workers=4, model_bytes=size, bucket_bytes=buckets)
        return predict_framing(strategy, found).sent_mean

    assert sent("allreduce", 87_040) == 144 * 12
    assert sent("allreduce", 40 * 2**20) == 144 * 60  # ten parts of 1 MiB to a piece
    assert sent("ring", 87_040) == 144 * 6
    assert sent("gather-scatter", 87_040) == 144 * 6 * 1.5  # six chunks
    assert sent("allreduce", 87_040, 40_000, 47_040) == 144 * 24


def test_a_star_that_is_not_pipelined_gathers_before_it_scatters() -> None:
    up = Flow((1, 2, 3), (0, 0, 0), SIZE)
    down = Flow((0, 0, 0), (1, 2, 3), SIZE, step=1)
    assert path_bytes((up, down)) == 6 * SIZE
    large = Setting(workers=4, model_bytes=10**6)
    assert path_bytes(facts_of("gather-scatter").messages(0, large)) == 3 * 10**6
