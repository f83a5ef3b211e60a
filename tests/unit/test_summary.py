"""summarise() on run folders made by hand, against numbers worked out by hand.

Two workers, two epochs of two steps, M = 1000 bytes. An all-reduce of two sends M a step, in ten
packets an epoch; node1 sends 20 bytes a step too many. What one sends the other receives.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from analysis.summary.summarise import summarise
from cluster.spec.documents.events import (
    Boundary,
    End,
    Epoch,
    Event,
    Hello,
    Phase,
    Result,
    Step,
)
from cluster.spec.documents.records import HEADER_BYTES, Counters, Sample, total
from cluster.spec.documents.run_folder import RunFolder, write_json
from cluster.spec.documents.summary import (
    CounterBytes,
    NodeSeconds,
    NodeTraffic,
    PerStep,
    Seconds,
    Summary,
)
from cluster.spec.experiment import Experiment

EXPERIMENT = Experiment(workers=2, epochs=2, train_size=256, batch_size=64)
MODEL_BYTES = 1000
BASE = Counters(7000, 70, 9000, 90)
"""What an interface had counted before the run; no number may depend on it."""

TRAIN_SENT = (2 * 1000 + 10 * HEADER_BYTES, 2 * 1020 + 10 * HEADER_BYTES)
"""By rank, in one epoch: 2660 and 2700 bytes."""
TRAFFIC = {
    "setup": (Counters(100, 1, 100, 1),) * 2,
    "train": (
        Counters(TRAIN_SENT[0], 10, TRAIN_SENT[1], 10),
        Counters(TRAIN_SENT[1], 10, TRAIN_SENT[0], 10),
    ),
    "evaluate": (Counters(300, 3, 300, 3),) * 2,
    "finish": (Counters(500, 5, 500, 5),) * 2,
}
COURSE = [
    # when a phase began, which, of which epoch
    (100.0, "setup", None),
    (101.0, "train", 1),
    (103.0, "evaluate", 1),
    (104.0, "train", 2),
    (107.0, "evaluate", 2),
    (108.0, "finish", None),
]
STEP_S = ((9.0, 0.1, 0.2, 0.3), (9.0, 0.4, 0.5, 0.6))
"""By rank; the first step warms up."""
WHOLE = [total(TRAFFIC[phase][rank] for _, phase, _ in COURSE) for rank in range(2)]


def node_events(rank: int) -> list[Event]:
    """One node's whole log."""
    events: list[Event] = []
    counters, steps = BASE, 0

    for t, phase, epoch in COURSE:
        events.append(Phase(t=t, phase=phase, epoch=epoch, counters=counters))
        counters += TRAFFIC[phase][rank]
        if phase == "setup":
            hello = Hello(t=t, rank=rank, workers=2, model_bytes=MODEL_BYTES, parameters=250)
            events.append(hello)
        elif phase == "train":
            for _ in range(2):
                events.append(step(t + 0.5, STEP_S[rank][steps]))
                steps += 1
        elif phase == "evaluate":
            assert epoch is not None
            number = 1000 * epoch
            score = Epoch(
                t=t + 0.5, epoch=epoch, accuracy=0.4 * epoch, loss=1 / epoch, test_samples=number
            )
            events.append(score)
    result = Result(
        t=110.0,
        accuracy=0.8,
        loss=0.5,
        own_accuracy=0.75 + rank / 100,
        own_test_samples=500,
        consensus_distance=0.125,
    )
    return [*events, result, End(t=110.5 + rank / 2, counters=counters)]


def step(t: float, step_s: float) -> Step:
    return Step(
        t=t, loss=0.5, step_s=step_s, data_s=0.0, compute_s=step_s / 4, exchange_s=step_s / 2
    )


def readings(source: str, shares: Sequence[float], more: int = 0) -> list[Sample]:
    """At 100, 105, 111 s these shares of all traffic had gone by; in the end `more` bytes, too."""
    found = []
    for t, share in zip((100.0, 105.0, 111.0), shares, strict=True):
        for rank in range(2):
            gone = Counters(*(int(share * value) for value in WHOLE[rank].values()))
            extra = Counters(more if rank == 0 and t == 111 else 0)
            found.append(Sample(t, source, f"node{rank}", BASE + gone + extra))
    return found


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "20260101-000000-abcd" / "001-allreduce-n2-s1").create()


def write_events(folder: RunFolder, rank: int, events: list[Event]) -> None:
    folder.events(rank).write_text("".join(event.line() for event in events))


def write_samples(folder: RunFolder, samples: list[Sample]) -> None:
    rows = [Sample.COLUMNS, *(sample.row() for sample in samples)]
    folder.samples.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))


