"""The live view's numbers and its server, in this process."""

from __future__ import annotations

import http.client
import itertools
import json
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from cluster.live.curves import MOST_POINTS, Curves
from cluster.live.server import MOST_CONNECTIONS, Document, LoopbackServer
from cluster.live.session_view import SessionView
from cluster.live.traffic import MOST_READINGS, Traffic
from cluster.spec.documents.event_reader import read_events
from cluster.spec.documents.events import Epoch, Event, Phase, Step
from cluster.spec.documents.records import Counters
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.documents.session_plan import PlannedRun, SessionPlan
from cluster.spec.documents.summary import Summary
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment

SESSION = Path(__file__).resolve().parents[1] / "data" / "session"
RUNS = [RunFolder(path) for path in sorted(SESSION.iterdir())]


def recorded(folder: RunFolder, turn: int = 0) -> Iterator[tuple[int, Event]]:
    """All events of a run, in pieces of a few lines of each node, as the host may read them."""
    experiment = folder.read_experiment()
    logs = [iter(list(read_events(folder.events(rank)))) for rank in range(experiment.nodes)]
    logs = logs[turn:] + logs[:turn]
    ranks = [*range(experiment.nodes)][turn:] + [*range(experiment.nodes)][:turn]
    for size in itertools.cycle((3, 1, 40, 7)):
        pieces = [
            (rank, [*itertools.islice(log, size)]) for rank, log in zip(ranks, logs, strict=True)
        ]
        if not any(events for _, events in pieces):
            return
        yield from ((rank, event) for rank, events in pieces for event in events)


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("turn", [0, 2])
def test_live_points_are_those_of_the_summary(folder: RunFolder, turn: int) -> None:
    """In whatever order the host reads the logs of the nodes."""
    curves = Curves(folder.read_experiment())
    for rank, event in recorded(folder, turn):
        curves.note(rank, event)
    summary = folder.read_summary()
    assert len(summary.curve) > 1
    for point, expected in zip(curves.points, summary.curve, strict=True):
        assert point.seconds == pytest.approx(expected.seconds, abs=1e-3)
        assert (point.epoch, point.accuracy, point.loss) == (
            *(expected.epoch, expected.accuracy, expected.loss),
        )
        assert point.sent_bytes == expected.sent_bytes


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: folder.name)
def test_the_loss_by_step_has_every_workers_loss_and_ends_at_the_last_point(
    folder: RunFolder,
) -> None:
    curves = Curves(folder.read_experiment())
    losses: list[float] = []
    for rank, event in recorded(folder):
        curves.note(rank, event)
        if isinstance(event, Step) and event.loss is not None:
            losses.append(event.loss)
    lines = [[number or 0.0 for number in line] for line in curves.losses()]
    step, seconds, sent, _ = lines[-1]
    last = curves.points[-1]
    assert (step, sent) == (last.step, last.sent_bytes)
    assert lines[0][1] < seconds <= last.seconds + 1e-3
    steps = [0.0, *(line[0] for line in lines)]
    widths = [after - before for before, after in itertools.pairwise(steps)]
    total = sum(width * line[3] for width, line in zip(widths, lines, strict=True))
    assert total / step == pytest.approx(sum(losses) / len(losses), rel=1e-3)


def boundary(phase: str, t: float, sent: int) -> Phase:
    return Phase(t=t, phase=phase, counters=Counters(sent_bytes=sent))


def step(number: int) -> Step:
    times = {"step_s": 0.1, "data_s": 0.0, "compute_s": 0.1, "exchange_s": 0.0}
    return Step.from_json({"epoch": 1, "step": number, "loss": 1.0, **times})


def view_of(**runs: Experiment) -> SessionView:
    planned = [PlannedRun(run=name, run_s=60, spec=run.to_json()) for name, run in runs.items()]
    return SessionView(SessionPlan(command=["./measure.sh"], runs=planned), {})


