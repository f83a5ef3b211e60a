"""Host launchers on real clusters of namespaces: the same bytes and accuracy as our own nodes."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster.spec.documents.events import Hello
from cluster.spec.documents.run_folder import RunFolder
from tests import laws
from tests.labs.lab import Flags, Lab, need, run_lab
from tests.measuring import COMMAND, Measured, measure, one, processes_of

SIZES = (
    *("--epochs", "2", "--train-size", "1920", "--batch-size", "32", "--test-size", "500"),
    *("--lr-rule", "none", "--seed", "3"),
)
OURS = [
    {"workers": "3", "strategy": "allreduce,gather-scatter,pairwise"},
    {"workers": "2", "strategy": "allreduce,pairwise"},
    {"virtual": "yes", "workers": "6", "strategy": "allreduce,pairwise,allgather,sgp"},
]
THREE, TWO, VIRTUAL = (tuple(f"--{k}={v}" for k, v in sweep.items()) for sweep in OURS)
ENDLESS = ("--workers", "3", "--epochs", "200", "--train-size", "960", "--test-size", "100")
REFUSED: dict[str, list[tuple[Flags, str]]] = {
    "slurm": [
        (("--workers", "4"), "4 nodes need 4 hosts, one each, and the default partition has 3"),
        (("--slurm-partition", "fast"), "there is no partition 'fast'; there is "),
        (("--workers", "3", "--slurm-time", "2-00:00:00"), "cannot start: PartitionTimeLimit"),
        (("--workers", "3", "--host-python", "/no/python"), "before all of its hosts had come"),
        (("--workers", "3", "--patience", "1s"), "waited 1 s in Slurm's queue"),
    ],
    "ray": [
        (("--workers", "4"), "4 nodes need 4 hosts, one each, and the Ray cluster at 10.77.0.4"),
    ],
    "spark": [
        # A machine that is busy beyond measure may not bring up those that there are in time.
        (
            ("--workers", "3", "--patience", "2s"),
            "3 workers need 3 free slots, one each, and the cluster gave [0-2] and no more",
        ),
        (("--workers", "1"), "psutil is 5.0.0 on host[01] .*it must be the same"),
    ],
}
"""Flags, and what the one line says that they are answered with."""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The same runs on nodes of our own."""
    output = str(tmp_path_factory.mktemp("here"))
    flags = ("--engine", "netns", "--dilation", "1", *SIZES, "--output", output)
    found = measure(*flags, sweeps=OURS)
    assert found.code == 0, found.stderr
    return found.summaries


@pytest.fixture(scope="module")
def real(here: list[dict[str, Any]]) -> dict[tuple[int, str], dict[str, Any]]:
    """By workers and strategy."""
    specs = [(summary["spec"], summary) for summary in here]
    return {(s["workers"], s["strategy"]): summary for s, summary in specs if not s["virtual"]}


@pytest.fixture(scope="module", params=["slurm", "ray"])
def lab(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    here: list[dict[str, Any]],  # also fetches the data, which hosts cannot
) -> Lab:
    """Of three hosts."""
    launcher = request.param
    need(launcher)
    folder = tmp_path_factory.mktemp(launcher)
    same, killed = {"same": (*THREE, *SIZES)}, {"killed": ENDLESS}
    refused = {f"refused{k}": flags for k, (flags, _) in enumerate(REFUSED[launcher])}
    if launcher == "ray":
        virtual = {"virtual": (*VIRTUAL, *SIZES)}
        return run_lab(launcher, 3, folder, [same, refused, virtual, killed], kill=2)
    prepare = [*COMMAND, "--launcher", "slurm", *TWO, *SIZES, "--prepare", str(folder / "job")]
    (waits,) = (name for name, flags in refused.items() if "--patience" in flags)
    queued = {waits: refused.pop(waits)}
    until = f"until [ -e {folder}/{waits}.code ]; do sleep 0.1; done"
    first = (
        f"{shlex.join(prepare)} && sbatch --wait {folder}/job/job.sbatch"
        f" && sbatch --nodes=3 --exclusive --output=/dev/null --wrap '{until}'"
    )
    return run_lab(launcher, 3, folder, [queued, same, refused, killed], kill=2, first=first)


