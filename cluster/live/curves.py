"""The curves of a run while it lasts: a point per epoch, and the loss by step. Bounded.

Bytes and seconds are those of training alone, and in emulated time, as in the curve of
summary.json. A node may write
anything: what does not fit the experiment is left out, so that memory is bounded.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cluster.spec.documents.events import Boundary, End, Epoch, Event, Phase, Step
from cluster.spec.documents.summary import CurvePoint
from cluster.spec.experiment import Experiment

MOST_POINTS = 240
"""Of a line; more would not be seen."""

Numbers = list[float | None]


@dataclass(frozen=True)
class Point:
    """The score after an epoch, and what it took until then."""

    epoch: int
    step: int
    seconds: float
    sent_bytes: int
    accuracy: float | None
    loss: float | None

    def numbers(self) -> Numbers:
        return [self.step, round(self.seconds, 3), self.sent_bytes, self.accuracy, self.loss]


@dataclass
class _Bin:
    """Some steps in a row: their mean loss, and when node 0 made the last of them."""

    loss_sum: float = 0.0
    losses: int = 0
    seconds: float | None = None


class _Node:
    """A node's training phases: what it had sent, and how long it had trained, after each."""

    def __init__(self) -> None:
        self.sent_bytes = [0]
        self.seconds = [0.0]
        self._began: Phase | None = None

    def note_boundary(self, boundary: Boundary) -> None:
        began, self._began = self._began, None
        if began is not None:
            before, after = began.own.sent_bytes, boundary.own.sent_bytes
            new = after - before if after >= before else after  # the counter has restarted
            self.sent_bytes.append(self.sent_bytes[-1] + new)
            self.seconds.append(self.seconds[-1] + max(0.0, boundary.t - began.t))
        if isinstance(boundary, Phase) and boundary.phase == "train":
            self._began = boundary

    def seconds_at(self, t: float) -> float:
        """Of training until then."""
        passed = max(0.0, t - self._began.t) if self._began else 0.0
        return self.seconds[-1] + passed


class Curves:
    """What the events of a run's nodes say of its learning."""

    def __init__(self, experiment: Experiment) -> None:
        self._dilation, self._workers = experiment.slowdown, experiment.workers
        self._epochs, self._epoch_steps = experiment.epochs, experiment.steps_per_epoch
        self._steps = self._epochs * self._epoch_steps
        self._bin_steps = -(-self._steps // MOST_POINTS) or 1
        self._bins: list[_Bin] = []
        self._nodes = [_Node() for _ in range(experiment.started_nodes)]
        self._scores: list[Epoch] = []
        self.points: list[Point] = []
        self.step = 0
        """The last that node 0 has made; without a barrier, of all workers over their number."""

    def note(self, rank: int, event: Event) -> None:
        if rank >= len(self._nodes):
            return
        if isinstance(event, Step):
            step = event.step if event.of_all is None else -(-event.of_all // self._workers)
            if 0 < step <= self._steps:
                self._note_step(rank, event, step)
        elif isinstance(event, Phase | End):
            if len(self._nodes[rank].seconds) <= self._epochs:
                self._nodes[rank].note_boundary(event)
                self._add_points()
        elif isinstance(event, Epoch) and rank == 0 and len(self._scores) < self._epochs:
            self._scores.append(event)
            self._add_points()

    def _note_step(self, rank: int, event: Step, step: int) -> None:
        """`step` of all workers, over their number where they are not in step."""
        place = (step - 1) // self._bin_steps
        self._bins += [_Bin() for _ in range(place + 1 - len(self._bins))]
        found = self._bins[place]
        if event.loss is not None:
            found.loss_sum += event.loss
            found.losses += 1
        if rank == 0:
            self.step = step
            found.seconds = self._nodes[0].seconds_at(event.t) / self._dilation

    def _add_points(self) -> None:
        """Of the epochs that all nodes have ended: events of other nodes may be read later."""
        ended = min(len(node.seconds) for node in self._nodes) - 1
        for place in range(len(self.points), min(ended, len(self._scores))):
            score, epoch = self._scores[place], place + 1
            self.points.append(
                Point(
                    epoch=epoch,
                    step=epoch * self._epoch_steps,
                    seconds=self._nodes[0].seconds[epoch] / self._dilation,
                    sent_bytes=sum(node.sent_bytes[epoch] for node in self._nodes),
                    accuracy=score.accuracy,
                    loss=score.loss,
                )
            )

    def take(self, curve: Sequence[CurvePoint]) -> None:
        """The points of a summary, where it has more: of a run of an earlier session."""
        if len(curve) > len(self.points):
            self.points = [
                Point(
                    epoch=known.epoch,
                    step=known.epoch * self._epoch_steps,
                    seconds=known.seconds or 0.0,
                    sent_bytes=known.sent_bytes or 0,
                    accuracy=known.accuracy,
                    loss=known.loss,
                )
                for known in curve
            ]

    def scores(self) -> list[Numbers]:
        """Step, seconds, bytes, accuracy and loss on test samples, after some of the epochs."""
        every = -(-len(self.points) // MOST_POINTS) or 1
        last = len(self.points) - 1
        return [p.numbers() for k, p in enumerate(self.points) if k % every == 0 or k == last]

    def losses(self) -> list[Numbers]:
        """Step, seconds, bytes and training loss, the mean over all workers."""
        found: list[Numbers] = []
        for place, steps in enumerate(self._bins):
            if steps.losses and steps.seconds is not None:
                step = min(self._steps, (place + 1) * self._bin_steps)
                mean = float(f"{steps.loss_sum / steps.losses:.5g}")
                found.append([step, round(steps.seconds, 3), self._bytes_at(step), mean])
        return found

    def _bytes_at(self, step: int) -> float | None:
        """Between the boundaries of its epoch; None before that has ended."""
        whole, rest = divmod(step, self._epoch_steps)
        ends = [0, *(point.sent_bytes for point in self.points)]
        if whole + (rest > 0) >= len(ends):
            return None
        after = ends[whole + 1] if rest else ends[whole]
        return round(ends[whole] + (after - ends[whole]) * rest / self._epoch_steps)
