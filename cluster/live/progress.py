"""Progress that also feeds the live page."""

import time

from cluster.live.session_view import SessionView
from cluster.live.traffic import EVERY_S
from cluster.observe.collector import Collector
from cluster.observe.progress import Progress
from cluster.spec.documents.events import Event
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.documents.summary import Summary
from cluster.spec.experiment import Experiment


class LiveProgress(Progress):
    """Shows what another progress shows, and notes it for the page."""

    def __init__(self, shown: Progress, view: SessionView) -> None:
        self._shown, self._view = shown, view
        self._run = ""
        self._collector: Collector | None = None
        self._read_at = 0.0

    def say(self, text: str) -> None:
        self._shown.say(text)

    def starting(self, experiment: Experiment) -> None:
        self._shown.starting(experiment)

    def begin(
        self, experiment: Experiment, folder: RunFolder, collector: Collector, place: str
    ) -> None:
        self._run, self._collector = folder.name, collector
        self._view.begin(folder.name)
        self._shown.begin(experiment, folder, collector, place)

    def event(self, rank: int, event: Event) -> None:
        self._view.note_event(self._run, rank, event)
        self._shown.event(rank, event)

    def tick(self) -> None:
        now = time.monotonic()
        if self._collector is not None and now - self._read_at >= EVERY_S:
            self._read_at = now
            self._view.note_sent(self._run, now, self._collector.sent_bytes())
        self._shown.tick()

    def end(self, summary: Summary) -> None:
        self._collector = None
        self._view.end(summary)
        self._shown.end(summary)
