"""The live page in a real browser, fed with the events of recorded runs."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.live.server import LoopbackServer
from cluster.live.view import live_view
from cluster.observe.collector import Collector
from cluster.observe.progress import Progress
from cluster.spec.documents.event_reader import read_events
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.documents.session_plan import PlannedRun, SessionFolder, SessionPlan
from tests.browser import Browser, chromium
from tests.report.test_poisoned_page import ACTIVE, POISONS

RECORDED = sorted((Path(__file__).resolve().parents[1] / "data" / "session").iterdir())
RUNS = [RunFolder(path) for path in RECORDED]
CHOOSE_BYTES = """(() => {
    for (const plot of document.querySelectorAll('#live-accuracy, #live-loss')) {
        const against = plot.closest('figure').querySelector('label select');
        against.value = 'bytes';
        against.dispatchEvent(new Event('change', {bubbles: true}));
    }
})()"""
SENT = "'sent in training, all nodes (MB)'"
LINE = "document.querySelector('#live-{}').data[{}]"


class Replay:
    """A session on a page: what the host would read of nodes comes from recorded runs."""

    def __init__(self, browser: Browser, progress: Progress, names: list[str], folder: Path):
        self.browser, self.progress = browser, progress
        self.names, self.folder = names, folder

    def begin(self, place: int) -> None:
        run = RunFolder(self.folder / self.names[place])
        self.progress.begin(RUNS[place].read_experiment(), run, Readings(), "")

    def events(self, place: int, begin: float = 0.0, end: float = 1.0) -> None:
        """A part of each node's events, between two shares of their number."""
        for rank in range(RUNS[place].read_experiment().nodes):
            events = list(read_events(RUNS[place].events(rank)))
            for event in events[round(begin * len(events)) : round(end * len(events))]:
                self.progress.event(rank, event)

    def end(self, place: int, error: str | None = None) -> None:
        status = "completed" if error is None else "failed"
        summary = dataclasses.replace(
            RUNS[place].read_summary(), run=self.names[place], status=status, error=error
        )
        self.progress.end(summary)


class Readings(Collector):
    """Counters of three nodes; each reading shows more."""

    def __init__(self) -> None:
        self._readings = 0

    def sent_bytes(self) -> dict[int, int]:
        self._readings += 1
        return {rank: 10**6 * self._readings * (rank + 1) for rank in range(3)}


@contextlib.contextmanager
def replay(browser: Browser, folder: Path, names: list[str] | None = None) -> Iterator[Replay]:
    names = names or [run.name for run in RUNS]
    specs = [run.read_experiment().to_json() for run in RUNS]
    planned = [
        PlannedRun(run=name, run_s=60, spec=spec) for name, spec in zip(names, specs, strict=True)
    ]
    plan = SessionPlan(command=["./measure.sh"], runs=planned)
    folder.mkdir(parents=True, exist_ok=True)
    SessionFolder(folder).write_plan(plan)
    server = LoopbackServer()
    with live_view(server, folder, plan, {}, Progress()) as progress:
        browser.size(1280, 900)
        browser.call("Page.navigate", url=server.address)
        browser.wait("document.documentElement?.dataset.ready === 'yes'")
        yield Replay(browser, progress, names, folder)


def test_points_rows_and_traffic_grow(tmp_path: Path) -> None:
    curve = RUNS[0].read_summary().curve
    with chromium() as browser, replay(browser, tmp_path) as session:
        session.begin(0)
        session.events(0, end=0.5)
        browser.wait(f"{LINE.format('accuracy', 0)}.y.length > 0")
        assert browser.run(f"{LINE.format('accuracy', 0)}.y.length") < len(curve)
        assert browser.run("document.querySelector('#live-state').textContent") == "Run 1 of 2"
        session.events(0, begin=0.5)
        session.end(0)
        browser.wait(f"{LINE.format('accuracy', 0)}.y.length === {len(curve)}")
        drawn = browser.run(f"{LINE.format('accuracy', 0)}.y")
        assert drawn == [point.accuracy for point in curve]
        browser.run(CHOOSE_BYTES)
        for figure, line in (("accuracy", 0), ("loss", 0), ("loss", 1)):
            browser.wait(
                f"document.querySelector('#live-{figure} .g-xtitle').textContent === {SENT}"
            )
            sent = f"1e6 * {LINE.format(figure, line)}.x.at(-1)"
            browser.wait(f"Math.abs({sent} - {curve[-1].sent_bytes}) < 1")
        session.begin(1)
        browser.run("document.querySelector('#live-traffic').scrollIntoView()")
        for _ in range(3):
            session.progress.tick()
            time.sleep(1.1)
        browser.wait(f"{LINE.format('traffic', 2)}?.y.length > 1")
        rates = browser.run("document.querySelector('#live-traffic').data.map(t => t.y.at(-1))")
        assert rates[1:3] == pytest.approx([2 * rates[0], 3 * rates[0]], rel=1e-3)
        counts = browser.run("document.querySelector('#live-counts').textContent")
        assert counts == "1 completed, 1 running"
        assert browser.errors == []


def test_the_page_has_the_final_report_after_the_server_has_ended(tmp_path: Path) -> None:
    with chromium() as browser:
        with replay(browser, tmp_path) as session:
            for place in range(2):
                session.begin(place)
                session.end(place)
            (tmp_path / "report.html").write_text("<title>final</title>")
        browser.wait("document.querySelector('#live-end a')")
        shown = browser.run("document.querySelector('#live-end').textContent")
        assert str(tmp_path / "report.html") in shown
        browser.run("document.querySelector('#live-end a').click()")
        browser.wait("document.title === 'final'")


def test_hostile_names_and_errors_are_shown_as_text(tmp_path: Path) -> None:
    names = ["001-<img src=x onerror=window.poisoned=1>", "002-<script>window.poisoned=1<"]
    folder = tmp_path / "<svg onload=window.poisoned=1>"
    with chromium() as browser, replay(browser, folder, names) as session:
        session.begin(0)
        session.events(0)
        for poison in POISONS:
            session.end(0, error=f"node1: {poison}")
        session.end(1, error=POISONS[1])
        browser.wait("document.querySelector('#live-counts').textContent === '2 failed'")
        browser.run("document.querySelector('#live-runs').scrollIntoView()")
        shown = browser.run("document.querySelector('#live-runs').textContent")
        assert all(text in shown for text in (*names, POISONS[1], POISONS[-1]))
        assert browser.run("typeof window.poisoned") == "undefined"
        assert browser.run(f"[...document.querySelectorAll('*')].filter({ACTIVE}).length") == 0
        assert browser.errors == []
