"""The report of a recorded session is what the session recorded, in a real browser too."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.network_report import main
from analysis.tables.columns import COLUMNS, OPTIONS
from analysis.tables.load import load_runs
from cluster.spec.documents import schema1
from cluster.spec.documents.run_folder import RunFolder, find_runs, write_json
from cluster.spec.experiment import Experiment
from tests.browser import chromium
from tests.slow_nodes import summary_of

PROJECT = Path(__file__).resolve().parents[2]
SESSION = PROJECT / "tests" / "data" / "session"
ALLREDUCE, PAIRWISE = "001-allreduce-n3-s1", "002-pairwise-n3-p1-exponential-s1"
SOURCES = ("worker", "kernel", "docker")
PLAIN_PYTHON = Path("/usr/bin/python3")


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """A copy to do damage to."""
    return Path(shutil.copytree(SESSION, tmp_path / "session"))


def summary(run: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((SESSION / run / "summary.json").read_text())
    return document


def change(session: Path, **values: Any) -> None:
    (session / ALLREDUCE / "summary.json").write_text(json.dumps(summary(ALLREDUCE) | values))


# -------------------------------------------------------------------------------------- the numbers


def test_runs_that_differ_in_an_option_have_different_labels(session: Path, tmp_path: Path) -> None:
    spec = summary(ALLREDUCE)["spec"]
    shutil.copytree(session / ALLREDUCE, session / "003-other")
    other = summary(ALLREDUCE) | {"run": "003-other", "spec": spec | {"lr": 0.25}}
    (session / "003-other" / "summary.json").write_text(json.dumps(other))
    assert main([str(session), "--output", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "report.html").read_text()
    assert "allreduce, lr 0.05" in page
    assert "allreduce, lr 0.25" in page
    assert "3 runs. mnist-cnn on mnist, 3 workers" in page  # what all have in common


def test_a_run_older_than_an_option_is_still_read(session: Path) -> None:
    spec = {k: v for k, v in summary(ALLREDUCE)["spec"].items() if k != "local_steps"}
    change(session, spec=spec)
    table = load_runs(find_runs(session)).table
    assert list(table["status"]) == ["completed", "completed"]
    assert pd.isna(table["local_steps"].iloc[0])


def test_a_run_of_today_is_read_with_every_option(session: Path) -> None:
    """The session was recorded before most of them; a summary has the whole Experiment."""
    today = Experiment(workers=3, strategy="allreduce", overlap=True, bottleneck="1:20mbit")
    change(session, spec=today.to_json() | {"schema": 1})
    row = load_runs(find_runs(session)).table.iloc[0]
    assert (row["status"], bool(row["overlap"])) == ("completed", True)
    assert row["bottleneck"] == "1:20mbit"


def test_a_row_holds_the_numbers_of_its_summary() -> None:
    runs = load_runs(find_runs(SESSION))
    assert list(runs.table["run"]) == [ALLREDUCE, PAIRWISE]
    for _, row in runs.table.iterrows():
        document = schema1.upgrade_summary(summary(row["run"]))
        spec, per_step, seconds = document["spec"], document["per_step"], document["seconds"]
        assert row.astype(object).where(row.notna(), None).to_dict() == {
            **{name: document[name] for name in ("session", "run", "status", "error")},
            **{name: spec[name] for name in ("strategy", "workers", "passes", "schedule")},
            **{name: spec.get(name) for name in ("engine", "dataset")},
            **{name: spec.get(name) for name in OPTIONS},  # recorded before --compress was there
            "network": spec.get("network") or "isolated",
            **{name: document[name] for name in ("accuracy", "loss", "consensus_distance")},
            **{name: document[name] for name in ("model_bytes", "steps", "rounds")},
            "sent_per_step_bytes": per_step["sent_mean_bytes"],
            "predicted_per_step_bytes": per_step["predicted_mean_bytes"],
            "predicted_framing_per_step_bytes": per_step.get("predicted_framing_bytes"),
            "sent_over_predicted": per_step["ratio"],
            "busiest_sent_per_step_bytes": per_step["sent_max_bytes"],
            "busiest_predicted_per_step_bytes": per_step["predicted_max_bytes"],
            "retransmitted_per_step_bytes": per_step.get("retransmitted_mean_bytes"),
            "train_sent_bytes": sum(
                node["train_sent_bytes"] for node in document["bytes"]["nodes"]
            ),
            "train_received_bytes": sum(
                node["train_received_bytes"] for node in document["bytes"]["nodes"]
            ),
            "train_payload_bytes": sum(  # these runs do not tell it apart
                node["train_sent_bytes"] for node in document["bytes"]["nodes"]
            ),
            "total_sent_bytes": document["bytes"]["total"]["sent_bytes"],
            "network_activity_sum": document["network_activity_sum"],
            "full_lr": None,
            "label_skew": None,
            "control_sent_bytes": None,
            "control_bytes_per_second": None,
            "pairs_interface_payload_bytes": None,
            "pairs_interface_header_bytes": None,
            "pairs_closed_connections": None,
            **{f"counter_{name}_bytes": document["counters"][f"{name}_bytes"] for name in SOURCES},
            "counters_largest_difference": document["counters"]["largest_difference"],
            **{name: seconds[name] for name in ("step_median_s", "compute_median_s")},
            "exposed_communication_median_s": seconds["exposed_communication_median_s"],
            "communication_bound_s": seconds.get("communication_bound_s"),
            **{name: seconds[name] for name in ("train_s", "total_s")},
            "wall_s": None,
            **dict.fromkeys(("predicted_step_s", "predicted_train_s")),
            **{name: None for name, key in COLUMNS.items() if key.startswith("faults.")},
            "dilation": 1.0,
            **dict.fromkeys(("fidelity", "largest_wait_share", "least_cpu_share")),
            **dict.fromkeys(("others_share", "steal_share")),
        }


def test_the_recorded_session_prints_the_recorded_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(SESSION), "--output", str(tmp_path)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[:5] == [
        "payload sent per worker and step, measured and predicted",
        "run accuracy sent predicted framing ratio per step counters",
        "20261116-015441-1bc7",
        "001-allreduce-n3-s1 48.39 % 117.7 kB 116.5 kB - 1.011 71.8 ms 0.002 %",
        "002-pairwise-n3-p1-exponential-s1 47.58 % 58.42 kB 58.24 kB - 1.003 75.8 ms 0.003 %",
    ]


def test_the_csv_read_again_is_the_table(tmp_path: Path) -> None:
    main([str(SESSION), "--output", str(tmp_path)])
    table = load_runs(find_runs(SESSION)).table
    unused = [option for option in OPTIONS if table[option].isna().all()]  # options that came later
    assert "straggler" in unused
    table = table.drop(columns=unused)
    kinds: dict[Any, Any] = table.dtypes.to_dict()
    again = pd.read_csv(tmp_path / "tables" / "runs.csv", dtype=kinds)
    pd.testing.assert_frame_equal(again, table.reset_index(drop=True))


@pytest.mark.parametrize("name", ["trust", "commands"])
def test_a_table_by_run_names_session_and_run(name: str, tmp_path: Path) -> None:
    assert main([str(SESSION), "--output", str(tmp_path)]) == 0
    found, runs = (pd.read_csv(tmp_path / "tables" / f"{each}.csv") for each in (name, "runs"))
    assert list(found.columns[:2]) == ["session", "run"]
    which = found[["session", "run"]].merge(runs[["session", "run"]])
    assert len(which) == len(found) > 0


def test_a_run_given_twice_is_one_row(tmp_path: Path) -> None:
    main([str(SESSION), str(SESSION / PAIRWISE), "--output", str(tmp_path)])
    assert len(pd.read_csv(tmp_path / "tables" / "runs.csv")) == 2


# ------------------------------------------------------------------------------------------- damage


def cut_off(session: Path) -> None:
    path = session / ALLREDUCE / "summary.json"
    path.write_bytes(path.read_bytes()[:700])


def not_text(session: Path) -> None:
    (session / ALLREDUCE / "summary.json").write_bytes(b"\xff\xfe\x00")


def put_text(session: Path, key: str, text: str) -> None:
    """What json.dumps does not write."""
    change(session, **{key: "@"})
    path = session / ALLREDUCE / "summary.json"
    path.write_text(path.read_text().replace('"@"', text))


def no_summary(session: Path) -> None:
    (session / ALLREDUCE / "summary.json").unlink()


DAMAGES: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "cut off": (cut_off, "damaged", "cut off"),
    "not text": (not_text, "damaged", "decode"),
    "no summary": (no_summary, "unfinished", "still going on, or was killed"),
    "a word for a number": (
        lambda s: change(s, accuracy="good"),
        "damaged",
        "accuracy must be a number, not 'good'",
    ),
    "a huge number": (lambda s: change(s, steps=10**30), "damaged", "steps must be at most 9"),
    "a part missing": (lambda s: change(s, per_step=[]), "damaged", "per_step must be"),
    "no spec": (lambda s: change(s, spec=None), "damaged", "spec must be an object"),
    "a bad curve": (lambda s: change(s, curve=[{}]), "damaged", "curve[0].epoch is missing"),
    "yes for a number": (
        lambda s: change(s, steps=True),
        "damaged",
        "steps must be a whole number, not True",
    ),
    "no list of nodes": (
        lambda s: change(s, seconds=summary(ALLREDUCE)["seconds"] | {"by_node": 3}),
        "damaged",
        "seconds.by_node must be a list, not 3",
    ),
    "an unknown strategy": (
        lambda s: change(s, spec=summary(ALLREDUCE)["spec"] | {"strategy": "gossip"}),
        "damaged",
        "unknown strategy 'gossip'",
    ),
    "an unknown launcher": (
        lambda s: change(s, spec=summary(ALLREDUCE)["spec"] | {"launcher": "mpi"}),
        "damaged",
        "spec.launcher unknown launcher 'mpi'",
    ),
    "a link that is none": (
        lambda s: change(s, spec=summary(ALLREDUCE)["spec"] | {"link": "zz"}),
        "damaged",
        "spec.link ",
    ),
    "a loss of 400 digits": (lambda s: change(s, loss=10**400), "damaged", "loss must be at most"),
    "a loss beyond any float": (lambda s: put_text(s, "loss", "1e400"), "damaged", "loss must be"),
    "half a surrogate pair": (lambda s: change(s, error="\ud800"), "damaged", "error must be text"),
    "nested deeply": (
        lambda s: put_text(s, "x", "[" * 10_000 + "]" * 10_000),
        "damaged",
        "damaged",
    ),
    "nested": (lambda s: put_text(s, "loss", "[" * 400 + "]" * 400), "damaged", "loss must be"),
    "a later schema": (lambda s: change(s, schema=3), "other schema", "has schema 3"),
}


@pytest.mark.parametrize(("damage", "status", "reason"), DAMAGES.values(), ids=DAMAGES)
def test_a_run_that_cannot_be_read_is_listed_and_not_fatal(
    session: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[Path], None],
    status: str,
    reason: str,
) -> None:
    damage(session)
    assert main([str(session), "--output", str(tmp_path / "out")]) == 0
    damaged, sound = load_runs(find_runs(session)).table.to_dict("records")
    assert (damaged["session"], damaged["run"]) == ("session", ALLREDUCE)
    assert damaged["status"] == status
    assert reason in damaged["error"]
    assert pd.isna(damaged["accuracy"])
    assert sound["accuracy"] == summary(PAIRWISE)["accuracy"]
    shown = capsys.readouterr().out
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"session/{ALLREDUCE}: {status}: " in shown
    assert f"session/{ALLREDUCE}</small>" in page


def test_a_failed_run_is_shown_with_its_error_and_what_it_had(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(session, status="failed", error="node2 <died>", accuracy=None, per_step=None, curve=[])
    assert main([str(session), "--output", str(tmp_path / "out")]) == 0
    assert f"{ALLREDUCE}: failed: node2 <died>" in capsys.readouterr().out
    assert "failed: node2 &lt;died&gt;" in (tmp_path / "out" / "report.html").read_text()


# ----------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize("arguments", [[], ["nowhere"], ["empty"], [str(SESSION), "empty"]])
def test_no_runs_is_one_line_that_says_where_it_looked_and_what_to_type(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path / (arguments[-1] if arguments else "runs")) in line
    assert "./measure.sh --workers 6 --passes 2" in line
    assert not (tmp_path / "report").exists()


def test_an_output_that_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as end:
        main([str(SESSION), "--output", str(tmp_path / "file")])
    assert end.value.code == 2
    assert "cannot write to" in capsys.readouterr().err


# ------------------------------------------------------------------------------- any shell's Python


def plain_python(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    if not PLAIN_PYTHON.exists():
        pytest.skip(f"there is no {PLAIN_PYTHON}")
    if subprocess.run([PLAIN_PYTHON, "-c", "import pandas"], capture_output=True).returncode == 0:
        pytest.skip(f"{PLAIN_PYTHON} has pandas")
    command = [str(PLAIN_PYTHON), "-m", "analysis.network_report", *arguments]
    return subprocess.run(command, cwd=project, env={}, capture_output=True, text=True)


def test_a_python_without_pandas_goes_on_in_the_projects_environment(tmp_path: Path) -> None:
    if not (PROJECT / ".venv").exists():
        pytest.skip("these tests do not run in the project's .venv")
    done = plain_python(PROJECT, str(SESSION), "--output", str(tmp_path / "a folder"))
    assert (done.returncode, done.stderr) == (0, "")
    assert PAIRWISE in done.stdout
    assert (tmp_path / "a folder" / "report.html").exists()


def test_without_an_environment_one_line_says_how_to_make_it(tmp_path: Path) -> None:
    for package in ("analysis", "cluster"):
        shutil.copytree(PROJECT / package, tmp_path / package)
    done = plain_python(tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.endswith("run ./measure.sh once: it makes the environment")


@pytest.mark.parametrize(
    "name",
    [
        *("analysis/__init__", "analysis/network_report", "analysis/predict/__init__"),
        *("analysis/predict/__main__", "cluster/__init__", "cluster/spec/__init__"),
        *("cluster/spec/own_environment", "workloads/__init__", "workloads/data/__init__"),
        *("workloads/data/__main__", "bench/__init__", "bench/__main__"),
    ],
)
def test_what_runs_before_the_environment_parses_on_python_3_8(name: str) -> None:
    ast.parse((PROJECT / f"{name}.py").read_text(), feature_version=(3, 8))


# ----------------------------------------------------------------------------------------- the page


class Addresses(HTMLParser):
    """Everything that a page's tags point to; what is inside scripts is not looked at."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("src", "href", "srcset")]


