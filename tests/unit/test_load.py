"""Tables of runs: what a notebook gets from `from analysis import load_runs`."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis import load_runs
from analysis.tables.columns import COLUMNS, PARTS, dtype, type_of
from cluster.spec.documents.codec import hints
from cluster.spec.documents.run_folder import find_runs

PROJECT = Path(__file__).resolve().parents[2]
DATA = PROJECT / "tests" / "data"


@pytest.mark.parametrize("name", ["runs", "session", "schema1"])
def test_a_folder_of_runs_is_loaded_by_its_path(name: str) -> None:
    """Of either schema."""
    runs = load_runs(str(DATA / name))
    assert list(runs.table["run"]) == [run.name for run in find_runs(DATA / name)]
    assert set(runs.table["status"]) == {"completed"}
    assert list(runs.table.columns) == list(COLUMNS)
    assert runs.folders[1].name == runs.table.loc[1, "run"]


def test_a_folder_that_does_not_exist_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_runs(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "text", "status", "reason"),
    [
        ("notes.txt", "{", "unfinished", "still going on, or was killed"),
        ("spec.json", "[]", "damaged", "spec.json: the spec must be an object"),
        ("links.json", '{"schema": 2, "links": 5}', "damaged", "links.json: links must be"),
        ("links.json", '{"schema": 3}', "other schema", "links.json has schema 3"),
        ("events/node0.jsonl", '{"event":"epoch","t":1,"epoch":"x"}\n', "damaged", "node0.jsonl"),
        ("events/node1.jsonl", '{"ev\n', "damaged", "node1.jsonl"),
    ],
)
@pytest.mark.parametrize("live", [False, True])
def test_a_run_without_a_summary_is_damaged_only_where_another_file_is(
    name: str, text: str, status: str, reason: str, live: bool, tmp_path: Path
) -> None:
    run = shutil.copytree(DATA / "session" / "001-allreduce-n3-s1", tmp_path / "run")
    (run / "summary.json").unlink()
    (run / name).write_text(text)
    row = load_runs(tmp_path, live=live).table.loc[1]
    if live and status == "unfinished":
        assert row["status"] == "running"
    else:
        assert row["status"] == status
        assert reason in row["error"]


@contextlib.contextmanager
def unprivileged() -> Iterator[None]:
    """Not as root, whom no permission keeps out."""
    user = os.geteuid()
    os.seteuid(65534 if user == 0 else user)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_run_folder_without_permissions_is_listed(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="gradwire-") as session:  # others may see this one
        Path(session).chmod(0o755)
        for run in find_runs(DATA / "session"):
            shutil.copytree(run.path, Path(session) / run.name)
        closed = Path(session) / "002-pairwise-n3-p1-exponential-s1"
        closed.chmod(0)
        try:
            with unprivileged():
                table = load_runs(session).table
        finally:
            closed.chmod(0o755)
    assert list(table["status"]) == ["completed", "damaged"]
    assert table.loc[2, "run"] == closed.name
    assert "Permission denied" in str(table.loc[2, "error"])


def test_a_damaged_copy_is_listed_by_its_folder_not_by_the_name_in_its_summary(
    tmp_path: Path,
) -> None:
    run = shutil.copytree(DATA / "session" / "001-allreduce-n3-s1", tmp_path / "mine" / "copy")
    (run / "environment.json").write_text("null")
    row = load_runs(tmp_path).table.loc[1]
    assert (row["session"], row["run"], row["status"]) == ("mine", "copy", "damaged")


def test_a_folder_whose_name_is_no_text_is_listed(tmp_path: Path) -> None:
    run = tmp_path / os.fsdecode(b"001-\xff\x1b[31m")
    run.mkdir()
    (run / "summary.json").write_text("{")
    row = load_runs(tmp_path).table.loc[1]
    assert row["status"] == "damaged"
    assert row["run"].encode().decode().isprintable()


def test_every_frame_has_the_keys_and_types_of_its_class() -> None:
    runs = load_runs(DATA / "runs")
    for name, (_, kind) in PARTS.items():
        frame = getattr(runs, name)
        expected = {"number": "Int64"} | {key: dtype(hint) for key, hint in hints(kind).items()}
        assert {key: str(found) for key, found in frame.dtypes.items()} == expected, name


def test_schema_1_has_the_same_numbers_as_schema_2() -> None:
    old, new = load_runs(DATA / "schema1"), load_runs(DATA / "runs")
    for _, row in old.table.iterrows():
        (same,) = [r for _, r in new.table.iterrows() if r["run"] == row["run"]]
        assert row.dropna().to_dict() == same.dropna().to_dict()


def test_a_column_has_the_type_of_its_key() -> None:
    assert dtype(type_of("per_step.ratio")) == "float64"
    assert dtype(type_of("spec.overlap")) == "boolean"
    assert dtype(type_of("traffic_matrix.interfaces.header_bytes")) == "Int64"


def test_the_package_is_imported_without_pandas() -> None:
    program = "import analysis, sys; print('pandas' in sys.modules); analysis.nothing"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True
    )
    assert done.stdout == "False\n"
    assert "module 'analysis' has no attribute 'nothing'" in done.stderr
