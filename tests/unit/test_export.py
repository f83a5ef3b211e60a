"""Exports, each opened by the tool it is for: its numbers are those of the run."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata, plugin_data_pb2

from analysis.export import timeline
from analysis.export.command import main
from analysis.export.exported_run import ExportedRun, read_run
from analysis.export.formats import FORMATS
from analysis.export.perfetto import trace_of
from analysis.export.scalars import final_scalars
from analysis.theory import traffic_matrix
from cluster.spec.documents.events import Step
from cluster.spec.documents.run_folder import find_runs
from tests.trace_processor import PerfettoInBrowser, perfetto

RUNS = Path(__file__).resolve().parents[1] / "data" / "runs"
MNIST = RUNS / "20261117-072543-2a07"
"""single, allreduce, pairwise and parameter-server, with two seeds each."""
TWO = [MNIST / "001-single-n1-s1", MNIST / "007-parameter-server-n3-s1"]
SESSION = RUNS / "20261117-140910-030a"
"""allreduce, gather-scatter and pairwise."""


def export(to: str, runs: Sequence[Path], output: Path) -> list[ExportedRun]:
    assert main([*map(str, runs), "--to", to, "--output", str(output)]) == 0
    return [read_run(folder) for path in runs for folder in find_runs(path)]


def steps_of(run: ExportedRun, worker: int) -> list[Step]:
    return run.record.steps[worker]


# ------------------------------------------------------------------------------------- TensorBoard


@pytest.fixture(scope="module")
def event_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[ExportedRun]]:
    output = tmp_path_factory.mktemp("tensorboard")
    return output, export("tensorboard", TWO, output)


def test_tensorboard_reads_every_scalar_with_its_step_and_time(
    event_files: tuple[Path, list[ExportedRun]],
) -> None:
    output, runs = event_files
    for run in runs:
        found = EventAccumulator(str(output / run.folder.session / run.folder.name)).Reload()
        losses = [(e.wall_time, e.step, e.value) for e in found.Scalars("node0/loss")]
        steps = steps_of(run, 0)
        assert losses == [(s.t, s.step, np.float32(s.loss)) for s in steps]
        means = [fmean(s.step_s for s in same) for same in zip(*run.record.steps, strict=True)]
        assert [e.value for e in found.Scalars("step/step_s")] == [np.float32(m) for m in means]
        scores = [(e.step, e.value) for e in found.Scalars("epoch/test_accuracy")]
        assert scores == [(p.epoch, np.float32(p.accuracy)) for p in run.summary.curve]
        times = [e.wall_time for e in found.Scalars("epoch/sent_bytes_so_far")]
        assert times == [epoch.t for epoch in run.record.logs[0].epochs]
        (last,) = found.Scalars("final/accuracy")
        assert last.value == np.float32(run.summary.accuracy)


def test_tensorboard_knows_the_options_as_hyperparameters(
    event_files: tuple[Path, list[ExportedRun]],
) -> None:
    output, runs = event_files
    for run in runs:
        found = EventAccumulator(str(output / run.folder.session / run.folder.name)).Reload()
        plugin = found.summary_metadata[metadata.SESSION_START_INFO_TAG].plugin_data
        content = plugin_data_pb2.HParamsPluginData.FromString(plugin.content)
        values = content.session_start_info.hparams
        assert values["strategy"].string_value == run.summary.spec["strategy"]
        assert values["workers"].number_value == run.summary.spec["workers"]
        given = {name for name, value in run.summary.spec.items() if value is not None}
        assert given - {"schema"} <= set(values)


# ------------------------------------------------------------------------------------------ MLflow


def test_the_mlflow_client_reads_params_metrics_and_artifacts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MLFLOW_ALLOW_FILE_STORE", "MLFLOW_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "true")
    from mlflow import MlflowClient

    exported = {run.folder.name: run for run in export("mlflow", TWO, tmp_path / "store")}
    client = MlflowClient((tmp_path / "store").as_uri())
    experiment = client.get_experiment_by_name(MNIST.name)
    runs = client.search_runs([experiment.experiment_id])
    assert {found.info.run_name for found in runs} == set(exported)
    for found in runs:
        run = exported[found.info.run_name]
        assert found.data.params == {key: str(value) for key, value in run.options.items()}
        assert found.info.status == "FINISHED"
        begin, end = (round(1000 * t) for t in run.interval)
        assert (found.info.start_time, found.info.end_time) == (begin, end)
        final = final_scalars(run)
        assert {name: found.data.metrics[name] for name in final} == final
        history = client.get_metric_history(found.info.run_id, "node0/exchange_s")
        assert [(m.step, m.value) for m in history] == [
            (s.step, s.exchange_s) for s in steps_of(run, 0)
        ]
        (artifact,) = client.list_artifacts(found.info.run_id)
        local = client.download_artifacts(found.info.run_id, artifact.path)
        assert Path(local).read_bytes() == run.folder.summary.read_bytes()


# ---------------------------------------------------------------------------------------- Perfetto

SLICES = """
  SELECT process.name, slice.name, slice.ts, slice.dur, slice.depth, slice.id, slice.arg_set_id
  FROM slice JOIN thread_track ON slice.track_id = thread_track.id
  JOIN thread USING (utid) JOIN process USING (upid)
  WHERE thread.name {thread} ORDER BY process.name, slice.ts, slice.depth"""
ARROWS = """
  SELECT p1.name, p2.name, a.name, b.name, EXTRACT_ARG(a.arg_set_id, 'args.bytes'),
    b.ts - (a.ts + a.dur)
  FROM flow JOIN slice a ON slice_out = a.id JOIN slice b ON slice_in = b.id
  JOIN thread_track t1 ON a.track_id = t1.id JOIN thread_track t2 ON b.track_id = t2.id
  JOIN thread h1 ON t1.utid = h1.utid JOIN thread h2 ON t2.utid = h2.utid
  JOIN process p1 ON h1.upid = p1.upid JOIN process p2 ON h2.upid = p2.upid"""
RATES = """
  SELECT process.name, SUM(value * (next - ts)) / 1e9 FROM (
    SELECT track_id, ts, value, LEAD(ts, 1, ts) OVER (PARTITION BY track_id ORDER BY ts) AS next
    FROM counter)
  JOIN process_counter_track AS track ON track_id = track.id JOIN process USING (upid)
  WHERE track.name = 'sent bytes/s' GROUP BY process.name ORDER BY process.name"""


@pytest.fixture(scope="module")
def browser() -> Iterator[PerfettoInBrowser]:
    with perfetto() as opened:
        yield opened


@pytest.mark.parametrize(
    "name",
    [
        "20261117-140910-030a/001-allreduce-n4-s1",
        "20261117-140910-030a/003-pairwise-n4-p1-ring-s1",
        "20261117-072543-2a07/007-parameter-server-n3-s1",
    ],
)
def test_perfetto_reads_steps_phases_messages_and_rates(
    name: str, tmp_path: Path, browser: PerfettoInBrowser
) -> None:
    (run,) = export("perfetto", [RUNS / name], tmp_path)
    trace = browser.load(tmp_path / f"{name}.json")
    assert trace.query("SELECT name, value FROM stats WHERE severity = 'error' AND value > 0") == []

    slices = trace.query(SLICES.format(thread="= 'steps'"))
    for rank, steps in enumerate(run.record.steps):
        of_node = [s for s in slices if s[0] == f"node{rank}"]
        whole = {str(s[1]): s[3] for s in of_node if s[4] == 0}
        assert whole == {f"step {s.step}": round(1e6 * s.step_s) * 1000 for s in steps}
        for part, key in (("data", "data_s"), ("compute", "compute_s"), ("exchange", "exchange_s")):
            found = [s[3] for s in of_node if s[1] == part and s[4] == 1]
            expected = [getattr(s, key) * 1e9 for s in steps]
            assert found == pytest.approx(expected, abs=2001)  # two roundings to 1 µs

    phases = trace.query(
        "SELECT SUM(EXTRACT_ARG(arg_set_id, 'args.sent_bytes')) FROM slice"
        " WHERE name LIKE 'train, epoch%'"
    )
    assert run.summary.bytes is not None
    assert phases == [(run.summary.bytes.train.sent_bytes,)]

    arrows = trace.query(ARROWS)
    predicted = predicted_pairs(run)
    sent: Counter[tuple[str, str]] = Counter()
    for source, destination, out, into, size, later_ns in arrows:
        assert str(out).startswith(f"to {destination}:")
        assert str(into).startswith(f"from {source}:")
        assert int(later_ns or 0) >= 0
        sent[str(source), str(destination)] += int(size or 0)
    assert dict(sent) == pytest.approx(predicted, abs=run.record.experiment.rounds)

    rates = {str(row[0]): row[1] for row in trace.query(RATES)}
    for node in run.record.experiment.node_names:
        read = [s.counters.sent_bytes for s in run.record.samples if s.node == node]
        assert rates[node] == pytest.approx(read[-1] - read[0], rel=1e-3, abs=100)


def test_messages_are_limited_to_whole_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the trace says where they end. A round of this ring has 24 messages."""
    run = read_run(find_runs(SESSION)[0])
    monkeypatch.setattr(timeline, "MOST_MESSAGES", 60)
    events = trace_of(run).events
    assert sum("flow_out" in event for event in events) == 48
    names = [event["args"] for event in events if event["name"] == "thread_name"]
    assert {"name": "scheduled messages until round 2"} in names


