"""Progress of runs on standard error: bars on a terminal, plain lines elsewhere, or nothing."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from cluster.observe.collector import Collector
from cluster.observe.score_text import score_text
from cluster.observe.units import bits_rate, bytes_text, seconds_text
from cluster.spec.documents.events import Epoch, Event, Phase, Step
from cluster.spec.documents.run_folder import RunFolder, node_name
from cluster.spec.documents.summary import Summary
from cluster.spec.experiment import Experiment
from cluster.spec.faults.checks import CONTINUE

PLAIN_EVERY_S = 2.0
PROGRAM_EVERY_S = 10.0
SLOW_S = 2.0
MOST_BARS = 16


@contextlib.contextmanager
def say_if_slow(say: Callable[[str], None], text: str) -> Iterator[None]:
    """Say what is going on where it takes longer than two seconds."""
    timer = threading.Timer(SLOW_S, say, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Progress:
    """Prints nothing (--quiet); the classes below print lines or bars."""

    def say(self, text: str) -> None:
        """Print a line of text."""

    def starting(self, experiment: Experiment) -> None:
        """The nodes are about to start."""
        nodes = "node" if experiment.started_nodes == 1 else "nodes"
        what = f"{experiment.started_nodes} {nodes}"
        if experiment.virtual:
            what += f" with {experiment.workers} virtual workers"
        self.say(f"starting {what} ({experiment.engine})")

    def begin(
        self, experiment: Experiment, folder: RunFolder, collector: Collector, place: str
    ) -> None:
        """The nodes are up and this run starts on them; `place` is "run 3 of 7, ... left"."""

    def event(self, rank: int, event: Event) -> None:
        """A node wrote this event."""

    def tick(self) -> None:
        """Called some twenty times a second while a run lasts."""

    def end(self, summary: Summary) -> None:
        """The run is over."""
        self.say(outcome(summary))


def outcome(summary: Summary) -> str:
    """A closed run in one line: accuracy and bytes, or why it did not complete."""
    if summary.status != "completed":
        return f"{summary.run}: {summary.status}: {summary.error}"
    spec = summary.spec
    score = score_text(spec.get("dataset"), spec.get("loss"), summary.accuracy, summary.loss)
    parts = [score]
    if summary.bytes is not None:
        workers = int(summary.spec.get("workers") or 1)
        parts.append(f"{bytes_text(summary.bytes.train.sent_bytes / workers)} sent per worker")
    elif summary.spec.get("virtual") and summary.curve and summary.curve[-1].sent_bytes:
        predicted = summary.curve[-1].sent_bytes / int(summary.spec.get("workers") or 1)
        parts.append(f"{bytes_text(predicted)} per worker (predicted)")
    if summary.seconds is not None and summary.seconds.total_s is not None:
        parts.append(f"in {seconds_text(summary.seconds.total_s)}")
    return f"{summary.run}: {', '.join(filter(None, parts)) or summary.status}"


class PlainProgress(Progress):
    """A line per epoch, at most one every two seconds."""

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def begin(
        self, experiment: Experiment, folder: RunFolder, collector: Collector, place: str
    ) -> None:
        self._experiment = experiment
        self._last = time.monotonic()
        self._loss: float | None = None
        self._epoch = 0
        self._began: dict[int, tuple[float, int]] = {}
        self._rates: dict[int, float] = {}
        self._collector, self._step = collector, 0
        steps, whose = experiment.steps_per_epoch, ""
        if experiment.is_unpaced:
            steps, whose = steps * experiment.workers, " of all workers"
        what = f"training {experiment.epochs} epochs of {steps} steps{whose}"
        if experiment.program is not None:
            what = f"running {experiment.strategy}"
        self.say(f"{folder.name}: {place}: {what}")

    def event(self, rank: int, event: Event) -> None:
        if isinstance(event, Phase):
            self._count(rank, event)
        if not self._speaks(rank, event):
            return
        if isinstance(event, Step):
            self._loss, self._step = event.loss, event.step
        elif isinstance(event, Epoch):
            self._epoch = event.epoch
            last = event.epoch == self._experiment.epochs
            if last or time.monotonic() - self._last >= PLAIN_EVERY_S:
                self._last = time.monotonic()
                self.say(
                    f"  epoch {event.epoch}/{self._experiment.epochs}"
                    f"  loss {_loss(self._loss)}{_score(self._experiment, event)}"
                    f"  traffic {bits_rate(sum(self._rates.values()))}"
                )

    def _speaks(self, rank: int, event: Event) -> bool:
        """Node 0 does for all; where it may be lost, whoever has ended an epoch first."""
        if self._experiment.on_failure != CONTINUE:
            return rank == 0
        return not isinstance(event, Epoch) or event.epoch > self._epoch

    def tick(self) -> None:
        """A program has no epochs: what is known of it, every ten seconds."""
        is_due = time.monotonic() - self._last >= PROGRAM_EVERY_S
        if self._experiment.program is not None and is_due:
            self._last = time.monotonic()
            step = f"step {self._step}  loss {_loss(self._loss)}  " if self._step else ""
            rate = sum(self._collector.sent_rates().values())
            self.say(f"  {step}traffic {bits_rate(rate)}")

    def _count(self, rank: int, boundary: Phase) -> None:
        """Note a node's sending rate in the training phase; it sends nothing when it evaluates."""
        t, sent = boundary.t, boundary.own.sent_bytes
        began_t, began_sent = self._began.pop(rank, (t, sent))
        if t > began_t:
            self._rates[rank] = (sent - began_sent) / (t - began_t) * self._experiment.slowdown
        if boundary.phase == "train":
            self._began[rank] = t, sent


