"""The programs of compose/gpu.yml: the plan, a node's rank, and when the collector ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.gpu import collector, namespace_holder
from cluster.gpu import plan as planning
from cluster.gpu.collector import Nodes, watch
from cluster.gpu.node import devices, find_rank
from cluster.gpu.plan import make_plan, prepare
from cluster.gpu.session import Plan, current_session, open_session, planned_run, read_plan
from cluster.spec.documents.events import End, Event, Failure, Hello
from cluster.spec.documents.records import Counters
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment
from cluster.spec.schedules.consensus import choose_schedule

END = End(counters=Counters())
FAR = 1_000_000 + os.getpid()
OWN = f"{os.getuid()}:{os.getgid()}"


def planned(**given: str) -> tuple[Experiment, Plan]:
    return make_plan({"PROFILE": "ddp", **given})


def test_by_default_two_gpus_train_mnist_through_nccl() -> None:
    experiment, plan = planned(STRATEGY="ddp", WORKLOAD="mnist")
    assert (experiment.strategy, experiment.workers, experiment.gpu) == ("ddp", 2, 1)
    assert (experiment.backend, experiment.model, experiment.engine) == (
        "nccl",
        "mnist-cnn",
        "docker",
    )
    assert plan == Plan("ddp", "001-ddp-n2-gpu-s1", (0, 1), 0, 2)
    assert experiment.dataset == "mnist"


def test_the_environment_is_as_the_flags_are() -> None:
    experiment, plan = planned(
        GPUS="4", GPU_IDS="7,5,3,1", STRATEGY="pairwise", PASSES="2", WORKLOAD="resnet18-cifar10",
        EPOCHS="3", BATCH_SIZE="128", FLAGS="--lr 0.2 --schedule 'grid'",
    )  # fmt: skip
    assert (experiment.workers, experiment.passes, experiment.schedule) == (4, 2, "grid")
    assert (experiment.epochs, experiment.batch_size, experiment.lr) == (3, 128, 0.2)
    assert experiment.model == "resnet18"
    assert plan.gpu_ids == (7, 5, 3, 1)


def test_each_profile_plans_its_own() -> None:
    alone, plan = planned(PROFILE="data-parallel", GPUS="4")
    assert (alone.strategy, alone.workers, alone.gpu) == ("single", 1, 4)
    assert (plan.nodes_here, plan.gpu_ids) == (1, (0, 1, 2, 3))
    horovod, _ = planned(PROFILE="horovod", STRATEGY="allreduce")
    assert (horovod.launcher, horovod.workers) == ("horovod", 2)
    far, plan = planned(PROFILE="multi-host", RANK="2", WORLD_SIZE="3", GPU_IDS="4")
    assert (far.workers, plan.first_rank, plan.nodes_here, plan.gpu_ids) == (3, 2, 1, (4,))
    served, _ = planned(STRATEGY="parameter-server", GPUS="4")
    assert (served.workers, served.nodes) == (3, 4)


def test_through_gloo_it_is_the_same_on_cpus() -> None:
    experiment, plan = planned(BACKEND="gloo", STRATEGY="ddp")
    assert (experiment.gpu, experiment.backend, plan.gpu_ids) == (0, "gloo", ())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"PROFILE": "mpi"}, "unknown profile 'mpi'; there is: ddp, data-parallel"),
        ({"BACKEND": "mpi"}, "unknown backend 'mpi'; there is: nccl, gloo"),
        ({"GPUS": "two"}, "gpus must be a whole number from 1 on, not 'two'"),
        ({"GPU_IDS": "3,3"}, "must name 2 different GPUs"),
        ({"GPU_IDS": "3"}, "must name 2 different GPUs"),
        ({"EPOCHS": "1,2"}, "one run at a time, and this makes 2"),
        ({"STRATEGY": "gossip"}, "unknown strategy 'gossip'"),
        ({"GPUS": "²"}, "gpus must be a whole number from 1 on, not '²'"),
        ({"GPUS": "9" * 5000}, "gpus must be a whole number"),
        ({"GPUS": "-1"}, "gpus must be a whole number"),
        ({"GPUS": "2.0"}, "gpus must be a whole number"),
        ({"OVER_NETWORK": "true"}, "unknown over_network 'true'; there is: yes, no"),
        ({"PROFILE": "multi-host", "RANK": "3", "WORLD_SIZE": "3"}, "rank 3 is none of 0 to 2"),
        ({"FLAGS": "--lr '0.1"}, "cannot be read: No closing quotation"),
        ({"FLAGS": "--lr 0.1 --help"}, "no help here"),
        ({"FLAGS": "-h"}, "no help here"),
        ({"FLAGS": "--strategy pairwise"}, "--strategy does not go here: set STRATEGY"),
        ({"FLAGS": "--epochs=3"}, "--epochs does not go here: set EPOCHS"),
        ({"FLAGS": "--batch-size 8", "BATCH_SIZE": "9"}, "--batch-size does .* set BATCH_SIZE"),
        ({"FLAGS": "--workers 2"}, "--workers does not go here: set GPUS"),
        ({"FLAGS": "--gpu"}, "--gpu does not go here"),
        ({"FLAGS": "--launcher horovod"}, "--launcher does not go here: choose the profile"),
        ({"FLAGS": "--engine docker"}, "--engine does not go here"),
        ({"FLAGS": "--output runs"}, "--output does not go here: that is for ./measure.sh itself"),
        ({"FLAGS": "--prepare new"}, "--prepare does not go here"),
        ({"FLAGS": "--preset frugal"}, "--preset does not go here"),
        ({"FLAGS": "--doctor"}, "--doctor does not go here"),
        ({"FLAGS": "--data-dir /data"}, "--data-dir does not go here"),
        ({"FLAGS": "--spark-master yarn"}, "--spark-master does not go here"),
        ({"FLAGS": "--cpus 1"}, "cpus does not apply to nodes that"),
        ({"FLAGS": "--straggler 1:0.5"}, "straggler does not apply"),
        ({"FLAGS": "--total-memory 2g"}, "total_memory does not apply"),
        ({"FLAGS": "--link 50mbit"}, "link does not go with gpu"),
        ({"FLAGS": "--bottleneck 1:50mbit", "BACKEND": "gloo"}, "bottleneck does not apply"),
        ({"FLAGS": "--train-size 60001"}, "train_size 60,001 is more than the 60,000 training"),
    ],
)
def test_a_mistake_is_one_line(given: dict[str, str], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        planned(**given)


def test_other_options_of_a_run_go_through_as_they_are() -> None:
    experiment, _ = planned(FLAGS="--lr 0.3 --global-batch-size 64 --link none --overlap")
    assert (experiment.lr, experiment.batch_size, experiment.overlap) == (0.3, 32, True)


def test_the_best_schedule_is_chosen_when_a_run_is_planned() -> None:
    experiment, _ = planned(
        STRATEGY="pairwise", PASSES="1", GPUS="4", FLAGS="--schedule auto", BACKEND="gloo"
    )
    assert experiment.schedule == choose_schedule(4, 1, experiment.seed).schedule


def test_an_unknown_flag_is_one_line_and_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        planned(FLAGS="--learning-rate 1")
    assert left.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--learning-rate" in line


@pytest.mark.parametrize("flags", ["--lr '0.1", "--help", "--doctor"])
def test_the_plan_leaves_with_one_line_and_code_2(
    flags: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session = open_session(tmp_path, OWN)
    monkeypatch.setattr(planning, "RUNS", tmp_path)
    monkeypatch.setenv("PROFILE", "ddp")
    monkeypatch.setenv("FLAGS", flags)
    assert planning.main() == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("plan: flags")
    assert said.err.count("\n") == 1
    assert read_plan(session) is None


def test_a_session_is_found_again_and_what_was_planned_in_it(tmp_path: Path) -> None:
    first = open_session(tmp_path, OWN)
    second = open_session(tmp_path, OWN)
    assert first != second == current_session(tmp_path)
    assert read_plan(second) is None
    experiment, plan = planned(BACKEND="gloo")
    run = prepare(second, experiment, plan)
    assert read_plan(second) == plan
    assert planned_run(second).path == run.path
    assert run.read_experiment() == experiment
    command = json.loads(run.environment.read_text())["command"]
    assert " ".join(command) == "docker compose -f compose/gpu.yml --profile ddp up"


def test_a_node_finds_its_rank_by_its_own_address() -> None:
    addresses = {"lab-node-1": "10.0.0.3", "lab-node-3": "10.0.0.2"}

    def look_up(name: str) -> str:
        if name not in addresses:
            raise OSError("not started yet")
        return addresses[name]

    found = find_rank("lab-node", 3, "10.0.0.2", look_up)
    assert found == {"RANK": "2", "MASTER_ADDR": "lab-node-1"}
    with pytest.raises(SystemExit, match="set RANK"):
        find_rank("lab-node", 3, "10.0.0.9", look_up)


def test_a_node_computes_on_the_gpu_of_its_rank() -> None:
    ids = (4, 6)
    assert devices(Plan("ddp", "run", ids), 1)["CUDA_VISIBLE_DEVICES"] == "6"
    assert devices(Plan("data-parallel", "run", ids), 0)["CUDA_VISIBLE_DEVICES"] == "4,6"
    assert devices(Plan("multi-host", "run", (4,), first_rank=3), 3)["CUDA_VISIBLE_DEVICES"] == "4"
    assert devices(Plan("ddp", "run", ()), 1) == {}


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a RANK that no other process on this machine has."""
    running = subprocess.Popen(["sleep", "60"], env={"RANK": str(FAR)})
    yield running
    running.kill()
    running.wait()


