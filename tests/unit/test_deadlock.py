"""Two real processes that wait for each other, watched as nodes of a run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from cluster.engine import Cluster, CounterSource
from cluster.observe import stall
from cluster.observe.node_watch import RunFailed
from cluster.observe.progress import Progress
from cluster.spec.documents.links import MeasuredLink
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.experiment import Experiment
from cluster.watch import watch_run
from tests.measuring import PROJECT

NODE = """
import sys
from functools import partial
from pathlib import Path
import torch
from torch import distributed
from cluster.spec.documents.run_folder import RunFolder
from workloads.heartbeat import Pulse
from workloads.worker import _in_child, log_to

folder, rank = RunFolder(Path(sys.argv[1])), int(sys.argv[2])

def both_receive():
    log_to(folder.log(rank))
    store = f"file://{folder.path}/store"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    distributed.all_reduce(torch.ones(7))
    distributed.recv(torch.ones(5), 1 - rank)

sys.exit(_in_child(both_receive, partial(Pulse, folder, rank)))
"""


class TwoProcesses(Cluster):
    links: list[MeasuredLink] = []  # noqa: RUF012  stays empty
    sources: tuple[CounterSource, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return

    def exited(self) -> dict[int, int]:
        return {}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    """A run whose two nodes have started; both will receive from each other, and neither sends."""
    folder = RunFolder(tmp_path / "run").create()
    command = [sys.executable, "-c", NODE, str(folder.path)]
    nodes = [subprocess.Popen([*command, str(rank)], cwd=PROJECT) for rank in range(2)]
    yield folder
    for node in nodes:
        node.terminate()  # it ends its training process
        node.wait()


def test_a_deadlock_ends_the_run_with_stacks_and_exchanges_of_every_node(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stall, "DEADLOCK_S", 4.0)
    monkeypatch.setattr(stall, "LOOK_S", 0.5)
    with pytest.raises(RunFailed, match="wait for each other"):
        watch_run(
            Experiment(workers=2),
            folder,
            TwoProcesses(),
            Progress(),
            lambda *_: None,
            dict,
        )
    for rank in range(2):
        log = folder.log(rank).read_text()
        assert "in both_receive" in log
        assert "all_reduce" in log.partition("flight recorder")[2]
    assert not folder.stack_request.exists()
