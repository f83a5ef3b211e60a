"""From raw counters to bytes: nothing is lost at a phase boundary, a restart or a gap."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as some

from analysis.summary.counters import (
    activity_sum,
    by_phase,
    by_source,
    enclosing,
    retransmitted,
    span,
)
from analysis.summary.node_log import NodeLog
from cluster.spec.documents.events import Boundary, End, Event, Phase, Step
from cluster.spec.documents.records import PHASES, Counters, Sample, total

increments = some.lists(
    some.builds(Counters, *[some.integers(0, 10**12)] * 4), min_size=0, max_size=20
)


def cumulative(steps: list[Counters], start: Counters) -> list[Counters]:
    readings = [start]
    for step in steps:
        readings.append(readings[-1] + step)
    return readings


def both(count: int) -> Counters:
    """A counter that shows the same number everywhere."""
    return Counters(count, count, count, count)


# --- span ----------------------------------------------------------------------------------------


@given(increments, some.integers(0, 10**12))
def test_a_span_is_the_last_reading_less_the_first(steps: list[Counters], start: int) -> None:
    readings = cumulative(steps, both(start))
    assert span(readings) == readings[-1] - readings[0]


@given(increments, increments)
def test_spans_that_meet_add_up(before: list[Counters], after: list[Counters]) -> None:
    readings = cumulative(before + after, both(7))
    middle = len(before)
    assert span(readings[: middle + 1]) + span(readings[middle:]) == span(readings)


def test_a_single_reading_or_none_spans_nothing() -> None:
    assert span([]) == Counters()
    assert span([both(123)]) == Counters()


def test_what_a_restarted_counter_shows_is_all_new() -> None:
    assert span([both(100), both(250), both(30), both(70)]) == both(150 + 30 + 40)


def test_a_counter_that_restarts_twice_counts_all_three_stretches() -> None:
    assert span([both(100), both(150), both(0), both(20), both(5)]) == both(50 + 0 + 20 + 5)


def test_a_restart_is_seen_in_either_direction() -> None:
    sent_fell = [Counters(100, 10, 0, 0), Counters(40, 4, 50, 5)]
    received_fell = [Counters(0, 0, 100, 10), Counters(50, 5, 40, 4)]
    assert span(sent_fell) == Counters(40, 4, 50, 5)
    assert span(received_fell) == Counters(50, 5, 40, 4)


def test_a_counter_that_stands_still_has_not_restarted() -> None:
    assert span([both(100)] * 5) == Counters()


# --- phases --------------------------------------------------------------------------------------


def phase(name: str, count: int, t: float = 0.0) -> Phase:
    return Phase(phase=name, t=t, counters=both(count))


def end(count: int) -> End:
    return End(t=9.0, counters=both(count))


def booked(*events: Event) -> dict[str, Counters]:
    return by_phase(NodeLog(events))


def test_phases_that_recur_are_booked_together() -> None:
    assert booked(
        phase("setup", 10),
        phase("train", 15),
        phase("evaluate", 115),
        phase("train", 120),
        phase("evaluate", 320),
        phase("finish", 327),
        end(336),
    ) == {
        "setup": both(5),
        "train": both(100 + 200),
        "evaluate": both(5 + 7),
        "finish": both(9),
        "recover": both(0),
    }


@given(some.lists(some.tuples(some.sampled_from(PHASES), some.integers(0, 10**9)), max_size=12))
def test_phases_add_up_to_the_whole(intervals: list[tuple[str, int]]) -> None:
    events: list[Event] = []
    count = 5
    for name, passed in intervals:
        events.append(phase(name, count))
        count += passed
    found = booked(*events, end(count))
    assert total(found.values()) == both(sum(passed for _, passed in intervals))
    for each in PHASES:
        assert found[each] == both(sum(passed for name, passed in intervals if name == each))


def test_every_phase_is_there_even_without_events() -> None:
    assert booked() == dict.fromkeys(PHASES, Counters())


def test_a_boundary_belongs_to_both_phases_and_no_byte_to_both() -> None:
    """A phase that lasted no byte stays at zero between two that had some."""
    found = booked(phase("setup", 0), phase("train", 100), phase("evaluate", 100), end(150))
    assert [found[name].sent_bytes for name in PHASES] == [100, 0, 50, 0, 0]


def test_a_phase_that_did_not_end_is_not_booked() -> None:
    found = booked(phase("setup", 0), phase("train", 100))
    assert found["setup"] == both(100)
    assert found["train"] == Counters()


def test_events_between_boundaries_do_not_move_bytes() -> None:
    step = Step(step_s=0.1, data_s=0, compute_s=0.1, exchange_s=0)
    with_steps = booked(phase("train", 0), step, step, phase("finish", 50), step, end(60))
    assert with_steps == booked(phase("train", 0), phase("finish", 50), end(60))


def test_stays_in_a_phase_keep_their_order() -> None:
    log = NodeLog(
        [phase("train", 0, 1.0), phase("evaluate", 5, 2.0), phase("train", 6, 3.5), end(8)]
    )
    assert [(start.phase, start.t) for start, _ in log.phase_intervals] == [
        ("train", 1.0),
        ("evaluate", 2.0),
        ("train", 3.5),
    ]
    assert log.seconds("train") == [1.0, 5.5]


def test_retransmissions_are_booked_to_phases_too() -> None:
    boundaries: list[Boundary] = [
        phase("train", 0),
        phase("evaluate", 5),
        phase("train", 6),
        end(8),
    ]
    log = NodeLog(
        [
            dataclasses.replace(boundary, retransmitted_bytes=count)
            for boundary, count in zip(boundaries, (100, 140, 150, 155), strict=True)
        ]
    )
    assert retransmitted(log, "train") == 45
    assert retransmitted(log, "evaluate") == 10
    assert retransmitted(NodeLog(boundaries), "train") is None


# --- samples -------------------------------------------------------------------------------------


def samples(source: str, node: str, readings: list[tuple[float, int]]) -> list[Sample]:
    return [Sample(t, source, node, both(count)) for t, count in readings]


def test_sources_and_nodes_are_told_apart() -> None:
    mixed = [
        *samples("kernel", "node0", [(0, 100), (1, 150)]),
        *samples("kernel", "node1", [(0, 0), (1, 7)]),
        *samples("docker", "node0", [(0, 90), (1, 149)]),
    ]
    assert by_source(mixed) == {
        "kernel": {"node0": both(50), "node1": both(7)},
        "docker": {"node0": both(59)},
    }


def test_a_vanished_node_keeps_what_it_had_and_leaves_the_others_alone() -> None:
    mixed = [
        *samples("kernel", "node0", [(0, 0), (1, 10), (2, 20), (3, 30)]),
        *samples("kernel", "node1", [(0, 0), (1, 10)]),
    ]
    found = by_source(sorted(mixed, key=lambda sample: sample.t))
    assert found == {"kernel": {"node0": both(30), "node1": both(10)}}


def test_a_gap_loses_no_bytes() -> None:
    whole = samples("kernel", "node0", [(0, 0), (1, 10), (2, 20), (3, 30), (4, 40)])
    with_gap = [whole[0], whole[3], whole[4]]
    assert by_source(with_gap) == by_source(whole) == {"kernel": {"node0": both(40)}}


def test_a_node_read_once_has_no_traffic_and_no_samples_no_sources() -> None:
    assert by_source(samples("kernel", "node0", [(0, 500)])) == {"kernel": {"node0": Counters()}}
    assert by_source([]) == {}


# --- the published metric ------------------------------------------------------------------------


def test_activity_sums_what_had_passed_by_at_every_reading() -> None:
    """Since the first reading 0, 10, 30, 60 passed each way on node0, 0, 1, 2, 3 on node1."""
    readings = [
        *samples("docker", "node0", [(0, 100), (1, 110), (2, 130), (3, 160)]),
        *samples("docker", "node1", [(0, 5), (1, 6), (2, 7), (3, 8)]),
    ]
    assert activity_sum(readings, 1.0) == 2 * (10 + 30 + 60) + 2 * (1 + 2 + 3)


def test_activity_counts_sent_and_received_bytes_but_no_packets() -> None:
    readings = [
        Sample(0, "docker", "node0", Counters(0, 0, 0, 0)),
        Sample(1, "docker", "node0", Counters(1000, 7, 20, 9)),
    ]
    assert activity_sum(readings, 1.0) == 1020


def test_activity_without_samples_is_unknown() -> None:
    assert activity_sum([], 1.0) is None


def test_activity_takes_the_docker_readings_where_there_are_any() -> None:
    docker = samples("docker", "node0", [(0, 0), (1, 10)])
    kernel = samples("kernel", "node0", [(k / 10, 3 * k) for k in range(11)])
    assert activity_sum(kernel + docker, 1.0) == activity_sum(docker, 1.0) == 20


def ten_a_second(seconds: int, jitter_s: float) -> list[Sample]:
    """A steady 1000 bytes a second, read on a grid but now and then late or early."""
    swing = (0.0, 1.0, -0.7, 0.3, -1.0, 0.6, -0.2)
    times = [k / 10 + jitter_s * swing[k % len(swing)] for k in range(10 * seconds + 1)]
    return samples("kernel", "node0", [(round(t, 4), round(1000 * t)) for t in times])


def test_activity_does_not_depend_on_readings_between_the_seconds() -> None:
    fast = ten_a_second(20, 0.0)
    assert activity_sum(fast, 1.0) == activity_sum(fast[::10], 1.0) == 2 * 1000 * sum(range(21))


@pytest.mark.parametrize("jitter_s", [0.001, 0.005, 0.02])
def test_activity_takes_one_reading_a_second_also_when_readings_are_a_little_off(
    jitter_s: float,
) -> None:
    """Real readings are: half of all intervals in recorded runs differ by more than 0.5 ms."""
    fast = ten_a_second(20, jitter_s)
    once_a_second = activity_sum(fast[::10], 0.5)
    assert once_a_second is not None
    assert activity_sum(fast, 1.0) == pytest.approx(once_a_second, rel=0.01)


def test_activity_takes_every_reading_of_a_source_that_is_read_once_a_second() -> None:
    """Also one that comes 3 ms early because the last one was late."""
    late_then_early = [0.000, 1.004, 2.001, 3.005, 4.002]
    readings = samples("docker", "node0", [(t, 100 * k) for k, t in enumerate(late_then_early)])
    assert activity_sum(readings, 1.0) == 2 * 100 * (1 + 2 + 3 + 4)


def test_activity_after_a_restart_counts_at_least_what_the_counter_shows() -> None:
    """The counter began at 1000, restarted, and shows 600, then 1600: all of it passed by since."""
    readings = samples("docker", "node0", [(0, 1000), (1, 1500), (2, 600), (3, 1600)])
    from_the_restart = 2 * (500 + 600 + 1600)
    carried_on = 2 * (500 + (500 + 600) + (500 + 1600))
    assert activity_sum(readings, 1.0) in (from_the_restart, carried_on)


def test_what_is_said_before_and_after_the_workers_is_not_theirs() -> None:
    def reading(source: str, t: float, sent: int) -> Sample:
        return Sample(t, source, "node0", Counters(sent, 0, 0, 0))

    fast = [
        reading("kernel", t, sent)
        for t, sent in ((1, 0), (2, 50), (3, 60), (4, 95), (5, 99), (6, 300))
    ]
    slow = [reading("docker", t, sent) for t, sent in ((1.5, 7), (4.5, 97))]
    found = by_source(enclosing([*fast, *slow], 2.1, 3.9))
    assert found["kernel"]["node0"].sent_bytes == 99 - 50  # the one at 4 may have begun before 3.9
    assert found["docker"]["node0"].sent_bytes == 97 - 7
    everything = enclosing([*fast, *slow], 0, 9)
    assert everything == [*fast, *slow]