def test_nodes_are_found_by_their_rank_and_counted_from_outside(
    process: subprocess.Popen[bytes],
) -> None:
    assert Nodes().find()[FAR] == process.pid
    assert Nodes().read()[FAR].sent_bytes >= 0


class Scene(Nodes):
    """Processes as the collector finds them."""

    def __init__(self) -> None:
        super().__init__()
        self.there: dict[int, int] = {}
        self.seen: set[int] = set()

    def find(self) -> dict[int, int]:
        found = dict(self.there)
        self.seen |= set(found)
        return found


def watched(tmp_path: Path, scene: Scene, plan: Plan, play: Any) -> str:
    run = RunFolder(tmp_path / "run").create()
    player = threading.Thread(target=play, args=(run,))
    player.start()
    outcome = watch(Experiment(workers=2), run, plan, scene)
    player.join()
    return outcome


def write(run: RunFolder, rank: int, event: Event) -> None:
    with run.events(rank).open("a") as file:
        file.write(event.line())


def test_the_collector_stays_until_all_nodes_have_ended(tmp_path: Path) -> None:
    scene = Scene()

    def play(run: RunFolder) -> None:
        scene.there = {0: 1, 1: 2}
        write(run, 0, Hello(rank=0, workers=2))
        write(run, 0, END)
        scene.there = {1: 2}
        time.sleep(0.3)
        write(run, 1, END)

    begun = time.monotonic()
    assert watched(tmp_path, scene, Plan("ddp", "run", (), 0, 2), play) == "all nodes have ended"
    assert time.monotonic() - begun > 0.25


