"""Time dilation: which factor a run has, what is scaled by it, and that all seconds are."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from analysis.export.exported_run import read_run
from analysis.summary.summarise import summarise
from analysis.tables.rates import read_rates
from analysis.tables.steps import read_steps
from cluster.containers.compose_file import compose_document
from cluster.engine import EngineUnavailable
from cluster.flags import make_parser
from cluster.host import cgroups
from cluster.links.setup import in_emulated_time
from cluster.observe.host import enough
from cluster.plan import make_experiments
from cluster.spec.dilation import cpu_quota, least_dilation
from cluster.spec.documents.links import MeasuredLink
from cluster.spec.documents.run_folder import RunFolder, write_json
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment
from cluster.spec.links import parse_link
from cluster.sweep.dilation import Dilations
from cluster.sweep.estimate import predict
from workloads.models.networks import make_model
from workloads.models.synthetic import SyntheticNet

RECORDED = Path(__file__).parent.parent / "data" / "session" / "001-allreduce-n3-s1"


def experiments(line: str) -> list[Experiment]:
    return make_experiments(make_parser().parse_args(line.split()))


@pytest.mark.parametrize(
    ("flags", "dilation"),
    [
        ("--link 40mbit", "auto"),
        ("--bottleneck 1:5mbit", "auto"),
        ("", 1.0),
        ("--link 40mbit --model synthetic:1M", 1.0),
        ("--link 40mbit --dilation 1", 1.0),
        ("--dilation 2.5", 2.5),
        ("--dilation auto --model synthetic:1M", "auto"),
        ("--launcher spark --link 40mbit", 1.0),
    ],
)
def test_computing_nodes_on_shaped_links_are_dilated_by_default(
    flags: str, dilation: str | float
) -> None:
    (run,) = experiments(flags)
    assert run.dilation == dilation


def test_runs_of_a_session_are_dilated_alike_unless_told_otherwise() -> None:
    free, slow = experiments("--bottleneck none --bottleneck 1:5mbit")
    assert (free.dilation, slow.dilation) == ("auto", "auto")
    told = experiments("--bottleneck none --bottleneck 1:5mbit --dilation 1,3")
    assert sorted(run.slowdown for run in told) == [1.0, 1.0, 3.0, 3.0]


def test_a_spec_without_the_option_was_not_dilated() -> None:
    document = Experiment(link="40mbit").to_json()
    del document["dilation"]
    assert Experiment.from_json(document).dilation == 1.0


@pytest.mark.parametrize("text", ["0.5", "0", "-1", "101", "nan", "inf", "twice", "1e999", ""])
def test_other_factors_are_refused(text: str) -> None:
    with pytest.raises(SpecError, match="dilation"):
        Experiment(dilation=text)


def test_gpus_and_tiny_parts_of_a_core_are_refused() -> None:
    with pytest.raises(SpecError, match="GPUs"):
        Experiment(gpu=1, dilation=2.0)
    with pytest.raises(SpecError, match=r"0\.0001 cores"):
        Experiment(cpus=0.01, dilation=100.0)


@pytest.mark.parametrize("cores", [1, 2, 7, 64])
@pytest.mark.parametrize("wanted", [0.5, 1, 2, 3, 6.5, 16, 257])
def test_auto_is_the_least_factor_at_which_all_nodes_fit(wanted: float, cores: int) -> None:
    factor = least_dilation(wanted, cores)
    assert wanted / factor <= cores
    assert factor == 1 if wanted <= cores else wanted / (factor - 0.1) > 0.9 * cores


def chosen(run: Experiment, cores: Callable[[], int]) -> tuple[float, list[str]]:
    told: list[str] = []
    return Dilations(cores, told.append).of(run), told


def test_the_nodes_of_a_parameter_server_and_of_stragglers_count() -> None:
    server = Experiment(strategy="parameter-server", workers=2, dilation="auto")
    assert chosen(server, lambda: 3) == (1.0, [])
    factor, (line,) = chosen(server, lambda: 2)
    assert factor == least_dilation(3, 2)
    assert "3 nodes want 3 cores and 2 are here" in line
    slow = Experiment(workers=3, straggler="1:0.1,2:0.1", dilation="auto")
    assert chosen(slow, lambda: 2)[0] == 1.0


def test_a_dilation_at_which_nodes_do_not_fit_is_told() -> None:
    run = Experiment(workers=4, dilation=1.5)
    factor, (_, warning) = chosen(run, lambda: 2)
    assert (factor, "here 2.3" in warning) == (1.5, True)
    assert len(chosen(run, lambda: 3)[1]) == 1


def test_where_nodes_cannot_be_limited_auto_is_1_and_says_why() -> None:
    def none() -> int:
        raise EngineUnavailable("long", "no control group")

    factor, (line,) = chosen(Experiment(workers=9, dilation="auto"), none)
    assert (factor, "no control group" in line) == (1.0, True)


@pytest.mark.parametrize("cores", [0.001, 0.01, 0.1, 1 / 3, 0.5, 1.0, 2.5])
def test_a_quota_is_the_part_of_a_core_and_one_that_the_kernel_takes(cores: float) -> None:
    quota_us, period_us = cpu_quota(cores)
    assert quota_us / period_us == pytest.approx(cores, rel=1e-3)
    assert quota_us >= 1000
    assert 1000 <= period_us <= 1_000_000
    assert period_us <= 10_000 or cores < 0.1


def test_everything_of_a_node_is_slowed_down_by_the_same_factor(tmp_path: Path) -> None:
    run = Experiment(workers=3, straggler="1:0.5", link="40mbit/10ms/1%", dilation=4.0)
    assert run.host_limits == {0: 0.25, 1: 0.125, 2: 0.25}
    slow = parse_link("40mbit/10ms/1%").dilated(4.0)
    assert (slow.rate_bit, slow.delay_s, slow.loss) == (10_000_000, 0.04, 0.01)
    model = make_model("synthetic:1k:2:30ms+60ms", 1, dilation=4.0)
    assert isinstance(model, SyntheticNet)
    assert (model.clock.forward_s, model.clock.backward_s) == pytest.approx((0.12, 0.24))

    document = compose_document(
        run, RunFolder(tmp_path), image="image", user="1:1", data_folder=tmp_path
    )
    nodes = [document["services"][f"node{rank}"] for rank in range(3)]
    shares = [node["cpu_quota"] / node["cpu_period"] for node in nodes]
    assert shares == pytest.approx([0.25, 0.125, 0.25])
    assert json.loads(document["services"]["link0"]["command"][-1])["dilation"] == 4
    quota, period = (int(n) for n in cgroups.settings("cpu", 0.125, v2=True)["cpu.max"].split())
    assert quota / period == 0.125


def test_a_link_is_reported_in_emulated_time() -> None:
    measured = MeasuredLink(
        node="node0",
        target="10mbit",
        target_mbit=10.0,
        sent_mbit=9.9,
        received_mbit=10.1,
        error=0.01,
        delay_ms=41.0,
    )
    told = in_emulated_time(measured, parse_link("40mbit/10ms"), 4.0)
    assert (told.target, told.target_mbit, told.error) == ("40mbit/10ms", 40.0, 0.01)
    assert (told.sent_mbit, told.received_mbit, told.delay_ms) == (39.6, 40.4, 10.25)


def numbers(document: object, key: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a document, by the path to it."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from numbers(value, f"{key}.{name}")
    elif isinstance(document, list):
        for place, value in enumerate(document):
            yield from numbers(value, f"{key}[{place}]")
    elif isinstance(document, int | float) and not isinstance(document, bool):
        yield key, document


def is_time(key: str) -> bool:
    name = key.rpartition(".")[2]
    return (name.endswith("_s") or name == "seconds") and not key.startswith(".fidelity")


KEPT = (".seconds.communication_bound_s", ".seconds.wall_s")
"""The bound is that of the emulated links; wall time is not divided."""


@pytest.fixture
def twice(tmp_path: Path) -> tuple[RunFolder, RunFolder]:
    """The same events and samples, recorded at dilation 1 and at 2."""
    folders = []
    for dilation in (1.0, 2.0):
        folder = RunFolder(tmp_path / f"at-{dilation:g}" / "run")
        shutil.copytree(RECORDED, folder.path)
        experiment = dataclasses.replace(folder.read_experiment(), dilation=dilation)
        write_json(folder.spec, experiment.to_json())
        write_json(folder.summary, summarise(folder, experiment, "completed"))
        folders.append(folder)
    return folders[0], folders[1]


def test_all_seconds_of_a_summary_are_halved_at_twice_the_dilation(
    twice: tuple[RunFolder, RunFolder],
) -> None:
    plain, dilated = (dict(numbers(json.loads(run.summary.read_text()))) for run in twice)
    times = [key for key in plain if is_time(key)]
    assert len(times) > 20
    for key, value in plain.items():
        if key.endswith("_per_s"):
            assert dilated[key] == pytest.approx(2 * value, rel=1e-3), key
        elif is_time(key) and key not in KEPT:
            assert dilated[key] == pytest.approx(value / 2, abs=2e-4), key
        elif not key.endswith(".dilation") and key != ".network_activity_sum":
            assert dilated[key] == value, key


def test_rates_curves_and_exports_are_in_emulated_time(
    twice: tuple[RunFolder, RunFolder],
) -> None:
    plain, dilated = twice
    rates, halved = read_rates(plain, 1.0), read_rates(dilated, 2.0)
    assert rates is not None
    assert halved is not None
    assert halved.step_s == pytest.approx(rates.step_s / 2)
    assert [end for _, _, end in halved.phases] == pytest.approx(
        [end / 2 for _, _, end in rates.phases], abs=2e-3
    )
    for node, sent_bit in rates.sent_bit.items():
        assert halved.sent_bit[node] == pytest.approx([2 * bit for bit in sent_bit], rel=0.02)
    steps = [read_steps(run, 1, 1, 10, k)["seconds"] for run, k in ((plain, 1.0), (dilated, 2.0))]
    assert list(steps[1]) == pytest.approx([s / 2 for s in steps[0]], abs=2e-4)
    exported = [read_run(run) for run in twice]
    lengths = [run.interval[1] - run.interval[0] for run in exported]
    assert lengths[1] == pytest.approx(lengths[0] / 2)
    assert exported[0].interval[0] == exported[1].interval[0]


def test_an_estimate_knows_the_dilation() -> None:
    def step_time(run: Experiment, compute_s: float, cores: int) -> float:
        return compute_s

    two, four = (predict(Experiment(workers=2, dilation=k), step_time) for k in (2.0, 4.0))
    assert four == pytest.approx(2 * two)


def test_a_busier_machine_needs_a_larger_factor() -> None:
    assert [enough(1.0, share) for share in (0.3, 0.6, 1.0)] == [3, 3, 3]
    assert enough(2.3, 1.0) == 6
