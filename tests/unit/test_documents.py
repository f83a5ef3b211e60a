"""Documents are written and read by the same classes, and described in docs/run-folder.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from cluster.spec.documents import schema1
from cluster.spec.documents.codec import (
    DocumentError,
    OtherSchema,
    from_json,
    hints,
    parse_json,
    to_json,
)
from cluster.spec.documents.events import (
    KINDS,
    ConnectionBytes,
    End,
    Event,
    Failure,
    Idle,
    Notice,
    RankOrder,
    Result,
    parse_event,
)
from cluster.spec.documents.field_docs import field_docs
from cluster.spec.documents.records import Counters
from cluster.spec.documents.run_folder import RunFolder, find_runs, write_json
from cluster.spec.documents.summary import PerStep, Summary
from tests.run_folder_page import DOCUMENTS, PAGE, rewrite, without_null

PROJECT = Path(__file__).resolve().parents[2]
DATA = PROJECT / "tests" / "data"
RECORDED = find_runs(DATA / "runs") + find_runs(DATA / "label-skew")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "20260101-000000-abcd" / "001-allreduce-n4-s1").create()


def names(run: RunFolder) -> str:
    return run.name


# --- reading and writing -------------------------------------------------------------------------


def assert_kept(written: Any, recorded: Any) -> None:
    """All that was recorded is written again; a key newer than the recording may be added."""
    if isinstance(recorded, dict):
        for key, value in recorded.items():
            assert_kept(written[key], value)
    elif isinstance(recorded, list):
        for item, value in zip(written, recorded, strict=True):
            assert_kept(item, value)
    else:
        assert written == recorded


@pytest.mark.parametrize("run", RECORDED, ids=names)
def test_a_recorded_document_read_and_written_again_is_the_same(run: RunFolder) -> None:
    assert_kept(run.read_summary().to_json(), json.loads(run.summary.read_text()))
    assert_kept(run.read_environment().to_json(), json.loads(run.environment.read_text()))
    for path in (run.path / "events").iterdir():
        for line in path.read_text().splitlines():
            assert_kept(parse_event(line).to_json(), json.loads(line))


def test_keys_of_a_later_version_are_kept_at_every_level(folder: RunFolder) -> None:
    document = RECORDED[0].read_summary().to_json()
    document["weather"] = {"rain_mm": 3}
    document["bytes"]["train"]["parity"] = [1, 2]
    document["curve"][0]["mood"] = None
    folder.summary.write_text(json.dumps(document))
    write_json(folder.summary, folder.read_summary())
    assert json.loads(folder.summary.read_text()) == document


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"per_step": {"ratio": "x"}}, "summary.json: per_step.ratio must be a number, not 'x'"),
        ({"steps": 2.5}, "summary.json: steps must be a whole number, not 2.5"),
        ({"steps": True}, "summary.json: steps must be a whole number, not True"),
        ({"steps": -1}, "summary.json: steps must be at least 0, not -1"),
        ({"accuracy": 7}, "summary.json: accuracy must be at most 1, not 7"),
        ({"curve": {}}, "summary.json: curve must be a list, not {}"),
        ({"curve": [{"epoch": 1}, {}]}, "summary.json: curve[1].epoch is missing"),
        ({"training": {"shards": {"label_counts": [[1], ["a"]]}}}, "label_counts[1][0] must be"),
        ({"spec": {"lr": []}}, "summary.json: spec.lr must be"),
        ({"links": [3]}, "summary.json: links[0] must be an object, not 3"),
        ({"session": None}, "summary.json: session must be text, not None"),
    ],
)
def test_a_wrong_value_is_named_with_file_and_key(
    folder: RunFolder, change: dict[str, Any], message: str
) -> None:
    document = Summary(session="s", run="r", status="failed", spec={}).to_json() | change
    folder.summary.write_text(json.dumps(document))
    with pytest.raises(DocumentError) as error:
        folder.read_summary()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_document_of_a_later_schema_is_told_from_a_damaged_one(folder: RunFolder) -> None:
    folder.environment.write_text('{"schema": 3, "command": 5}')
    with pytest.raises(OtherSchema, match=r"environment\.json has schema 3"):
        folder.read_environment()


def test_true_is_no_schema(folder: RunFolder) -> None:
    folder.environment.write_text('{"schema": true, "command": "measure.sh"}')
    with pytest.raises(OtherSchema, match=r"environment\.json has schema True"):
        folder.read_environment()


def test_a_number_that_is_not_finite_is_null_both_ways() -> None:
    assert (
        to_json(PerStep(ratio=float("inf"), sent_mean_bytes=1.0))
        == PerStep(sent_mean_bytes=1.0).to_json()
    )
    assert from_json(PerStep, parse_json('{"ratio": NaN}')) == PerStep()


@hypothesis.given(
    floats=st.floats(), whole=st.integers(), text=st.text(st.characters(exclude_categories=()))
)
def test_whatever_is_written_can_be_read(floats: float, whole: int, text: str) -> None:
    """A number out of range is null, text is without lone surrogates and control characters."""
    result = Result(loss=floats, accuracy=floats, steps=abs(whole) % 10**18)
    read = parse_event(result.line())
    assert isinstance(read, Result)
    assert read.steps == result.steps
    if 1e-50 < abs(floats) < 1e50:
        assert read.loss == floats
    message = parse_event(Failure(message=text).line())
    assert isinstance(message, Failure)
    assert message.message.encode().decode() == message.message
    assert [character for character in message.message if character < " "] == [
        character for character in text if character in "\t\n"
    ]
    if text.isprintable():
        assert message.message == text


def test_a_wrong_event_is_named_with_its_file(folder: RunFolder) -> None:
    folder.events(3).write_text('{"event":"epoch","t":1.0,"epoch":"one"}\n')
    with pytest.raises(DocumentError, match=r"node3\.jsonl: epoch must be a whole number"):
        folder.read_events(3)


def test_an_event_of_a_later_version_keeps_its_keys() -> None:
    line = '{"event":"merge","t":1.5,"with":[2]}\n'
    event = parse_event(line)
    assert type(event) is Event
    assert event.unknown_keys == {"with": [2]}


# --- schema 1 ------------------------------------------------------------------------------------

OLD = find_runs(DATA / "schema1")


@pytest.mark.parametrize("old", OLD, ids=names)
def test_a_folder_of_schema_1_is_the_same_run_as_in_schema_2(old: RunFolder) -> None:
    new = RunFolder(DATA / "runs" / old.session / old.name)
    assert json.loads(old.summary.read_text())["schema"] == 1
    assert old.read_summary() == new.read_summary()
    assert old.read_experiment() == new.read_experiment()
    assert old.read_environment() == new.read_environment()
    assert old.read_links() == new.read_links()
    for rank in range(new.read_experiment().nodes):
        assert [e.to_json() | {"schema": 2} for e in old.read_events(rank)] == [
            e.to_json() | {"schema": 2} for e in new.read_events(rank)
        ]


def test_the_numbers_of_schema_1_have_their_new_names() -> None:
    slow, pairs = (run.read_summary() for run in OLD)
    assert slow.per_step is not None
    assert (slow.per_step.ratio, slow.per_step.retransmitted_mean_bytes) == (1.00479, 96.5)
    assert (slow.links[1].target, slow.links[1].target_mbit) == ("20mbit", 20.0)
    assert slow.spec["lr_rule"] == "none"
    assert pairs.traffic_matrix is not None
    assert pairs.traffic_matrix.interfaces.header_bytes > 0
    assert pairs.training is not None
    assert pairs.training.shards is not None
    assert pairs.training.shards.label_skew == 0.0706
    assert [summary.unknown_keys for summary in (slow, pairs)] == [{}, {}]


def test_events_of_schema_1_are_read_as_todays_kinds() -> None:
    counted = '"counters":[1,2,3,4],"repeated":5,"segments":6,"connections":[["a:1","b:2",7,8]]'
    assert parse_event('{"event":"rest","t":1.0,"began":true,' + counted + "}") == Idle(
        t=1.0,
        began=True,
        counters=Counters(1, 2, 3, 4),
        retransmitted_bytes=5,
        sent_segments=6,
        connections=[ConnectionBytes("a:1", "b:2", 7, 8)],
    )
    assert parse_event('{"event":"joined","t":1.0,"order":[1,0]}') == RankOrder(t=1.0, order=[1, 0])
    assert parse_event('{"event":"news","t":1.0,"text":"up"}') == Notice(t=1.0, text="up")


def test_control_traffic_of_schema_1_is_read() -> None:
    old = {"schema": 1, "session": "s", "run": "r", "status": "completed", "spec": {}}
    old["control"] = {"message_bytes": 152.0, "sent_mean": 10.5, "per_second": 2.5}
    old["counters"] = {"worker": 4, "kernel": None, "docker": 5, "sharers": 2}
    summary = Summary.from_json(schema1.upgrade_summary(old))
    assert summary.control_traffic is not None
    assert summary.control_traffic.sent_mean_bytes == 10.5
    assert summary.control_traffic.bytes_per_s == 2.5
    assert summary.counters is not None
    assert (summary.counters.worker_bytes, summary.counters.workers_per_host) == (4, 2)


# --- docs/run-folder.md --------------------------------------------------------------------------


def parts(kind: Any) -> set[Any]:
    """A class and the classes of its parts."""
    found = {kind}
    for hint in hints(kind).values():
        part = without_null(hint)
        if hasattr(part, "__annotations__"):
            found |= parts(part)
    return found


def test_the_page_has_every_document_as_its_class_is() -> None:
    """To mend it: python3 -m tests.documentation"""
    page = PAGE.read_text()
    assert rewrite(page) == page
    for name in DOCUMENTS:
        assert f"<!-- keys of {name} -->" in page
    assert "`per_step.ratio` | number, null |  | Measured over predicted" in page


def test_a_unit_is_that_of_a_number_and_bytes_a_second_only_of_bytes() -> None:
    rows = [row.split(" | ") for row in PAGE.read_text().splitlines() if row.startswith("| `")]
    with_unit = {key.strip("| `"): (kind, unit) for key, kind, unit, *_ in rows if unit.strip()}
    assert not [key for key, (kind, _) in with_unit.items() if "object" in kind]
    assert {key for key, (_, unit) in with_unit.items() if unit == "bytes/s"} == {
        "pcie_sent_rate",
        "pcie_received_rate",
        "control_traffic.bytes_per_s",
    }


@pytest.mark.parametrize("kind", DOCUMENTS.values(), ids=list(DOCUMENTS))
def test_every_key_says_what_it_means(kind: type) -> None:
    for part in parts(kind):
        described = {name for each in part.__mro__[:-1] for name in _documented(each)}
        assert set(hints(part)) <= described, part


def _documented(kind: type) -> dict[str, str]:
    return {} if kind.__module__ == "builtins" else field_docs(kind)


def test_every_kind_of_event_has_a_name_and_a_class() -> None:
    assert {kind.kind for kind in KINDS.values()} == set(KINDS)
    assert End(counters=Counters()).line().startswith('{"event":"end","t":')