@pytest.fixture
def whole(folder: RunFolder) -> RunFolder:
    for rank in range(2):
        write_events(folder, rank, node_events(rank))
    write_samples(
        folder,
        readings("kernel", (0, 0.5, 1), more=134) + readings("docker", (0, 0.5, 1), more=-67),
    )
    return folder


@pytest.fixture
def summary(whole: RunFolder) -> Summary:
    return summarise(whole, EXPERIMENT, "completed")


# --- a run that completed ------------------------------------------------------------------------


def test_a_summary_says_which_run_it_is_of(summary: Summary) -> None:
    assert (summary.session, summary.run) == ("20260101-000000-abcd", "001-allreduce-n2-s1")
    assert (summary.schema, summary.status, summary.error) == (2, "completed", None)
    assert Experiment.from_json(summary.spec) == EXPERIMENT


def test_steps_rounds_epochs_and_samples_are_counted_per_worker(summary: Summary) -> None:
    assert (summary.steps, summary.rounds, summary.epochs) == (4, 4, 2)
    assert summary.samples_seen == 4 * 64
    assert summary.model_bytes == MODEL_BYTES


def test_the_score_is_the_consensus_model_s_and_each_worker_s(summary: Summary) -> None:
    assert (summary.accuracy, summary.loss, summary.consensus_distance) == (0.8, 0.5, 0.125)
    assert summary.accuracy_by_worker == [0.75, 0.76]


def test_every_accuracy_says_how_many_samples_it_is_of(summary: Summary) -> None:
    assert [point.test_samples for point in summary.curve] == [1000, 2000]
    assert summary.accuracy_by_worker_samples == 500


def test_bytes_are_booked_to_phases_as_the_interfaces_count_them(summary: Summary) -> None:
    assert summary.bytes is not None
    booked = {name: getattr(summary.bytes, name).sent_bytes for name in (*TRAFFIC, "total")}
    assert booked == {
        "setup": 2 * 100,
        "train": 2 * (2660 + 2700),
        "evaluate": 2 * 2 * 300,
        "finish": 2 * 500,
        "total": 200 + 10720 + 1200 + 1000,
    }


def test_phases_add_up_to_the_total_both_ways(summary: Summary) -> None:
    assert summary.bytes is not None
    for way in ("sent_bytes", "received_bytes"):
        phases = [getattr(getattr(summary.bytes, phase), way) for phase in TRAFFIC]
        assert getattr(summary.bytes.total, way) == sum(phases)
    assert summary.bytes.total.sent_bytes == summary.bytes.total.received_bytes


def test_train_bytes_of_the_nodes_add_up_to_the_train_phase(summary: Summary) -> None:
    assert summary.bytes is not None
    nodes = summary.bytes.nodes
    assert nodes == [
        NodeTraffic(
            node="node0",
            rank=0,
            role="worker",
            train_sent_bytes=2 * 2660,
            train_received_bytes=2 * 2700,
            sent_bytes=6520,
            received_bytes=6600,
        ),
        NodeTraffic(
            node="node1",
            rank=1,
            role="worker",
            train_sent_bytes=2 * 2700,
            train_received_bytes=2 * 2660,
            sent_bytes=6600,
            received_bytes=6520,
        ),
    ]
    assert sum(node.train_sent_bytes for node in nodes) == summary.bytes.train.sent_bytes
    assert sum(node.sent_bytes or 0 for node in nodes) == summary.bytes.total.sent_bytes


def test_bytes_a_step_are_payload_beside_the_prediction(summary: Summary) -> None:
    assert summary.per_step == PerStep(
        sent_mean_bytes=1010.0,
        sent_max_bytes=1020.0,
        predicted_mean_bytes=1000.0,
        predicted_max_bytes=1000.0,
        predicted_framing_bytes=720.0,  # four messages of 250 bytes, and a phase's barriers
        ratio=0.58721,  # made-up counters without framing
        retransmitted_mean_bytes=None,  # these workers did not count it
        retransmitted_by_busiest_bytes=None,
    )


def test_what_tcp_sent_again_is_known_of_all_workers_and_of_the_busiest(whole: RunFolder) -> None:
    """In each phase node 1 sends 100 bytes again: 200 in the four steps of both epochs."""
    for rank in range(2):
        count = itertools.count(step=100 * rank)
        counted = [
            dataclasses.replace(e, retransmitted_bytes=next(count))
            if isinstance(e, Boundary)
            else e
            for e in node_events(rank)
        ]
        write_events(whole, rank, counted)
    per_step = summarise(whole, EXPERIMENT, "completed").per_step
    assert per_step is not None
    assert per_step.retransmitted_mean_bytes == 25
    assert per_step.retransmitted_by_busiest_bytes == 50


