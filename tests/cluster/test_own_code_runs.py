"""The user's own strategy, model, data and loss in real nodes; `workloads.check` in its sandbox."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.predict.observations import known, observe_all
from cluster.spec.documents.run_folder import find_runs, write_json
from cluster.spec.documents.summary import Fidelity
from tests import laws
from tests.measuring import PROJECT, measure, one

NETNS = ("--engine", "netns")
EXAMPLES = PROJECT / "docs" / "examples"
STEPS = ("--epochs", "1", "--batch-size", "1", "--train-size", "40")

NO_DIVISION = """
import torch.distributed as dist

def exchange(tensor, round):
    dist.all_reduce(tensor)
"""
WAITS_WHERE_ODD = """
import torch
import torch.distributed as dist

def exchange(tensor, round):
    if round.workers > 1 and round.rank % 2 == 0:
        received = torch.empty_like(tensor)
        dist.recv(received, (round.rank + 1) % round.workers)
        tensor += received
    elif round.workers > 1:
        dist.send(tensor, round.rank - 1)
        tensor.zero_()
    dist.all_reduce(tensor)
    tensor /= round.workers
"""
ANOTHER_ORDER = """
import torch
import torch.distributed as dist

def exchange(tensor, round):
    rows = [torch.empty_like(tensor) for _ in range(round.workers)]
    dist.all_gather(rows, tensor)
    total = torch.zeros_like(tensor)
    for k in range(round.workers):
        total += rows[(round.rank + k) % round.workers]
    tensor.copy_(total / round.workers)
"""
WRONG_MESSAGES = """
import torch.distributed as dist

def exchange(tensor, round):
    dist.all_reduce(tensor)
    tensor /= round.workers

def messages(round, setting):
    n = round.workers
    return [(rank, (rank + 1) % n, setting.model_bytes) for rank in range(n) if n > 1]