def shown_in_chromium(page: Path) -> str:
    """The page after its scripts have run in a real browser; it must have requested nothing."""
    with chromium() as browser:
        browser.open(page)
        shown = str(browser.run("document.documentElement.outerHTML"))
        assert browser.errors == []
        assert browser.requests == [page.as_uri()]
    assert "default-src 'none'" in shown
    assert {address[:1] for address in Addresses(shown).found} == {"#"}
    return shown


# ------------------------------------------------------------------------------------- bottlenecks


def slow_session(folder: Path, cases: dict[str | None, float]) -> Path:
    """Two strategies in every case, by bottleneck: how long all steps take in it."""
    for strategy in ("allreduce", "gather-scatter"):
        for bottleneck, step_s in cases.items():
            experiment = Experiment(strategy=strategy, workers=3, bottleneck=bottleneck)
            run = RunFolder(folder / f"{strategy}-{bottleneck}".replace(":", "-")).create()
            write_json(run.summary, summary_of(run, experiment, [step_s] * 3))
    return folder


def test_without_cases_to_compare_there_is_no_section_and_no_table(tmp_path: Path) -> None:
    main(
        [str(slow_session(tmp_path / "s", {None: 0.1, "1:9mbit": 0.4})), "--output", str(tmp_path)]
    )
    assert (tmp_path / "tables" / "bottlenecks.csv").exists()
    main([str(SESSION), "--output", str(tmp_path)])
    assert 'id="bottlenecks"' not in (tmp_path / "report.html").read_text()
    assert not (tmp_path / "tables" / "bottlenecks.csv").exists()


