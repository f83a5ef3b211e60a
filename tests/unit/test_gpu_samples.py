"""GPU readings through NVML's interface: all values that a driver has, and the report on them."""

from __future__ import annotations

import csv
import dataclasses
import json
import shutil
import time
from pathlib import Path
from typing import Any

import pynvml
import pytest

from analysis.network_report import main as write_report
from analysis.predict.observations import observe_all
from analysis.summary import gpu_use
from analysis.summary.node_log import NodeLog
from analysis.summary.summarise import summarise
from analysis.tables.load import load_runs
from cluster.gpu.nvml import VALUES, Nvml, open_nvml
from cluster.gpu.samples import GpuCollector, gpus_by_node
from cluster.spec.documents.events import Boundary, Event, Failure, Phase
from cluster.spec.documents.records import GPU_FIELDS, Counters, GpuReading, GpuSample
from cluster.spec.documents.run_folder import RunFolder, write_json
from cluster.spec.experiment import Experiment
from tests import record_nvml
from tests.measuring import PROJECT
from tests.replayed_nvml import RECORDED, ReplayedNvml

RECORDED_RUNS = PROJECT / "tests" / "data" / "runs"


def test_a_gpu_with_nvlink_has_every_value() -> None:
    nvml = Nvml(ReplayedNvml("nvlink"))
    first, second = nvml.read(0), nvml.read(0)
    assert nvml.count() == 2
    assert (first.utilisation_percent, second.utilisation_percent) == (0, 71)
    assert first.memory_bytes == 456_130_560
    assert first.nvlink_sent_bytes == 981_204_117 * 1024
    assert second.pcie_received_bytes is not None
    assert first.pcie_received_bytes is not None
    assert second.pcie_received_bytes - first.pcie_received_bytes == 402_653_184
    assert first.pcie_sent_rate is None  # not asked for, where bytes are counted


def test_a_driver_without_nvlink_or_pcie_counters_leaves_them_empty() -> None:
    nvml = Nvml(ReplayedNvml("pcie-only"))
    nvml.read(0)
    reading = nvml.read(0)
    assert reading.nvlink_sent_bytes is None
    assert reading.nvlink_received_bytes is None
    assert reading.pcie_sent_bytes is None
    assert (reading.pcie_sent_rate, reading.pcie_received_rate) == (52_000_000, 310_000_000)
    assert reading.utilisation_percent == 88


def test_a_gpu_that_does_not_exist_has_no_value() -> None:
    assert Nvml(ReplayedNvml("nvlink")).read(7) == GpuReading()


def test_a_call_that_fails_leaves_only_its_own_values_empty() -> None:
    library = ReplayedNvml("nvlink")

    def fails(*_: Any) -> Any:
        raise library.NVMLError(library.NVML_ERROR_NOT_SUPPORTED)

    for name in ("UtilizationRates", "MemoryInfo", "FieldValues", "PcieThroughput"):
        setattr(library, f"nvmlDeviceGet{name}", fails)
    assert Nvml(library).read(0) == GpuReading()


def test_without_a_driver_there_is_no_nvml() -> None:
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("there is a driver here")
    assert open_nvml() is None


@pytest.mark.parametrize("reading", [GpuReading(), GpuReading(*range(len(GPU_FIELDS)))])
def test_a_sample_survives_its_row(reading: GpuReading) -> None:
    sample = GpuSample(1234.5678, "node1", 3, reading)
    assert GpuSample.from_row([str(cell) for cell in sample.row()]) == sample


def test_every_rank_has_a_gpu_and_a_single_rank_may_have_all() -> None:
    assert gpus_by_node(Experiment(workers=3), [0, 1, 2]) == {}
    two = Experiment(workers=2, gpu=1)
    assert gpus_by_node(two, [4, 6]) == {"node0": [4], "node1": [6]}
    assert gpus_by_node(two, [5], first_rank=1) == {"node1": [5]}
    alone = Experiment(strategy="single", workers=1, gpu=4)
    assert gpus_by_node(alone, [0, 1, 2, 3]) == {"node0": [0, 1, 2, 3]}