"""


def check(path: Path) -> tuple[int, dict[str, str]]:
    """Exit code, and what is said of each law."""
    command = [sys.executable, "-m", "workloads.check", str(path), "--patience", "5"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    lines = [line.strip() for line in done.stdout.splitlines() if line.startswith("  ")]
    return done.returncode, {line[:22].strip(): line[22:] for line in lines}


@pytest.mark.parametrize(
    ("example", "broken"),
    [("star", []), ("pairs", ["leaves the mean", "same bits everywhere"])],
)
def test_the_examples_obey_the_laws_that_they_should(example: str, broken: list[str]) -> None:
    code, said = check(EXAMPLES / f"{example}.py")
    assert code == bool(broken)
    assert [law for law, text in said.items() if text != "holds"] == broken


@pytest.mark.parametrize(
    ("text", "law", "told"),
    ids=["sum", "deadlock", "order", "messages"],
    argvalues=[
        (NO_DIVISION, "leaves the mean", "divide by round.workers"),
        (WAITS_WHERE_ODD, "ends", "with 3 workers it did not end"),
        (ANOTHER_ORDER, "same bits everywhere", "add in the same order"),
        (WRONG_MESSAGES, "messages", "and messages() says"),
    ],
)
def test_a_wrong_strategy_is_caught_with_a_sentence(
    text: str, law: str, told: str, tmp_path: Path
) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "wrong.py").write_text(text)
    code, said = check(folder / "wrong.py")
    assert code == 1
    assert told in said[law]
    assert [name for name, found in said.items() if "does not hold" in found] == [law]


def test_a_checked_file_sees_no_home_and_no_network_and_writes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "nosy.py").write_text(
        "import os, pathlib, socket\n"
        "import torch.distributed as dist\n"
        "def exchange(tensor, round):\n"
        "    assert os.geteuid() != 0 or not int(open('/proc/self/status').read()"
        ".split('CapEff:')[1].split()[0], 16)\n"
        "    assert [name for _, name in socket.if_nameindex() if name != 'lo'] == []\n"
        "    assert not os.path.exists(os.path.expanduser('~root/.bashrc'))\n"
        f"    for place in ({str(folder)!r}, '/etc', {str(PROJECT)!r}):\n"
        "        try:\n"
        "            pathlib.Path(place, 'trace').touch()\n"
        "        except OSError:\n"
        "            continue\n"
        "        raise AssertionError(place)\n"
        "    dist.all_reduce(tensor)\n"
        "    tensor /= round.workers\n"
    )
    code, said = check(folder / "nosy.py")
    assert code == 0, said


def test_strategies_of_ones_own_send_what_they_say_beside_an_all_reduce(tmp_path: Path) -> None:
    own = [EXAMPLES / f"{name}.py" for name in ("star", "pairs", "halved")]
    measured = measure(
        *(*NETNS, "--workers", "3", "--model", "synthetic:4M", *STEPS, "--output", str(tmp_path)),
        *("--strategy", ",".join(map(str, [*own, "allreduce"]))),
    )
    assert measured.code == 0, measured.stderr
    names = [summary["spec"]["strategy"] for summary in measured.summaries]
    assert names == ["star.py", "pairs.py", "halved.py", "allreduce"]
    for summary in measured.summaries:
        laws.bytes_are_as_predicted(summary, 0.01)
        laws.pairs_are_as_predicted(summary, 0.01)
    for run in find_runs(tmp_path):  # however busy this host was
        write_json(run.summary, replace(run.read_summary(), fidelity=Fidelity(verdict="held")))
    observed = {run.cluster.strategy: run.cluster for run in observe_all(find_runs(tmp_path))}
    assert set(observed) == set(names)
    assert observed["allreduce"].recorded is None
    assert [flow.step for flow in known(observed["star.py"].recorded).messages(0)] == [0, 1]


def test_a_strategy_without_messages_is_measured_and_not_predicted(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "mine.py").write_text(NO_DIVISION + "    tensor /= round.workers\n")
    flags = (*NETNS, "--workers", "2", "--model", "synthetic:4M", *STEPS, "--link", "100mbit")
    found = measure(*flags, "--strategy", str(folder / "mine.py"), "--output", str(tmp_path / "r"))
    summary = one(found)
    assert summary["per_step"]["sent_mean_bytes"] == pytest.approx(4e6, rel=0.01)
    assert summary["per_step"]["predicted_mean_bytes"] is None
    assert summary["seconds"]["communication_bound_s"] is None
    assert {pair["predicted_bytes"] for pair in summary["traffic_matrix"]["pairs"]} == {None}


def test_a_model_data_and_loss_of_ones_own_learn_the_same_by_every_exact_strategy(
    tmp_path: Path,
) -> None:
    net = EXAMPLES / "net.py"
    measured = measure(
        *(*NETNS, "--workers", "2", "--model", f"{net}:Net", "--dataset", f"{net}:load"),
        *("--loss", f"{net}:smoothed", "--strategy", f"allreduce,ddp,{EXAMPLES}/star.py"),
        *("--epochs", "2", "--train-size", "2000", "--batch-size", "50"),
        *("--output", str(tmp_path)),
    )
    assert measured.code == 0, measured.stderr
    first, *others = measured.summaries
    assert first["model_bytes"] == 4 * (20 * 64 + 64 + 64 * 4 + 4)
    assert first["accuracy"] > 0.9
    for other in others:
        assert other["accuracy"] == pytest.approx(first["accuracy"], abs=0.01)
        assert other["loss"] == pytest.approx(first["loss"], abs=1e-3)


def test_a_file_that_fails_on_a_node_is_told_with_its_name_and_line(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / "net.py").write_text("import torch\n\ndef make():\n    return torch.nosuch(3)\n")
    flags = ("--workers", "2", "--model", f"{folder}/net.py:make", "--dataset", "mnist")
    found = measure(*NETNS, *flags, "--output", str(tmp_path / "runs"))
    assert found.code == 1
    (summary,) = found.summaries
    assert summary["error"].startswith("node")
    assert "net.py, line 4: AttributeError" in summary["error"]