def test_a_node_that_lies_cannot_make_the_state_large() -> None:
    experiment = Experiment(workers=2, epochs=3)
    view = view_of(a=experiment)
    for number in range(3_000):
        for rank in (0, 1, 77):
            view.note_event("a", rank, step(number * 10**11))
            view.note_event("a", rank, Epoch(epoch=10**15, accuracy=1e49, loss=-1e49))
            view.note_event("a", rank, boundary("train" if number % 2 else "setup", 1e40, 10**15))
    state = json.loads(view.changes(0))
    assert len(json.dumps(state)) < 2000
    assert len(state["runs"][0]["scores"]) == 3


def test_a_long_run_has_a_bounded_number_of_points() -> None:
    experiment = Experiment(workers=1, strategy="single", epochs=1000, train_size=64, batch_size=8)
    curves = Curves(experiment)
    for epoch in range(1, 1001):
        curves.note(0, boundary("train", epoch, 0))
        for number in range(8):
            curves.note(0, step(8 * (epoch - 1) + number + 1))
        curves.note(0, boundary("evaluate", epoch + 0.5, 0))
        curves.note(0, Epoch(epoch=epoch, accuracy=0.5))
    assert len(curves.points) == 1000
    assert MOST_POINTS / 2 < len(curves.scores()) <= MOST_POINTS + 1
    assert MOST_POINTS / 2 < len(curves.losses()) <= MOST_POINTS
    assert curves.scores()[-1][0] == curves.losses()[-1][0] == 8000


def test_rates_lose_detail_and_never_bytes() -> None:
    """Also where a counter restarts, and when old readings thin out."""
    traffic = Traffic(["node0", "node1"])
    for second in range(1000):
        restarted = second * 100 if second < 500 else (second - 500) * 100
        traffic.note(50.0 + second, {0: second * second, 1: restarted})
        traffic.note(50.1 + second, {0: 10**15, 1: 0})  # too soon: not taken
    rates = traffic.rates()
    assert MOST_READINGS / 3 < len(rates.seconds) <= MOST_READINGS
    assert rates.names == ["node0", "node1"]
    widths = [b - a for a, b in itertools.pairwise([0.0, *rates.seconds])]
    sent = [sum(w * r / 8 for w, r in zip(widths, line, strict=True)) for line in rates.sent_bit]
    last = rates.seconds[-1]
    assert sent[0] == pytest.approx(last**2, rel=1e-3)
    assert sent[1] == pytest.approx(100 * last, rel=0.01)


def test_many_nodes_are_three_lines() -> None:
    traffic = Traffic([f"node{rank}" for rank in range(11)])
    for second in (0, 1):
        traffic.note(second, {rank: 1000 * rank * second for rank in range(11)})
    rates = traffic.rates()
    assert rates.names == ["fastest node", "median node", "slowest node"]
    assert [line[0] for line in rates.sent_bit] == [80_000, 40_000, 0]


def test_only_runs_that_changed_are_sent_again() -> None:
    view = view_of(a=Experiment(), b=Experiment())
    first = json.loads(view.changes(0))
    assert first["runs"] == []
    view.begin("b")
    second = json.loads(view.changes(first["version"]))
    assert [(run["place"], run["status"]) for run in second["runs"]] == [(1, "running")]
    view.end(Summary(session="s", run="b", status="failed", error="node1 died", spec={}))
    third = json.loads(view.changes(second["version"]))
    assert [(run["status"], run["error"]) for run in third["runs"]] == [("failed", "node1 died")]
    assert json.loads(view.changes(third["version"]))["runs"] == []


def test_runs_of_a_resumed_session_have_their_points_from_the_start() -> None:
    experiments = {folder.name: folder.read_experiment() for folder in RUNS}
    planned = [PlannedRun(run=name, spec=run.to_json()) for name, run in experiments.items()]
    closed = {RUNS[0].name: RUNS[0].read_summary()}
    view = SessionView(SessionPlan(command=["./measure.sh"], runs=planned), closed)
    (run,) = json.loads(view.changes(0))["runs"]
    last = closed[RUNS[0].name].curve[-1]
    assert (run["place"], run["status"]) == (0, "completed")
    assert run["scores"][-1][2:] == [last.sent_bytes, last.accuracy, last.loss]


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackServer]:
    documents = {
        "": Document("text/html", lambda _: b"page"),
        "state.json": Document("application/json", lambda after: b"%d" % after),
        "later.html": Document("text/html", lambda _: None),
        "large": Document("text/plain", lambda _: bytes(50_000_000)),
    }
    server = LoopbackServer()
    with server.serving(documents):
        yield server