@pytest.fixture(scope="module")
def spark_lab(
    pyspark: None, tmp_path_factory: pytest.TempPathFactory, here: list[dict[str, Any]]
) -> Lab:
    """Of two hosts; for one measure their Python finds the metadata of another psutil first."""
    folder = tmp_path_factory.mktemp("spark")
    other = folder / "packages" / "psutil-5.0.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: psutil\nVersion: 5.0.0\n")
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH={other.parent}:$PYTHONPATH exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    few, another = (flags for flags, _ in REFUSED["spark"])
    refused = {"refused0": few, "refused1": (f"PYSPARK_PYTHON={python}", *another)}
    same = {"same": (*TWO, "--strategy", "pairwise", *SIZES)}
    return run_lab("spark", 2, folder, [same, {"virtual": (*VIRTUAL, *SIZES)}, refused])


def test_hosts_learn_the_same_and_send_the_same_as_our_own_nodes(
    lab: Lab, real: dict[tuple[int, str], dict[str, Any]]
) -> None:
    found = lab.measured("same")
    assert found.code == 0, found.stderr
    assert len(found.summaries) == 3
    for there in found.summaries:
        ours = real[3, there["spec"]["strategy"]]
        assert (there["status"], there["spec"]["engine"]) == ("completed", "existing")
        assert there["accuracy"] == ours["accuracy"]
        assert there["loss"] == pytest.approx(ours["loss"], abs=1e-6)
        assert sent_between(there) == pytest.approx(sent_between(ours), rel=1e-3)
        sent = [summary["per_step"]["sent_mean_bytes"] for summary in (there, ours)]
        assert sent[0] == pytest.approx(sent[1], rel=1e-3)
        # Agents' heartbeats and Ray's daemons share the interfaces.
        assert there["control_traffic"]["sent_mean_bytes"] is not None
        run = lab.run("same", there)
        assert (run / "model" / "consensus.pt").stat().st_size > 80_000
        assert [name_of_host(run, rank) for rank in range(3)] == ["host0", "host1", "host2"]


def sent_between(summary: dict[str, Any]) -> int:
    """Bytes between the workers, by their connections."""
    return sum(int(pair["sent_bytes"]) for pair in summary["traffic_matrix"]["pairs"])


def name_of_host(run: Path, rank: int) -> str | None:
    """As a node's hello tells it."""
    events = RunFolder(run).read_events(rank)
    return next(event.host for event in events if isinstance(event, Hello))


def test_spark_learns_the_same_and_counts_every_worker(
    spark_lab: Lab, real: dict[tuple[int, str], dict[str, Any]]
) -> None:
    found = spark_lab.measured("same")
    assert found.code == 0, found.stderr
    assert len(found.summaries) == 1  # all-reduce: below, and in containers
    for there in found.summaries:
        ours = real[2, there["spec"]["strategy"]]
        assert there["accuracy"] == pytest.approx(ours["accuracy"], abs=1e-3)
        predicted = there["per_step"]["predicted_mean_bytes"]
        assert laws.sent_once(there) == pytest.approx(predicted, rel=0.03)
        assert laws.sent_once(there) == pytest.approx(laws.sent_once(ours), rel=0.03)
        assert there["spec"]["engine"] == "existing"
        nodes: list[dict[str, Any]] = there["bytes"]["nodes"]
        assert [node["node"] for node in nodes] == ["node0", "node1"]
        assert min(node["train_sent_bytes"] for node in nodes) > 0
        assert there["control_traffic"]["bytes_per_s"] > 0
        laws.pairs_are_as_predicted(there, 0.05)
        assert (spark_lab.run("same", there) / "model" / "consensus.pt").stat().st_size > 80_000
    assert "10.77" not in found.stderr.partition("workers on")[0]


def runs_of_virtual_workers_are_those_of_this_machine(
    lab: Lab, hosts: int, here: list[dict[str, Any]]
) -> None:
    """Each on one host, the first ones on different hosts: the same accuracy, prediction, model."""
    found = lab.measured("virtual")
    assert found.code == 0, found.stderr
    ours = {s["spec"]["strategy"]: s for s in here if s["spec"]["virtual"]}
    assert [s["spec"]["strategy"] for s in found.summaries] == list(ours)
    for there in found.summaries:
        expected = ours[there["spec"]["strategy"]]
        assert there["spec"]["engine"] == "existing"
        for key in ("accuracy", "loss", "accuracy_by_worker", "steps"):
            assert there[key] == expected[key], key
        for key in ("predicted_mean_bytes", "predicted_max_bytes", "predicted_framing_bytes"):
            assert there["per_step"][key] == expected["per_step"][key], key
        assert (lab.run("virtual", there) / "model" / "consensus.pt").stat().st_size > 80_000
    first = [name_of_host(lab.run("virtual", s), 0) for s in found.summaries[:hosts]]
    assert sorted(map(str, first)) == [f"host{rank}" for rank in range(hosts)]


