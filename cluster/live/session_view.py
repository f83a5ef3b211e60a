"""What the live page shows of a session: the state of every run. Written and read by threads."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cluster.live.curves import Curves
from cluster.live.traffic import Traffic
from cluster.observe.score_text import perplexity
from cluster.observe.units import (
    bits_per_byte_text,
    bytes_text,
    percent_text,
    rounded_time,
    seconds_text,
)
from cluster.spec.documents.codec import Json
from cluster.spec.documents.events import Event
from cluster.spec.documents.session_plan import COMPLETED, RUNNING, TO_COME, SessionPlan
from cluster.spec.documents.summary import Summary
from cluster.spec.experiment import Experiment
from cluster.spec.options import BITS_PER_NAT, is_judged_by_bits
from cluster.sweep.estimate import remaining_s


@dataclass
class RunView:
    """One run. `version` is that of the session when the run last changed."""

    experiment: Experiment
    status: str = TO_COME
    version: int = 0
    error: str = ""
    accuracy: float | None = None
    curves: Curves = field(init=False)
    traffic: Traffic = field(init=False)

    def __post_init__(self) -> None:
        self.curves = Curves(self.experiment)
        self.traffic = Traffic(self.experiment.node_names)

    def to_json(self, place: int) -> Json:
        rates = self.traffic.rates()
        return {
            "place": place,
            "status": self.status,
            "error": self.error,
            "share": 1.0 if self.status == COMPLETED else self._share(),
            "cells": self._cells(),
            "scores": self.curves.scores(),
            "losses": self.curves.losses(),
            "seconds": rates.seconds,
            "nodes": rates.names,
            "sent_bit": rates.sent_bit,
        }

    def _share(self) -> float:
        """Of its steps; nobody knows how many a program makes."""
        steps = self.experiment.epochs * self.experiment.steps_per_epoch
        return 0.0 if self.experiment.program else round(self.curves.step / steps, 4)

    @property
    def _is_text(self) -> bool:
        return is_judged_by_bits(str(self.experiment.dataset), self.experiment.loss)

    def _loss_text(self, loss: float) -> str:
        """With bits per byte and perplexity where every byte of a text is predicted."""
        if not self._is_text:
            return f"{loss:.3f}"
        bits = bits_per_byte_text(loss * BITS_PER_NAT)
        return f"{loss:.3f} ({bits}, perplexity {perplexity(loss):.4g})"

    def _cells(self) -> Json:
        """The numbers of its row, as text."""
        points = self.curves.points
        if self.experiment.program is not None:
            return {"epoch": "-"}
        if not points:
            return {"epoch": f"0 of {self.experiment.epochs}"} if self.status == RUNNING else {}
        last = points[-1]
        accuracy = last.accuracy if self.accuracy is None else self.accuracy
        return {
            "epoch": f"{last.epoch} of {self.experiment.epochs}",
            "accuracy": "-" if accuracy is None or self._is_text else percent_text(accuracy),
            "loss": "-" if last.loss is None else self._loss_text(last.loss),
            "sent": bytes_text(last.sent_bytes),
            "seconds": seconds_text(last.seconds),
        }


class SessionView:
    """All runs of a session, by the names of their folders, in the order of its plan."""

    def __init__(self, plan: SessionPlan, closed: Mapping[str, Summary]) -> None:
        """`closed` are the summaries of runs that were completed before (--resume)."""
        self._plan, self._closed = plan, dict(closed)
        self._runs = {name: RunView(run) for name, run in plan.experiments().items()}
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._version = 0
        self._ends_at = self._began + remaining_s(plan, closed)
        self._report = ""
        self._is_over = False
        for summary in closed.values():
            self.end(summary)

    @contextlib.contextmanager
    def _changing(self, name: str) -> Iterator[RunView]:
        with self._lock:
            self._version += 1
            self._runs[name].version = self._version
            yield self._runs[name]

    def begin(self, name: str) -> None:
        with self._changing(name) as run:
            run.status = RUNNING

    def note_event(self, name: str, rank: int, event: Event) -> None:
        with self._changing(name) as run:
            run.curves.note(rank, event)

    def note_sent(self, name: str, t: float, sent_bytes: Mapping[int, int]) -> None:
        with self._changing(name) as run:
            run.traffic.note(t / run.experiment.slowdown, sent_bytes)

    def end(self, summary: Summary) -> None:
        with self._changing(summary.run) as run:
            run.status, run.error = summary.status, summary.error or ""
            run.accuracy = summary.accuracy
            run.curves.take(summary.curve)
            self._closed[summary.run] = summary
            self._ends_at = time.monotonic() + remaining_s(self._plan, self._closed)

    def finish(self, report: str) -> None:
        """All runs are done; `report` is where the final report is, or empty."""
        with self._lock:
            self._report, self._is_over = report, True

    def changes(self, after: int) -> bytes:
        """Every run that has changed since a version, complete, and the session's own state."""
        now = time.monotonic()
        with self._lock:
            left_s = self._ends_at - now
            document: Json = {
                "version": self._version,
                "elapsed": rounded_time(now - self._began),
                "left": rounded_time(left_s) if left_s > 0 else "",
                "report": self._report,
                "is_over": self._is_over,
                "runs": [
                    run.to_json(place)
                    for place, run in enumerate(self._runs.values())
                    if run.version > after
                ],
            }
        return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
