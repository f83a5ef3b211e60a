"""What a program's processes tell, and what is said of a program that hangs or needs packages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.host import packages
from cluster.observe.liveness import Signs
from cluster.observe.stall import explain_hang
from cluster.spec.documents.event_reader import read_events
from cluster.spec.documents.events import Operations, Phase, Result, Step
from cluster.spec.documents.heartbeat import Heartbeat
from cluster.spec.errors import SpecError
from workloads.event_log import EventLog
from workloads.program.command import EVENTS, ON_PATH
from workloads.program.report import NodeReport

GANS_STEPS = """
import torch
parts = [torch.nn.Parameter(torch.zeros(3)) for _ in range(2)]
both = [torch.optim.SGD([part], lr=0.1) for part in parts]
for _ in range(7):
    for part, optimizer in zip(parts, both):
        part.grad = torch.ones(3)
        optimizer.step()
"""
TOLD = """
import gradwire_events as gw
for k in range(3):
    gw.step(loss=float(k) if k else float("nan"))
gw.phase("evaluate")
gw.result(accuracy=0.75)
"""
COLLECTIVES = """
import torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
for _ in range(4):
    dist.all_reduce(torch.zeros(250))
dist.all_gather([torch.zeros(8)], torch.zeros(8))
dist.destroy_process_group()
"""


def report_of(program: str, folder: Path) -> tuple[Path, NodeReport]:
    told, events = folder / "told", folder / "events.jsonl"
    told.touch()
    variables = {"PYTHONPATH": str(ON_PATH), EVENTS: str(told), "LOCAL_RANK": "0"}
    with told.open("a") as file:
        file.write('no line of ours\n{"step": "nonsense", "local": 0}\n[]\n')
    command = [sys.executable, "-c", program]
    subprocess.run(command, env=os.environ | variables, check=True, cwd=folder)
    report = NodeReport(EventLog(events, "node0"), told)
    report.take()
    report.close()
    return events, report


def test_what_a_program_tells_becomes_events(tmp_path: Path) -> None:
    events = list(read_events(report_of(TOLD, tmp_path)[0]))
    assert [event.loss for event in events if isinstance(event, Step)] == [None, 1.0, 2.0]
    assert [event.phase for event in events if isinstance(event, Phase)] == ["evaluate"]
    (result,) = (event for event in events if isinstance(event, Result))
    assert (result.accuracy, result.steps) == (0.75, 3)


def test_steps_of_an_optimizer_count_where_a_program_tells_none(tmp_path: Path) -> None:
    """Two optimizers in turn make one step together."""
    events = list(read_events(report_of(GANS_STEPS, tmp_path)[0]))
    assert sum(isinstance(event, Step) for event in events) == 7


def test_collectives_are_counted_without_the_programs_help(tmp_path: Path) -> None:
    events = list(read_events(report_of(COLLECTIVES, tmp_path)[0]))
    (found,) = (event for event in events if isinstance(event, Operations))
    assert found.operations["all_reduce"] == [4, 4000]
    assert found.operations["all_gather"] == [1, 32]


def test_events_are_nothing_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TOLD]
    variables = {k: v for k, v in os.environ.items() if k != EVENTS} | {"PYTHONPATH": str(ON_PATH)}
    subprocess.run(command, env=variables, check=True, cwd=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_node_that_never_joined_is_named() -> None:
    beats = {rank: Heartbeat(beat=1, has_joined=rank != 2) for rank in range(3)}
    signs = {rank: Signs(heartbeat=beat) for rank, beat in beats.items()}
    names = ["node0", "node1", "node2"]
    assert "train.py on node2 never joined" in explain_hang("train.py", names, signs)
    del signs[2]
    said = explain_hang("train.py", names, signs)
    assert "hangs on node0 and node1" in said
    assert "node2 ended before" in said


@pytest.mark.parametrize(
    "line", ["-e .", "./mine", "git+https://x.org/y", "a @ file:///x", "", "#"]
)
def test_only_packages_of_an_index_are_required(line: str, tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text(f"{line}\n")
    with pytest.raises(SpecError, match="requirements"):
        packages.read(file)
    file.write_text(
        "einops==0.8.1  # tensors\nscipy>=1.10,<2\nfoo[bar]~=1.0; python_version > '3'\n"
    )
    assert len(packages.read(file).splitlines()) == 3
