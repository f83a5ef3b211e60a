"""Progress: a line per epoch, at most one every two seconds, and nothing with --quiet."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster.engine import CounterSource
from cluster.observe import progress
from cluster.observe.collector import Collector
from cluster.observe.progress import BarProgress, PlainProgress, Progress, choose_progress
from cluster.spec.documents.events import Epoch, Phase, Step
from cluster.spec.documents.records import Counters
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.documents.summary import Bytes, Summary, Traffic
from cluster.spec.experiment import Experiment

EXPERIMENT = Experiment(workers=2, epochs=6)
FOLDER = RunFolder(Path("runs") / "20260101-000000-abcd" / "001-allreduce-n2-s1")
PLACE = "run 3 of 7, about 4 min left"
NAMES = [f"node{rank}" for rank in range(20)]


@pytest.fixture
def collector(tmp_path: Path) -> Collector:
    source = CounterSource("kernel", 1, lambda: {0: Counters(), 1: Counters()})
    with Collector(tmp_path / "samples.csv", (source,), 3600, NAMES) as collector:
        return collector


def epoch(number: int) -> Epoch:
    return Epoch(epoch=number, accuracy=0.9 + number / 100, loss=0.3)


def step(number: int, loss: float) -> Step:
    times = {"step_s": 0.1, "data_s": 0.0, "compute_s": 0.1, "exchange_s": 0.0}
    return Step.from_json({"epoch": 1, "step": number, "loss": loss, **times})


def summary(status: str, error: str | None = None) -> Summary:
    return Summary(session=FOLDER.session, run=FOLDER.name, status=status, error=error, spec={})


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    stdout, stderr = capsys.readouterr()
    assert stdout == ""
    return stderr.splitlines()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The current time is the last of these, whatever the machine's clock says."""
    times = [100.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: times[-1]))
    return times


@pytest.fixture
def plain(
    collector: Collector, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> PlainProgress:
    """A run has begun, and its first line is read."""
    shown = PlainProgress()
    shown.begin(EXPERIMENT, FOLDER, collector, PLACE)
    assert lines(capsys) == [f"001-allreduce-n2-s1: {PLACE}: training 6 epochs of 46 steps"]
    return shown


def test_epochs_in_quick_succession_print_only_the_last(
    plain: PlainProgress, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(1, 7):
        plain.event(0, epoch(number))
    (line,) = lines(capsys)
    assert line.startswith("  epoch 6/6 ")


def test_a_line_is_printed_again_after_two_seconds(
    plain: PlainProgress, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    for number, t in enumerate((101.9, 102.0, 103.9, 104.1), start=1):
        clock.append(t)
        plain.event(0, epoch(number))
    assert [line.split()[1] for line in lines(capsys)] == ["2/6", "4/6"]


def test_a_line_says_epoch_loss_accuracy_and_traffic(
    plain: PlainProgress, capsys: pytest.CaptureFixture[str]
) -> None:
    plain.event(0, step(1, 2.5))
    plain.event(0, step(2, 0.12345))
    plain.event(0, epoch(6))
    assert lines(capsys) == ["  epoch 6/6  loss 0.123  accuracy 96.00 %  traffic 0 bit/s"]


def test_traffic_is_that_of_training_not_of_the_evaluation_after_it(
    plain: PlainProgress, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two nodes send 1 MB each in 2 s of training, then nothing for a minute."""
    for phase, t, sent in (("train", 100.0, 500), ("evaluate", 102.0, 1_000_500)):
        for rank in (0, 1):
            plain.event(rank, Phase(phase=phase, t=t, counters=Counters(sent, 0, sent, 0)))
    plain.event(0, epoch(6))
    (line,) = lines(capsys)
    assert line.endswith("traffic 8.00 Mbit/s")


def test_other_ranks_do_not_repeat_the_line(
    plain: PlainProgress, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in range(2):
        plain.event(rank, step(1, 1.0 + rank))
        plain.event(rank, epoch(6))
    (line,) = lines(capsys)
    assert "loss 1.000" in line


def test_a_second_run_starts_afresh(
    plain: PlainProgress, collector: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    plain.event(0, step(1, 7.0))
    plain.begin(Experiment(workers=2, epochs=1), FOLDER, collector, PLACE)
    plain.event(0, epoch(1))
    _, line = lines(capsys)
    assert "epoch 1/1  loss -" in line


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_a_run_that_did_not_complete_says_why_in_one_line(
    plain: PlainProgress, status: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plain.end(summary(status, "node1 was ended by SIGKILL"))
    assert lines(capsys) == [f"001-allreduce-n2-s1: {status}: node1 was ended by SIGKILL"]


def test_a_completed_run_leaves_its_accuracy_and_bytes(
    plain: PlainProgress, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = Traffic(sent_bytes=0, received_bytes=0)
    train = Traffic(sent_bytes=3_000_000, received_bytes=3_000_000)
    phases = Bytes(setup=nothing, train=train, evaluate=nothing, finish=nothing, total=train)
    plain.end(replace(summary("completed"), spec={"workers": 2}, accuracy=0.91, bytes=phases))
    assert lines(capsys) == ["001-allreduce-n2-s1: accuracy 91.00 %, 1.50 MB sent per worker"]


def test_one_node_is_not_called_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    PlainProgress().starting(Experiment(strategy="single", workers=1))
    PlainProgress().starting(Experiment(workers=2, engine="docker"))
    assert lines(capsys) == ["starting 1 node (netns)", "starting 2 nodes (docker)"]


def test_quiet_prints_nothing_whatever_happens(
    collector: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = choose_progress(quiet=True)
    assert type(quiet) is Progress
    quiet.say("engine: docker")
    quiet.starting(EXPERIMENT)
    quiet.begin(EXPERIMENT, FOLDER, collector, PLACE)
    for number in range(1, 7):
        quiet.event(0, step(number, 0.5))
        quiet.event(0, epoch(number))
        quiet.tick()
    quiet.end(summary("completed"))
    quiet.end(summary("failed", "node1 ended"))
    assert lines(capsys) == []


def test_where_standard_error_is_no_terminal_progress_is_plain() -> None:
    assert not sys.stderr.isatty()
    assert isinstance(choose_progress(quiet=False), PlainProgress)


def test_bars_count_steps_of_every_worker_and_survive_more_workers_than_bars(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = Experiment(workers=20, epochs=1, train_size=20 * 64)
    source = CounterSource("kernel", 1, lambda: {rank: Counters() for rank in range(20)})
    bars = BarProgress()
    with Collector(tmp_path / "samples.csv", (source,), 3600, NAMES) as collector:
        bars.begin(many, FOLDER, collector, PLACE)
        for rank in range(20):
            bars.event(rank, step(1, 0.5))
        bars.event(0, epoch(1))
        bars._draw()
        bars.end(summary("failed", "node1 ended"))
    shown = "\n".join(lines(capsys))
    assert PLACE in shown
    assert "showing 16 of 20 workers" in shown
    assert "001-allreduce-n2-s1: failed: node1 ended" in shown