def predicted_pairs(run: ExportedRun) -> dict[tuple[str, str], float]:
    """Bytes of all rounds by sender and receiver, from the theory."""
    record = run.record
    assert record.hello is not None
    rounds = record.experiment.rounds
    setting = record.setting_in_order(record.hello)
    matrix = traffic_matrix.matrix(record.experiment.strategy, setting, rounds)
    return {
        (f"node{source}", f"node{destination}"): rounds * size
        for source, row in enumerate(matrix)
        for destination, size in enumerate(row)
        if size
    }


# ----------------------------------------------------------------------------------------- Parquet


def test_parquet_tables_have_typed_columns_and_the_runs_numbers(tmp_path: Path) -> None:
    runs = export("parquet", [RUNS], tmp_path / "tables")
    names = ("runs", "steps", "epochs", "samples", "links")
    tables = {
        name: pa.parquet.read_table(tmp_path / "tables" / f"{name}.parquet") for name in names
    }
    steps = tables["steps"]
    assert steps.schema.field("t").type == pa.timestamp("us", tz="UTC")
    assert steps.schema.field("step").type == pa.int64()
    assert steps.schema.field("loss").type == pa.float64()
    assert steps.num_rows == sum(len(worker) for run in runs for worker in run.record.steps)
    assert tables["samples"].num_rows == sum(len(run.record.samples) for run in runs)
    assert tables["links"].num_rows == sum(len(run.summary.links) for run in runs)
    assert tables["runs"]["run"].to_pylist() == [run.folder.name for run in runs]
    frame = steps.to_pandas()
    for run in runs:
        is_own = (frame["session"] == run.folder.session) & (frame["run"] == run.folder.name)
        of_worker = frame[is_own & (frame["worker"] == 0)]
        assert list(of_worker["step_s"]) == [s.step_s for s in steps_of(run, 0)]
        seconds = of_worker["t"].astype("int64") / 1e6
        assert list(seconds) == pytest.approx([s.t for s in steps_of(run, 0)], abs=1e-6, rel=0)
    scores = tables["epochs"].to_pylist()
    assert [row["test_accuracy"] for row in scores if row["test_accuracy"] is not None] == [
        point.accuracy for run in runs for point in run.summary.curve if point.accuracy is not None
    ]