class BarProgress(Progress):
    """One bar per worker with epoch, loss and current traffic, drawn by rich."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._bars: Any = None

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)

    def begin(
        self, experiment: Experiment, folder: RunFolder, collector: Collector, place: str
    ) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        self._collector = collector
        self._experiment = experiment
        self._drawn = time.monotonic()
        self._latest: dict[int, Step] = {}
        self._score: Epoch | None = None
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("steps  epoch {task.fields[epoch]}  loss {task.fields[loss]}"),
            TextColumn("{task.fields[accuracy]}"),
            TextColumn("{task.fields[rate]}", justify="right"),
            TimeElapsedColumn(),
            console=self._console,
            auto_refresh=False,
            transient=True,
        )
        steps: int | None = experiment.steps_per_epoch * experiment.epochs
        if experiment.program is not None or experiment.is_unpaced:
            steps = None  # nobody knows how many a worker makes
        for rank in range(min(experiment.workers, experiment.started_nodes, MOST_BARS)):
            self._bars.add_task(
                node_name(rank), total=steps, epoch="-", loss="-", accuracy="", rate=""
            )
        shown = min(experiment.started_nodes, MOST_BARS)
        some = f": showing {shown} of {experiment.workers} workers"
        self.say(f"{folder.name}: {place}{some if experiment.workers > shown else ''}")
        self._bars.start()

    def event(self, rank: int, event: Event) -> None:
        if isinstance(event, Step):
            self._latest[rank] = event
        elif isinstance(event, Epoch) and rank == 0:  # of the average of all workers' models
            self._score = event

    def tick(self) -> None:
        if self._bars is not None and time.monotonic() - self._drawn >= 0.2:
            self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        rates = self._collector.sent_rates()
        for rank, event in self._latest.items():
            if rank < MOST_BARS:
                self._bars.update(
                    rank,
                    completed=event.step,
                    epoch=f"{event.epoch}/{self._experiment.epochs}",
                    loss=_loss(event.loss),
                    accuracy=_score(self._experiment, self._score).strip() if rank == 0 else "",
                    rate=bits_rate(rates.get(rank, 0.0) * self._experiment.slowdown),
                )
        self._bars.refresh()

    def end(self, summary: Summary) -> None:
        if self._bars is not None:
            self._draw()
            self._bars.stop()
            self._bars = None
        super().end(summary)


def _score(experiment: Experiment, epoch: Epoch | None) -> str:
    """Of the average of all models, after two spaces; empty before there is one."""
    if epoch is None:
        return ""
    text = score_text(experiment.dataset, experiment.loss, epoch.accuracy, epoch.loss)
    return f"  test {text}" if text.startswith("loss") else f"  {text}" if text else ""


def _loss(value: float | None) -> str:
    """A dash where a run diverged."""
    return "-" if value is None else f"{value:.3f}"


def choose_progress(quiet: bool) -> Progress:
    if quiet:
        return Progress()
    return BarProgress() if sys.stderr.isatty() else PlainProgress()