def test_of_several_hosts_it_waits_for_its_own_nodes_only(tmp_path: Path) -> None:
    scene = Scene()
    plan = Plan("multi-host", "run", (), 1, 1)
    outcome = watched(tmp_path, scene, plan, lambda run: write(run, 1, END))
    assert outcome == "all nodes have ended"


@pytest.mark.parametrize("ending", ["error", "silence"])
def test_a_node_that_failed_is_not_waited_for(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "GRACE_S", 0.2)
    monkeypatch.setattr(collector, "GONE_S", 0.1)
    scene = Scene()

    def play(run: RunFolder) -> None:
        scene.there = {0: 1, 1: 2}
        while scene.seen != {0, 1}:
            time.sleep(0.01)
        if ending == "error":
            write(run, 1, Failure(message="out of memory"))
        else:
            scene.there = {0: 1}

    outcome = watched(tmp_path, scene, Plan("ddp", "run", (), 0, 2), play)
    assert outcome == "no end of node 0, 1"


def test_nodes_that_never_come_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "PATIENCE_S", 0.2)
    outcome = watched(tmp_path, Scene(), Plan("ddp", "run", (), 0, 2), lambda run: None)
    assert outcome == "no end of node 0, 1"


def test_the_namespace_holder_ends_after_the_last_node(monkeypatch: pytest.MonkeyPatch) -> None:
    scenes = iter([set(), set(), {5}, {5}, {5, 6}, set()])
    monkeypatch.setattr(namespace_holder, "others", lambda: next(scenes))
    monkeypatch.setattr(namespace_holder, "EVERY_S", 0.01)
    assert namespace_holder.main() == 0
    assert next(scenes, None) is None


def test_the_run_of_this_session_is_printed(tmp_path: Path) -> None:
    experiment, plan = planned(BACKEND="gloo")
    prepare(open_session(tmp_path, OWN), experiment, plan)
    program = (
        "import sys; from pathlib import Path; import cluster.gpu.session as s;"
        " s.RUNS = Path(sys.argv[1]); s.main([])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True
    )
    assert answer.stdout.strip() == str(planned_run(current_session(tmp_path)).path)