def test_samples_enclose_the_run(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    nvml = Nvml(ReplayedNvml("nvlink"))
    with GpuCollector(run.gpu_samples, nvml, {"node0": [0], "node1": [1]}, 0.1):
        time.sleep(0.1)
    samples = list(run.read_gpu_samples())
    assert {(s.node, s.gpu) for s in samples} == {("node0", 0), ("node1", 1)}
    assert len(samples) >= 4
    assert samples[0].reading.nvlink_sent_bytes is not None


def test_without_nvml_or_gpus_no_file_is_made(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    with GpuCollector(run.gpu_samples, None, {"node0": [0]}, 1.0):
        pass
    with GpuCollector(run.gpu_samples, Nvml(ReplayedNvml("nvlink")), {}, 1.0):
        pass
    assert not run.gpu_samples.exists()
    assert list(run.read_gpu_samples()) == []


def samples_of(name: str, gpu: int = 0, every_s: float = 1.0) -> list[GpuSample]:
    nvml = Nvml(ReplayedNvml(name))
    count = 5 if name == "nvlink" else 4
    return [GpuSample(100 + k * every_s, "node0", gpu, nvml.read(gpu)) for k in range(count)]


def phases(*starts: tuple[float, str]) -> dict[str, NodeLog]:
    events = [Phase(t=t, phase=phase, counters=Counters()) for t, phase in starts]
    return {"node0": NodeLog(events)}


def test_bytes_are_booked_to_the_training_phase() -> None:
    """Counters are at 0, 1/4, 1, 9/4 and 4 of 1,310,720 KiB; intervals count by training time."""
    logs = phases((100.5, "train"), (102.2, "evaluate"), (102.4, "train"), (102.9, "finish"))
    (use,) = gpu_use.describe(samples_of("nvlink"), logs)
    assert use.nvlink_sent_bytes == round(
        1_310_720 * 1024 * (1 / 4 * 0.5 + 3 / 4 + 5 / 4 * (0.2 + 0.5))
    )
    assert use.nvlink_received_bytes == use.nvlink_sent_bytes
    assert use.utilisation_mean == pytest.approx((0.71 + 0.96) / 2)
    assert use.memory_max_bytes == 3_985_637_376
    assert use.pcie_estimated is False


def test_bytes_that_are_not_counted_are_estimated_from_rates() -> None:
    (use,) = gpu_use.describe(samples_of("pcie-only"), phases((100.5, "train"), (102.5, "finish")))
    assert use.pcie_estimated is True
    assert use.pcie_sent_bytes == 2 * 50_000_000
    assert use.nvlink_sent_bytes is None


def test_a_counter_that_falls_has_restarted() -> None:
    readings = [GpuReading(nvlink_sent_bytes=n) for n in (900, 1000, 50, 80)]
    samples = [GpuSample(float(k), "node0", 0, reading) for k, reading in enumerate(readings)]
    (use,) = gpu_use.describe(samples, phases((0.0, "train"), (3.0, "finish")))
    assert use.nvlink_sent_bytes == 100 + 50 + 30


def test_training_that_failed_lasts_until_the_last_event() -> None:
    begun = phases((100.0, "setup"), (101.0, "train"))["node0"].events
    log = NodeLog([*begun, Failure(t=103.0, message="out of memory")])
    (use,) = gpu_use.describe(samples_of("nvlink"), {"node0": log})
    assert use.nvlink_sent_bytes == 1_310_720 * 1024 * (3 / 4 + 5 / 4)


@pytest.mark.parametrize("name", ["nvlink", "pcie-only"])
@pytest.mark.parametrize("logs", [{}, phases((100.0, "setup"), (104.0, "finish"))])
def test_without_training_no_bytes_are_booked(name: str, logs: dict[str, NodeLog]) -> None:
    (use,) = gpu_use.describe(samples_of(name), logs)
    assert use.utilisation_mean is None
    assert {getattr(use, counter) for counter in gpu_use.COUNTED} == {None}


@pytest.mark.parametrize(("kind", "grown"), [("uiVal", 1_500_000_000), ("ullVal", 500_000_000)])
def test_a_32_bit_counter_is_continued_when_it_restarts(kind: str, grown: int) -> None:
    library = ReplayedNvml("nvlink")
    sent = pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES
    for reading, count in zip(
        library._gpus[0]["readings"], (2**32 - 10**9, 5 * 10**8), strict=False
    ):
        reading["fields"][str(sent)] |= {"value": count, "type": VALUES.index(kind)}
    nvml = Nvml(library)
    samples = [GpuSample(float(k), "node0", 0, nvml.read(0)) for k in range(2)]
    (use,) = gpu_use.describe(samples, phases((0.0, "train"), (1.0, "finish")))
    assert use.pcie_sent_bytes == grown


@pytest.fixture
def run_on_gpus(tmp_path: Path) -> RunFolder:
    """A recorded run of three workers as if on GPUs: next to nothing crossed eth0."""
    source = next(
        path.parent
        for path in sorted(RECORDED_RUNS.rglob("spec.json"))
        if "allreduce-n3" in str(path)
    )
    run = RunFolder(Path(shutil.copytree(source, tmp_path / "session" / "run")))
    spec = json.loads(run.spec.read_text()) | {"gpu": 1, "engine": "docker"}
    write_json(run.spec, spec)
    for rank in range(3):
        events = [next_to_nothing(event) for event in run.read_events(rank)]
        run.events(rank).write_text("".join(event.line() for event in events))
    return run


def next_to_nothing(event: Event) -> Event:
    """The event of a node whose exchange did not cross eth0."""
    if not isinstance(event, Boundary):
        return event
    counts = (count // 1000 for count in event.counters.values())
    return dataclasses.replace(event, counters=Counters(*counts))


def record(run: RunFolder, name: str) -> None:
    times = [event.t for event in run.read_events(0)]
    nvml = Nvml(ReplayedNvml(name))
    with run.gpu_samples.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(GpuSample.COLUMNS)
        for k in range(4):
            t = min(times) + k * (max(times) - min(times)) / 3
            writer.writerow(GpuSample(t, "node0", 0, nvml.read(0)).row())


def page_of(run: RunFolder, output: Path) -> str:
    write_json(run.summary, summarise(run, run.read_experiment(), "completed"))
    assert write_report([str(run.path), "--output", str(output)]) == 0
    return (output / "report.html").read_text()


def test_the_report_shows_nvlink_and_compares_nothing_with_eth0(
    run_on_gpus: RunFolder, tmp_path: Path
) -> None:
    record(run_on_gpus, "nvlink")
    page = page_of(run_on_gpus, tmp_path / "out")
    assert 'id="gpus"' in page
    assert "NVLink sent" in page
    assert (tmp_path / "out" / "tables" / "gpus.csv").exists()
    summary = run_on_gpus.read_summary()
    assert (summary.gpus[0].nvlink_sent_bytes or 0) > 10**8
    assert summary.per_step is not None
    assert summary.per_step.ratio is None  # theory says nothing of eth0 here
    assert "not over eth0</td>" in page


def test_an_exchange_that_did_not_cross_eth0_has_no_bytes_in_tables(
    run_on_gpus: RunFolder, tmp_path: Path
) -> None:
    record(run_on_gpus, "nvlink")
    page = page_of(run_on_gpus, tmp_path / "out")
    runs = load_runs([run_on_gpus])
    assert runs.table.loc[1, "status"] == "completed"
    assert runs.table.loc[1, ["train_sent_bytes", "sent_per_step_bytes"]].isna().all()
    assert len(runs.curves)
    assert runs.curves["sent_bytes"].isna().all()
    for column in ("bytes for a point of accuracy", "sent per worker and step", "sent, all nodes"):
        assert f">{column}<" not in page
    assert (tmp_path / "out" / "tables" / "target.csv").exists()  # in time and epochs
    assert 'id="accuracy-against-bytes"' not in page


def test_an_exchange_that_did_not_cross_eth0_has_no_traffic_matrix(
    run_on_gpus: RunFolder, tmp_path: Path
) -> None:
    page_of(run_on_gpus, tmp_path / "out")
    assert not (tmp_path / "out" / "tables" / "nodes.csv").exists()
    assert load_runs([run_on_gpus]).table["total_sent_bytes"].isna().all()


def test_beside_runs_on_cpus_it_has_no_bytes_either(run_on_gpus: RunFolder, tmp_path: Path) -> None:
    page_of(run_on_gpus, tmp_path / "alone")
    counted = sorted(path.parent for path in RECORDED_RUNS.rglob("spec.json"))[:6]
    folders = [run_on_gpus.path, *counted]
    output = tmp_path / "out"
    assert write_report([*map(str, folders), "--output", str(output)]) == 0
    page = (output / "report.html").read_text()
    assert 'id="accuracy-against-bytes"' in page
    with (output / "tables" / "target.csv").open() as file:
        sent = {row["configuration"]: row["payload_bytes"] for row in csv.DictReader(file)}
    assert "" in sent.values()
    assert len([size for size in sent.values() if size]) > 1


def test_the_cost_model_of_cpus_and_eth0_is_not_fitted_to_gpus(run_on_gpus: RunFolder) -> None:
    for gpu, observed in ((1, 0), (0, 1)):
        write_json(run_on_gpus.spec, json.loads(run_on_gpus.spec.read_text()) | {"gpu": gpu})
        summary = summarise(run_on_gpus, run_on_gpus.read_experiment(), "completed")
        write_json(run_on_gpus.summary, summary.to_json())
        assert len(observe_all([run_on_gpus])) == observed


def test_a_single_process_on_gpus_has_sent_0_bytes(
    run_on_gpus: RunFolder,
) -> None:
    summary = summarise(run_on_gpus, run_on_gpus.read_experiment(), "completed").to_json()
    summary["per_step"]["predicted_mean_bytes"] = 0.0
    summary["bytes"]["train"]["sent_bytes"] = 0
    write_json(run_on_gpus.summary, summary)
    assert load_runs([run_on_gpus]).table.loc[1, "train_sent_bytes"] == 0


def test_a_gpu_without_nvlink_has_no_such_column(run_on_gpus: RunFolder, tmp_path: Path) -> None:
    record(run_on_gpus, "pcie-only")
    page = page_of(run_on_gpus, tmp_path / "out")
    assert "PCIe sent" in page
    assert "estimated" in page
    assert "NVLink sent" not in page


def test_the_report_says_that_no_driver_answered(run_on_gpus: RunFolder, tmp_path: Path) -> None:
    page = page_of(run_on_gpus, tmp_path / "out")
    assert "no NVIDIA driver answered" in page
    assert not (tmp_path / "out" / "tables" / "gpus.csv").exists()


def test_a_run_without_gpus_has_no_such_section(run_on_gpus: RunFolder, tmp_path: Path) -> None:
    write_json(run_on_gpus.spec, json.loads(run_on_gpus.spec.read_text()) | {"gpu": 0})
    assert 'id="gpus"' not in page_of(run_on_gpus, tmp_path / "out")


@pytest.mark.parametrize(("name", "readings"), [("nvlink", 5), ("pcie-only", 4)])
def test_replaying_a_recording_gives_the_same_recording(name: str, readings: int) -> None:
    recorded = json.loads((RECORDED / f"{name}.json").read_text())["gpus"]
    assert record_nvml.record(ReplayedNvml(name), readings, 0) == recorded