def test_sources_are_compared_on_train_bytes(summary: Summary) -> None:
    """The kernel saw 134 bytes more than the workers, Docker 67 less; of 10720 that is 1.25 %."""
    assert summary.counters == CounterBytes(
        worker_bytes=10720,
        kernel_bytes=10720 + 134,
        docker_bytes=10720 - 67,
        largest_difference=0.0125,
    )


def test_the_curve_has_sent_bytes_and_train_seconds_so_far(summary: Summary) -> None:
    shown = [(p.epoch, p.accuracy, p.loss, p.sent_bytes, p.seconds) for p in summary.curve]
    assert shown == [(1, 0.4, 1.0, 5360, 2.0), (2, 0.8, 0.5, 10720, 5.0)]


def test_the_curve_ends_at_the_train_phase_s_bytes_and_seconds(summary: Summary) -> None:
    assert summary.bytes is not None
    assert summary.seconds is not None
    assert summary.curve[-1].sent_bytes == summary.bytes.train.sent_bytes
    assert summary.curve[-1].seconds == summary.seconds.train_s


def test_seconds_are_of_the_whole_run_of_training_and_medians_of_settled_steps(
    summary: Summary,
) -> None:
    """Settled are all steps but each worker's first: 0.1 to 0.6 s, median 0.35 s."""
    assert summary.seconds is not None
    assert dataclasses.replace(summary.seconds, by_node=[]) == Seconds(
        total_s=11.0,
        wall_s=11.0,
        train_s=5.0,
        step_median_s=0.35,
        compute_median_s=0.0875,
        exposed_communication_median_s=0.175,
        communication_bound_s=None,  # links are free
    )


def test_every_node_has_medians_of_its_own_settled_steps(summary: Summary) -> None:
    """node1 arrives at each exchange 0.225 s before node0."""
    assert summary.seconds is not None
    assert summary.seconds.by_node == [
        NodeSeconds(
            node="node0",
            rank=0,
            role="worker",
            step_median_s=0.2,
            compute_median_s=0.05,
            exposed_communication_median_s=0.1,
            waiting_median_s=0.0,
        ),
        NodeSeconds(
            node="node1",
            rank=1,
            role="worker",
            step_median_s=0.5,
            compute_median_s=0.125,
            exposed_communication_median_s=0.25,
            waiting_median_s=0.225,
            waits_mostly_for=0,
        ),
    ]


def test_a_server_makes_no_steps_and_where_exchange_is_hidden_it_is_unknown(
    folder: RunFolder,
) -> None:
    served = Experiment(strategy="parameter-server", workers=2, epochs=2, train_size=256)
    for rank in range(2):
        events = [
            dataclasses.replace(e, compute_s=None, exchange_s=None) if isinstance(e, Step) else e
            for e in node_events(rank)
        ]
        write_events(folder, rank, events)
    write_events(folder, 2, [e for e in node_events(0) if not isinstance(e, Step)])
    seconds = summarise(folder, served, "completed").seconds
    assert seconds is not None
    assert [(n.node, n.role, n.step_median_s) for n in seconds.by_node] == [
        ("node0", "worker", 0.2),
        ("node1", "worker", 0.5),
        ("node2", "server", None),
    ]
    for node in seconds.by_node:
        assert node.compute_median_s is None
        assert node.exposed_communication_median_s is None
        assert node.waiting_median_s is None


def test_activity_is_summed_over_the_docker_readings(summary: Summary) -> None:
    """Each node moved 6520 + 6600 bytes: none by 100 s, half by 105 s, all by 111 s."""
    assert summary.network_activity_sum == 2 * (0 + 6560 + 13120) - 67


def test_a_summary_can_be_written_and_read(whole: RunFolder, summary: Summary) -> None:
    write_json(whole.summary, summary)
    assert whole.read_summary() == summary


def test_pairs_are_predicted_by_their_schedule(folder: RunFolder) -> None:
    """Of three workers two meet and one rests: 2/3 M in the mean of three rounds of the ring."""
    trio = Experiment(strategy="pairwise", passes=1, schedule="ring", workers=3, train_size=768)
    for rank in range(3):
        events = node_events(min(rank, 1))
        fourth = [e for e in events if isinstance(e, Step)][3]
        write_events(folder, rank, [e for e in events if e is not fourth])
    per_step = summarise(folder, trio, "completed").per_step
    assert per_step is not None
    assert per_step.predicted_mean_bytes == 666.7


