"""Host launchers on real clusters of namespaces: the same bytes and accuracy as our own nodes."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cluster.namespaces.cluster import unshare_command
from cluster.spec.documents.events import Hello
from cluster.spec.documents.run_folder import RunFolder
from tests import laws
from tests.labs import slurm
from tests.measuring import COMMAND, PATIENCE_S, PROJECT, Measured, measure, processes_of

SAME = (
    *("--workers", "3", "--strategy", "allreduce,gather-scatter,pairwise", "--epochs", "2"),
    *("--train-size", "5760", "--batch-size", "32", "--test-size", "500", "--lr-rule", "none"),
)
"""2 x 60 steps."""
ENDLESS = ("--workers", "3", "--epochs", "200", "--train-size", "960", "--test-size", "100")
PREPARED = ("--workers", "2", "--strategy", "allreduce,pairwise", *SAME[4:])
LAUNCHERS = ("slurm", "ray")
REFUSED: dict[str, list[tuple[tuple[str, ...], str]]] = {
    "slurm": [
        (("--workers", "4"), "4 nodes need 4 hosts, one each, and the default partition has 3"),
        (("--slurm-partition", "fast"), "there is no partition 'fast'; there is debug"),
        (("--workers", "3", "--slurm-time", "2-00:00:00"), "cannot start: PartitionTimeLimit"),
        (("--workers", "3", "--host-python", "/no/python"), "before all of its hosts had come"),
    ],
    "ray": [
        (("--workers", "4"), "4 nodes need 4 hosts, one each, and the Ray cluster at 10.77.0.4"),
    ],
}
"""Flags, and what the one line says that they are answered with."""


@dataclass(frozen=True)
class Lab:
    """What a cluster of three hosts did, and the measures beside it."""

    launcher: str
    folder: Path
    killed_s: float
    """From the death of a host to the end of the last measure."""

    def measured(self, index: int) -> Measured:
        text = {
            kind: (self.folder / f"{index}.{kind}").read_text() for kind in ("out", "err", "code")
        }
        return Measured(int(text["code"]), json.loads(text["out"] or "[]"), text["err"])


@pytest.fixture(scope="module", params=LAUNCHERS)
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """All measures beside one cluster, since starting it takes longest."""
    launcher = request.param
    _need(launcher)
    folder = tmp_path_factory.mktemp(launcher)
    refused = [flags for flags, _ in REFUSED[launcher]]
    plan: dict[str, Any] = {"measures": [SAME, *refused, ENDLESS], "kill": 2}
    if launcher == "slurm":
        prepare = [*COMMAND, "--launcher", "slurm", *PREPARED, "--prepare", str(folder / "job")]
        plan["first"] = f"{shlex.join(prepare)} && sbatch --wait {folder}/job/job.sbatch"
    command = [sys.executable, "-m", f"tests.labs.{launcher}", "3", str(folder), json.dumps(plan)]
    (folder / "scratch").mkdir()
    answer = subprocess.run(
        [*unshare_command(), *command],
        cwd=PROJECT,
        env={**os.environ, "TMPDIR": str(folder / "scratch")},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert answer.returncode == 0, answer.stderr
    ended_at = (folder / f"{len(refused) + 1}.code").stat().st_mtime
    return Lab(launcher, folder, ended_at - float((folder / "killed").read_text()))


def _need(launcher: str) -> None:
    """A skip, which is a failure where GRADWIRE_REQUIRE_HOSTS=1."""
    found = {
        "slurm": (slurm.PACKAGES / "usr/sbin/slurmctld-wlm").exists(),
        "ray": importlib.util.find_spec("ray") is not None,
    }
    how = {"slurm": "tests/labs/get_slurm.sh", "ray": "bash cluster/environment.sh ray"}
    if not found[launcher] and os.environ.get("GRADWIRE_REQUIRE_HOSTS") == "1":
        pytest.fail(f"{launcher} is required here: {how[launcher]}")
    if not found[launcher]:
        pytest.skip(f"no {launcher} here: {how[launcher]}")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The same runs on nodes of our own."""
    output = str(tmp_path_factory.mktemp("here"))
    found = measure("--engine", "netns", "--dilation", "1", *SAME, "--output", output)
    assert found.code == 0, found.stderr
    return found.summaries


def test_hosts_learn_the_same_and_send_the_same_as_our_own_nodes(
    lab: Lab, here: list[dict[str, Any]]
) -> None:
    found = lab.measured(0)
    assert found.code == 0, found.stderr
    for there, ours in zip(found.summaries, here, strict=True):
        assert there["spec"]["strategy"] == ours["spec"]["strategy"]
        assert (there["status"], there["spec"]["engine"]) == ("completed", "existing")
        assert there["accuracy"] == ours["accuracy"]
        assert there["loss"] == pytest.approx(ours["loss"], abs=1e-6)
        assert sent_between(there) == pytest.approx(sent_between(ours), rel=1e-3)
        sent = [summary["per_step"]["sent_mean_bytes"] for summary in (there, ours)]
        # Ray's daemons talk to its head over the same interfaces, by the second.
        assert sent[0] == pytest.approx(sent[1], rel=1e-3 if lab.launcher == "slurm" else 0.02)
        run = lab.folder / "runs-0" / there["session"] / there["run"]
        assert (run / "model" / "consensus.pt").stat().st_size > 80_000
        assert [name_of_host(run, rank) for rank in range(3)] == ["host0", "host1", "host2"]


def sent_between(summary: dict[str, Any]) -> int:
    """Bytes between the workers, by their connections."""
    return sum(int(pair["sent_bytes"]) for pair in summary["traffic_matrix"]["pairs"])


def name_of_host(run: Path, rank: int) -> str | None:
    """As a node's hello tells it."""
    events = RunFolder(run).read_events(rank)
    return next(event.host for event in events if isinstance(event, Hello))


def test_a_host_that_is_killed_ends_the_run_with_its_name(lab: Lab) -> None:
    """Within 30 s, as docs/several-hosts.md says: many times what it takes."""
    found = lab.measured(len(REFUSED[lab.launcher]) + 1)
    assert found.code == 1, found.stderr
    (summary,) = found.summaries
    assert summary["status"] == "failed"
    assert "node2 on host2 is gone" in summary["error"]
    assert lab.killed_s < 30


def test_what_hosts_cannot_do_is_refused_with_one_line(lab: Lab) -> None:
    for index, (_, says) in enumerate(REFUSED[lab.launcher], start=1):
        refused = lab.measured(index)
        assert refused.code == 2, refused.stderr
        last = refused.stderr.splitlines()[-1]
        assert last.startswith(f"measure: launcher {lab.launcher}: ")
        assert says in last


def test_a_prepared_batch_script_does_all_runs_by_itself(lab: Lab) -> None:
    if lab.launcher != "slurm":
        return
    said = (lab.folder / "first.log").read_text()
    summaries = [RunFolder(run).read_summary() for run in sorted((lab.folder / "job").glob("0*"))]
    assert [summary.status for summary in summaries] == ["completed"] * 2, said
    for summary in summaries:
        laws.bytes_are_as_predicted(summary.to_json(), 0.03)


def test_nothing_is_left_behind(lab: Lab) -> None:
    assert processes_of(lab.folder) == []
    left = {path.name for path in (lab.folder / "scratch").iterdir()}
    # The folder of the agent whose host was killed is all that may be there.
    assert len({name for name in left if name.startswith("gradwire-")}) <= 1