def ask(
    server: LoopbackServer, path: str, method: str = "GET", host: str | None = None
) -> tuple[int, bytes, dict[str, str]]:
    port = int(server.address.split(":")[2].split("/")[0])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {} if host is None else {"Host": host.format(port=port)}
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


def word_of(server: LoopbackServer) -> str:
    return server.address.split("/")[3]


def test_known_paths_are_answered_and_nothing_may_keep_or_frame_them(
    server: LoopbackServer,
) -> None:
    word = word_of(server)
    status, content, headers = ask(server, f"/{word}/")
    assert (status, content) == (200, b"page")
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Server"] == "gradwire"
    assert ask(server, f"/{word}/state.json?after=17")[1] == b"17"
    assert ask(server, f"/{word}/", host="localhost:{port}")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/state.json", "/{word}", "/{word}/later.html", "/{word}/../../etc/passwd"),
        *("/{word}/state.json/", "/{word}x/", "/WORD/", "/%00", "*"),
        "/{word}/%2e%2e/state.json",
    ],
)
def test_every_other_path_is_nothing(server: LoopbackServer, path: str) -> None:
    assert ask(server, path.format(word=word_of(server)))[0] == 404


@pytest.mark.parametrize("after", ["-1", "1e9", "9" * 40, "x", "٣", "1&after=2", ""])
def test_a_version_that_is_no_number_is_zero(server: LoopbackServer, after: str) -> None:
    assert ask(server, f"/{word_of(server)}/state.json?after={quote(after)}")[1] == b"0"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "get"])
def test_every_other_method_is_refused(server: LoopbackServer, method: str) -> None:
    assert ask(server, f"/{word_of(server)}/", method)[0] == 501


@pytest.mark.parametrize(
    "host", ["evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost", "", "[::1]:{port}"]
)
def test_another_host_name_is_refused(server: LoopbackServer, host: str) -> None:
    """A name of another site can be made to point to loopback (DNS rebinding)."""
    assert ask(server, f"/{word_of(server)}/", host=host)[0] == 403


def test_stuck_browsers_hold_up_nobody(server: LoopbackServer) -> None:
    """Half a request, and a page that is never read; more than there are places are closed."""
    address = ("127.0.0.1", int(server.address.split(":")[2].split("/")[0]))
    request = f"GET /{word_of(server)}/large HTTP/1.1\r\nHost: 127.0.0.1:{address[1]}\r\n"
    stuck = [socket.create_connection(address) for _ in range(MOST_CONNECTIONS - 1)]
    for place, connection in enumerate(stuck):
        connection.sendall((request + ("\r\n" if place % 2 else "")).encode())
    assert ask(server, f"/{word_of(server)}/")[0] == 200
    more = [socket.create_connection(address) for _ in range(3)]
    closed, _, _ = select.select(more, [], [], 60)
    assert [connection.recv(1) for connection in closed] == [b""] * len(closed)
    assert closed
    for connection in stuck + more:
        connection.close()


def test_leaving_ends_the_server_although_a_browser_is_stuck() -> None:
    documents = {"": Document("text/plain", lambda _: bytes(50_000_000))}
    server = LoopbackServer()
    with server.serving(documents):
        address = ("127.0.0.1", int(server.address.split(":")[2].split("/")[0]))
        stuck = socket.create_connection(address)
        stuck.sendall(
            f"GET /{word_of(server)}/ HTTP/1.1\r\nHost: 127.0.0.1:{address[1]}\r\n\r\n".encode()
        )
        assert stuck.recv(15) == b"HTTP/1.1 200 OK"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    stuck.close()


def test_a_port_that_is_taken_is_refused_in_one_line(server: LoopbackServer) -> None:
    port = int(server.address.split(":")[2].split("/")[0])
    with pytest.raises(SpecError, match=str(port)):
        LoopbackServer(port)