def test_one_worker_alone_has_no_rounds_and_no_ratio(folder: RunFolder) -> None:
    alone = Experiment(strategy="single", workers=1, epochs=2, train_size=128)
    quiet = [
        dataclasses.replace(e, counters=BASE) if isinstance(e, Boundary) else e
        for e in node_events(0)
    ]
    write_events(folder, 0, quiet)
    summary = summarise(folder, alone, "completed")
    assert (summary.steps, summary.rounds) == (4, 0)
    assert summary.per_step == PerStep(
        sent_mean_bytes=0,
        sent_max_bytes=0,
        predicted_mean_bytes=0,
        predicted_max_bytes=0,
        predicted_framing_bytes=0,
    )
    assert summary.counters == CounterBytes(worker_bytes=0)


def test_a_source_that_lacks_a_node_is_not_compared(whole: RunFolder) -> None:
    kernel = [s for s in readings("kernel", (0, 0.5, 1)) if s.node == "node0"]
    write_samples(whole, kernel + readings("docker", (0, 0.5, 1)))
    counters = summarise(whole, EXPERIMENT, "completed").counters
    assert counters is not None
    assert counters.kernel_bytes is None
    assert counters.docker_bytes == counters.worker_bytes
    assert counters.largest_difference == 0.0


def test_a_run_that_diverged_has_a_summary_that_can_be_written(whole: RunFolder) -> None:
    """A loss that is not a number is nothing JSON knows: `--lr 1000 --momentum 0.999` makes one."""
    for rank in range(2):
        diverged = [
            dataclasses.replace(e, loss=math.nan) if isinstance(e, Step | Epoch | Result) else e
            for e in node_events(rank)
        ]
        write_events(whole, rank, diverged)
    summary = summarise(whole, EXPERIMENT, "completed")
    write_json(whole.summary, summary)
    assert whole.read_summary().loss is None
    assert whole.read_summary().accuracy == 0.8


# --- a run that did not complete -----------------------------------------------------------------


@pytest.mark.parametrize("kept", range(len(node_events(0))))
def test_wherever_a_run_broke_off_it_has_a_summary_that_can_be_read(
    folder: RunFolder, kept: int
) -> None:
    for rank in range(2):
        write_events(folder, rank, node_events(rank)[:kept])
    summary = summarise(folder, EXPERIMENT, "failed", "node1 was ended by SIGKILL")
    write_json(folder.summary, summary)
    assert folder.read_summary() == summary
    assert summary.bytes is not None
    assert [node.node for node in summary.bytes.nodes] == ["node0", "node1"]
    assert (summary.status, summary.error) == ("failed", "node1 was ended by SIGKILL")


def test_a_run_without_any_event_is_nulls(folder: RunFolder) -> None:
    document = summarise(folder, EXPERIMENT, "failed", "the nodes did not start").to_json()
    unknown = {name for name, value in document.items() if value is None}
    assert unknown >= {
        *("model_bytes", "accuracy", "loss", "accuracy_by_worker", "consensus_distance"),
        *("network_activity_sum", "control_traffic", "traffic_matrix"),
    }
    assert document["steps"] == 0
    assert set(document["per_step"].values()) == {None}
    assert document["counters"]["largest_difference"] is None
    assert document["seconds"]["total_s"] is None
    assert document["seconds"]["step_median_s"] is None
    assert document["curve"] == []


def test_a_node_that_never_spoke_makes_its_own_numbers_unknown_and_no_others(
    whole: RunFolder,
) -> None:
    whole.events(1).unlink()
    summary = summarise(whole, EXPERIMENT, "failed", "node1 ended")
    assert summary.accuracy == 0.8
    assert summary.accuracy_by_worker is None
    assert summary.steps == 0
    assert summary.curve == []
    assert summary.bytes is not None
    assert summary.bytes.nodes[0].train_sent_bytes == 2 * 2660


def test_sources_are_not_compared_where_a_node_did_not_reach_its_end(whole: RunFolder) -> None:
    """What it sent after its last phase boundary nobody booked: that would look like a miscount."""
    write_events(whole, 1, node_events(1)[:-1])
    counters = summarise(whole, EXPERIMENT, "failed", "node1 ended").counters
    assert counters is not None
    assert (counters.kernel_bytes, counters.docker_bytes) == (None, None)
    assert counters.largest_difference is None


def test_steps_of_an_epoch_that_did_not_end_do_not_thin_out_its_bytes(folder: RunFolder) -> None:
    """Killed after step 3: the bytes of two steps are booked, and divided by two."""
    for rank in range(2):
        events = node_events(rank)
        third = [i for i, e in enumerate(events) if isinstance(e, Step)][2]
        write_events(folder, rank, events[: third + 1])
    summary = summarise(folder, EXPERIMENT, "failed", "node1 was ended by SIGKILL")
    assert summary.steps == 3
    assert summary.per_step is not None
    assert summary.per_step.sent_mean_bytes == 1010