def test_chromium_shows_a_heat_map_of_nodes_by_case_for_each_strategy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The longest step is four times the shortest; twice is half as hot (logarithmic)."""
    session = slow_session(tmp_path / "s", {None: 0.1, "1:20mbit": 0.2, "0:5mbit": 0.4})
    main([str(session), "--output", str(tmp_path)])
    assert str(tmp_path / "tables/bottlenecks.csv") in capsys.readouterr().out
    shown = shown_in_chromium(tmp_path / "report.html")
    section = shown.partition('id="bottlenecks"')[2]
    assert re.findall("<caption>(.*?)</caption>", section) == ["allreduce", "gather-scatter"]
    panel = section.partition("<caption>allreduce")[2].partition("</table>")[0]
    assert re.findall("<th>(.*?)</th>", panel) == [
        *("", "no bottleneck", "node 0 at 5 Mbit/s", "node 1 at 20 Mbit/s"),
        *("node 0", "node 1", "node 2", "slow-down"),
    ]
    cells = re.findall(r'<td class="(.*?)" style="--heat:(.*?)"\s+title=".*?">(.*?)</td>', panel)
    row = [("0.00", "100 ms"), ("1.00", "400 ms"), ("0.50", "200 ms")]
    assert [(heat, text) for _, heat, text in cells] == row * 3
    assert [place for place, (kind, *_) in enumerate(cells) if "slow" in kind] == [1, 5]
    assert "node 0 at 5 Mbit/s: step 400 ms, slow-down 4.0 x, computing 10.0 ms" in panel
    assert re.search(r"Node 0 at 5 Mbit/s \(the root\) .* 4\.0 x", section)
    assert len(pd.read_csv(tmp_path / "tables" / "bottlenecks.csv")) == 2 * 3 * 3


# ------------------------------------------------------------------------- numbers that cannot be

NONSENSE: list[tuple[str, Any]] = [
    ("accuracy", 7.0),
    ("seconds.step_median_s", -1.0),
    ("seconds", {"step_median_s": 0.0}),
    ("bytes.train.sent_bytes", -5),
    ("counters.worker_bytes", -10),
    ("spec.workers", 0),
    ("spec.workers", 10**9),
    ("spec.passes", -1),
    ("spec.epochs", 0),
    ("spec.test_size", 0),
    ("model_bytes", -4),
    ("model_bytes", None),
    ("steps", 0),
    ("rounds", None),
    ("per_step.ratio", "x"),
    ("training.shards.label_counts", [[-5, 2], [3, 1], [2, 2]]),
    ("training.epochs", [7]),
]


def with_label_skew(tmp_path: Path) -> Path:
    """A copy of a run of today, to do damage to."""
    (session,) = (PROJECT / "tests" / "data" / "label-skew").iterdir()
    return Path(shutil.copytree(session, tmp_path / "label-skew"))


def put(run: Path, place: str, value: Any) -> None:
    document = json.loads((run / "summary.json").read_text())
    *path, last = place.split(".")
    inner = document
    for name in path:
        inner = inner[name]
    inner[last] = value
    (run / "summary.json").write_text(json.dumps(document))


@pytest.mark.parametrize(("place", "value"), NONSENSE, ids=str)
def test_a_number_that_cannot_be_is_damage_and_named(
    tmp_path: Path, place: str, value: Any
) -> None:
    session = with_label_skew(tmp_path)
    put(session / "001-allreduce-n3-s1", place, value)
    table = load_runs(find_runs(session)).table
    assert list(table["status"]) == ["damaged", "completed"]
    assert place.removesuffix(".label_counts") in table["error"].iloc[0]


def test_an_epoch_that_comes_twice_is_damage(tmp_path: Path) -> None:
    session = with_label_skew(tmp_path)
    run = session / "001-allreduce-n3-s1"
    curve = json.loads((run / "summary.json").read_text())["curve"]
    put(run, "curve", [*curve, curve[0]])
    assert "curve has an epoch twice" in load_runs(find_runs(session)).table["error"].iloc[0]


def test_empty_parts_of_a_whole_summary_are_no_damage(tmp_path: Path) -> None:
    session = with_label_skew(tmp_path)
    first, second = (
        session / name for name in ("001-allreduce-n3-s1", "002-pairwise-n3-p1-ring-s1")
    )
    put(first, "training.shards.label_counts", [[0, 0], [0, 0], [0, 0]])
    epochs = json.loads((second / "summary.json").read_text())["training"]["epochs"]
    put(second, "training.epochs", [document | {"seconds": 0.0} for document in epochs])
    shutil.rmtree(first / "events")
    (second / "samples.csv").unlink()
    assert main([str(session), "--output", str(tmp_path / "report")]) == 0
    table = pd.read_csv(tmp_path / "report" / "tables" / "runs.csv")
    assert list(table["status"]) == ["completed", "completed"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("environment.json", b"null", "environment.json must be an object"),
        ("environment.json", b'{"schema":2,"command":5,"engine":{}}', "environment.json: command"),
        ("spec.json", b"[]", "spec.json must be an object"),
        ("spec.json", b"[" * 100_000, "spec.json is cut off or damaged"),
        ("samples.csv", b"t,node\n1,2\n", "samples.csv: line 2: "),
        ("samples.csv", bytes(range(256)), "samples.csv: line 2: "),
        ("events/node0.jsonl", b'{"event":"phase","t":"x"}\n', "node0.jsonl: "),
    ],
    ids=map(str, range(7)),
)
def test_damage_beside_a_whole_summary_is_named_and_the_numbers_are_shown(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    session = with_label_skew(tmp_path)
    run = session / "001-allreduce-n3-s1"
    (run / name).write_bytes(content)
    damaged, sound = load_runs(find_runs(session)).table.to_dict("records")
    assert (damaged["status"], sound["status"]) == ("damaged", "completed")
    assert damaged["error"].startswith(reason)
    assert damaged["accuracy"] == json.loads((run / "summary.json").read_text())["accuracy"]


def test_pairs_whose_ends_were_not_matched_are_no_measurement(tmp_path: Path) -> None:
    """As where addresses are translated on the way: nothing is matched, nothing agrees."""
    (recorded,) = (PROJECT / "tests" / "data" / "runs").glob("*/003-pairwise-n4-*")
    session = shutil.copytree(recorded.parent, tmp_path / "session")
    for run in session.iterdir():
        pairs = json.loads((run / "summary.json").read_text())["traffic_matrix"]["pairs"]
        nothing = dict.fromkeys(("sent_bytes", "received_bytes", "control_bytes"), 0)
        put(run, "traffic_matrix.pairs", [pair | nothing for pair in pairs])
    assert main([str(session), "--output", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "report.html").read_text()
    assert 'id="traffic"' in page
    assert "furthest from theory" not in page
    assert main([str(recorded.parent), "--output", str(tmp_path / "whole")]) == 0
    assert "furthest from theory" in (tmp_path / "whole" / "report.html").read_text()