def test_runs_of_virtual_workers_are_spread_over_the_hosts_of_ray(
    lab: Lab, here: list[dict[str, Any]]
) -> None:
    if lab.launcher == "ray":
        runs_of_virtual_workers_are_those_of_this_machine(lab, 3, here)


def test_runs_of_virtual_workers_are_spread_over_the_hosts_of_spark(
    spark_lab: Lab, here: list[dict[str, Any]]
) -> None:
    runs_of_virtual_workers_are_those_of_this_machine(spark_lab, 2, here)


def test_a_host_that_is_killed_ends_the_run_with_its_name(lab: Lab) -> None:
    """Within 30 s, as docs/several-hosts.md says: many times what it takes."""
    found = lab.measured("killed")
    assert found.code == 1, found.stderr
    (summary,) = found.summaries
    assert summary["status"] == "failed"
    assert "node2 on host2 is gone" in summary["error"]
    assert lab.ended_at("killed") - lab.killed_at < 30


def refused_in_one_line(refused: Measured, launcher: str, says: str) -> None:
    assert refused.code == 2, refused.stderr
    last = refused.stderr.splitlines()[-1]
    assert last.startswith(f"measure: launcher {launcher}: ")
    assert re.search(says, last)


def test_what_hosts_cannot_do_is_refused_with_one_line(lab: Lab) -> None:
    for k, (_, says) in enumerate(REFUSED[lab.launcher]):
        refused_in_one_line(lab.measured(f"refused{k}"), lab.launcher, says)


def test_what_a_spark_cluster_cannot_do_is_refused_with_one_line(spark_lab: Lab) -> None:
    for k, (_, says) in enumerate(REFUSED["spark"]):
        refused_in_one_line(spark_lab.measured(f"refused{k}"), "spark", says)


def test_a_prepared_batch_script_does_all_runs_by_itself(
    lab: Lab, real: dict[tuple[int, str], dict[str, Any]]
) -> None:
    if lab.launcher != "slurm":
        return
    said = (lab.folder / "first.log").read_text()
    summaries = [RunFolder(run).read_summary() for run in sorted((lab.folder / "job").glob("0*"))]
    assert [summary.status for summary in summaries] == ["completed"] * 2, said
    for summary in summaries:
        assert summary.accuracy == real[2, str(summary.spec["strategy"])]["accuracy"]
        laws.bytes_are_as_predicted(summary.to_json(), 0.03)


def nothing_is_left(lab: Lab, folders: int) -> None:
    assert processes_of(lab.folder) == []
    left = {path.name for path in (lab.folder / "scratch").iterdir()}
    assert len({name for name in left if name.startswith("gradwire-")}) <= folders


def test_nothing_is_left_behind(lab: Lab) -> None:
    """But the folder of the agent whose host was killed."""
    nothing_is_left(lab, folders=1)


def test_nothing_is_left_behind_by_spark(spark_lab: Lab) -> None:
    nothing_is_left(spark_lab, folders=0)


@pytest.mark.usefixtures("pyspark")
def test_spark_workers_that_share_a_host_share_its_bytes_with_a_warning(tmp_path: Path) -> None:
    flags = ("--launcher", "spark", "--spark-master", "local-cluster[2,1,1024]", "--workers", "2")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    before = set(Path("/tmp").glob("*lz4*"))
    sizes = ("--epochs", "1", "--train-size", "960", "--batch-size", "32", "--test-size", "200")
    measured = measure(
        *flags, *sizes, "--output", str(tmp_path), prefix=("env", f"TMPDIR={scratch}")
    )
    # Its executors are killed, and could remove nothing themselves.
    assert list(scratch.iterdir()) == []
    assert set(Path("/tmp").glob("*lz4*")) <= before
    summary = one(measured)
    assert "up to 2 share a host" in measured.stderr
    assert summary["counters"]["workers_per_host"] == 2
    assert (
        summary["per_step"]["sent_mean_bytes"] > 0.9 * summary["per_step"]["predicted_mean_bytes"]
    )
    # Their interfaces cannot tell them apart, their connections can.
    pairs = {(p["sender"], p["receiver"]): p for p in summary["traffic_matrix"]["pairs"]}
    assert set(pairs) == {(0, 1), (1, 0)}
    for (sender, receiver), pair in pairs.items():
        assert pair["sent_bytes"] - pair["control_bytes"] == pytest.approx(
            pair["predicted_bytes"], rel=0.1
        )
        # Two workers send each other the same; a node reads what it sent and what it received at
        # once.
        assert pair["received_bytes"] == pytest.approx(
            pairs[receiver, sender]["sent_bytes"], rel=0.01
        )
    assert processes_of(tmp_path) == []