# -------------------------------------------------------------------------------------- the command


def test_a_damaged_run_is_left_out_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = shutil.copytree(SESSION, tmp_path / "session")
    first, second, third = find_runs(session)
    with first.samples.open("a") as samples:
        samples.write("1e40,kernel,node0,1,1,1,1\n")
    second.summary.unlink()
    output = tmp_path / "out"
    assert main([str(session), "--to", "perfetto", "--output", str(output)]) == 0
    assert [path.stem for path in output.rglob("*.json")] == [third.name]
    told = capsys.readouterr()
    assert f"{first.name}: its times are from 1.79492e+09 s to 1e+40 s" in told.err
    assert f"{second.name}: no summary.json" in told.err
    assert "1 of 3 runs" in told.out
    shutil.rmtree(third.path)
    assert main([str(session), "--to", "perfetto", "--output", str(tmp_path / "none")]) == 1


@pytest.mark.parametrize("to", ["tensorboard", "mlflow", "parquet"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    to: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    package = FORMATS[to].packages[-1]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit, match="2"):
        main([str(MNIST), "--to", to, "--output", str(tmp_path / "out")])
    told = capsys.readouterr().err
    assert package in told
    assert "environment.sh export" in told


def test_a_folder_with_files_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(SystemExit, match="2"):
        main([str(MNIST), "--to", "perfetto", "--output", str(tmp_path)])
    assert "--output" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
