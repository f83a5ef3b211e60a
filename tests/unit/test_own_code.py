"""Files of the user's own, on the host: named, found, parsed and never imported."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from analysis.theory.predicted_bytes import predict
from analysis.theory.traffic_matrix import matrix
from cluster import own_files
from cluster.flags import make_parser
from cluster.plan import make_experiments
from cluster.spec import own_code
from cluster.spec.documents.codec import DocumentError
from cluster.spec.errors import SpecError
from cluster.spec.exchange.strategies import STRATEGIES, facts_of
from cluster.spec.experiment import Experiment
from cluster.spec.schedules.messages import Setting
from cluster.spec.schedules.recorded import PlannedMessage, RecordedSchedule

STAR = "def exchange(tensor, round):\n    pass\n"
NET = "class Net:\n    pass\n\ndef load():\n    pass\n\ndef loss(outputs, labels):\n    pass\n"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    folder = tmp_path / "lab"
    (folder / "nets").mkdir(parents=True)
    (folder / "star.py").write_text(STAR)
    (folder / "nets" / "net.py").write_text(NET)
    return folder


def planned(*flags: str) -> list[Experiment]:
    return make_experiments(make_parser().parse_args(flags))


def test_a_run_names_files_in_the_folder_that_they_have_in_common(lab: Path) -> None:
    net = lab / "nets" / "net.py"
    files = ("--model", f"{net}:Net", "--dataset", f"{net}:load", "--loss", f"{net}:loss")
    own, built_in = planned("--strategy", f"{lab}/star.py,allreduce", *files)
    assert (own.strategy, own.model, own.folder) == ("star.py", "nets/net.py:Net", str(lab))
    assert (built_in.strategy, built_in.dataset) == ("allreduce", "net.py:load")
    assert built_in.user_folders == (str(lab / "nets"),)
    assert Experiment.from_json(own.to_json()) == own
    typed = own_code.as_typed(own.to_json())
    assert typed["strategy"] == str(lab / "star.py")


def test_an_edited_file_makes_another_run(lab: Path) -> None:
    (before,) = planned("--strategy", f"{lab}/star.py")
    (lab / "star.py").write_text(STAR + "# edited\n")
    (after,) = planned("--strategy", f"{lab}/star.py")
    assert before.code_sha256 != after.code_sha256


def test_files_of_a_sweep_file_are_beside_it(lab: Path) -> None:
    sweep = lab / "sweep.toml"
    sweep.write_text('[[runs]]\nstrategy = ["allreduce", "star.py"]\nworkers = 3\n')
    assert [e.strategy for e in planned("--preset", str(sweep))] == ["allreduce", "star.py"]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("--strategy {lab}/none.py", "does not exist"),
        ("--strategy {lab}/nets/net.py", "no function exchange"),
        ("--strategy {lab}/star.py:exchange", "give the file alone"),
        ("--strategy {lab}/star.py --launcher horovod", "use --launcher torch"),
        ("--strategy {lab}/star.py --reduce sum", "asked for the mean"),
        ("--model {lab}/nets/net.py", "net.py:NAME"),
        ("--model {lab}/nets/net.py:Nett --dataset mnist", "did you mean Net?"),
        ("--model {lab}/nets/net.py:Net", "needs --dataset"),
        ("--dataset {lab}/nets/net.py:load --model synthetic:1M", "does not fit"),
        ("--loss hinge", "FILE.py:NAME"),
        ("--strategy {lab}/star.py --folder {lab}/nets", "does not hold"),
    ],
)
def test_a_mistake_is_told_before_anything_starts(lab: Path, flags: str, told: str) -> None:
    with pytest.raises(SpecError, match=re.escape(told)):
        planned(*flags.format(lab=lab).split())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def exchange(tensor, round)\n    pass\n", "line 1: SyntaxError"),
        ("x = 1\n", "no function exchange"),
        ("def exchenge(tensor, round):\n    pass\n", "did you mean exchenge?"),
    ],
)
def test_a_file_that_is_no_strategy_is_told_with_its_line(lab: Path, text: str, told: str) -> None:
    (lab / "star.py").write_text(text)
    with pytest.raises(SpecError, match=re.escape(told)):
        own_files.locate({"strategy": f"{lab}/star.py"})


def test_models_and_data_of_packages_are_named(lab: Path) -> None:
    (resnet,) = planned("--model", "torchvision:resnet50", "--dataset", "torchvision:CIFAR100")
    assert (resnet.model, resnet.folder) == ("torchvision:resnet50", None)
    (lab / "bert").mkdir()
    (bert,) = planned("--model", f"hf:{lab}/bert", "--dataset", f"{lab}/nets/net.py:load")
    assert (bert.model, bert.dataset, bert.folder) == ("hf:bert", "nets/net.py:load", str(lab))
    assert own_code.as_typed(bert.to_json())["model"] == f"hf:{lab}/bert"
    with pytest.raises(SpecError, match="does not exist"):
        planned("--model", f"hf:{lab}/none", "--dataset", "rte")


def test_a_file_is_not_imported_on_the_host(lab: Path) -> None:
    (lab / "star.py").write_text(f"{STAR}\nopen({str(lab / 'trace')!r}, 'w')\n")
    planned("--strategy", f"{lab}/star.py")
    assert not (lab / "trace").exists()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import a.b, c as d\nfrom e import f as g\nx, y = 1, 2\nz: int = 3\n", "a d g x y z"),
        (
            "try:\n    import a\nexcept OSError:\n    a = None\nif a:\n    def f(): pass\n",
            "a f",
        ),
    ],
)
def test_names_at_the_top_level_are_found(text: str, names: str) -> None:
    assert own_code.top_level_names(ast.parse(text)) == names.split()
    assert own_code.top_level_names(ast.parse(text + "from x import *\n")) is None


# ---------------------------------------------------------------------- recorded message schedules


def as_recorded(strategy: str, setting: Setting, rounds: int) -> RecordedSchedule:
    """The schedule of a built-in strategy, as messages() of one's own would give it."""
    found = []
    for index in range(rounds):
        flows = facts_of(strategy).messages(index, setting)
        found.append(
            [
                PlannedMessage(source, destination, float(flow.message_bytes), flow.step + k)
                for flow in flows
                for k in range(flow.count)
                for source, destination in zip(flow.sources, flow.destinations, strict=True)
            ]
        )
    return RecordedSchedule.of(found, range(rounds), setting.workers)


@pytest.mark.parametrize("strategy", [name for name, f in STRATEGIES.items() if not f.has_server])
@pytest.mark.parametrize("buffers", ["local", "broadcast"])
def test_a_recorded_schedule_predicts_what_the_same_built_in_does(
    strategy: str, buffers: str
) -> None:
    workers = 1 if strategy == "single" else 5
    passes = 1 if facts_of(strategy).has_passes else None
    setting = Setting(
        workers=workers, model_bytes=4000, passes=passes, buffers=buffers, buffer_bytes=600
    )
    if strategy == "single":
        setting = Setting(workers=1, model_bytes=4000)
    recorded = as_recorded(strategy, setting, 30)  # whole periods of all of them
    for rounds in (1, 7, 10, 33):
        found = predict("star.py", setting, rounds, recorded)
        expected = predict(strategy, setting, rounds)
        assert found.sent_by_rank == pytest.approx(expected.sent_by_rank)
        assert found.received_by_rank == pytest.approx(expected.received_by_rank)
        pairs = matrix("star.py", setting, rounds, recorded)
        for row, same in zip(pairs, matrix(strategy, setting, rounds), strict=True):
            assert row == pytest.approx(same)


@pytest.mark.parametrize(
    ("rounds", "order"),
    [
        ([[PlannedMessage(0, 3, 1.0, 0)]], [0]),
        ([[PlannedMessage(0, 1, 1.0, 10**9)]], [0]),
        ([[]], [1]),
        ([[]], []),
    ],
)
def test_a_schedule_that_cannot_be_is_damage(
    rounds: list[list[PlannedMessage]], order: list[int]
) -> None:
    with pytest.raises(DocumentError):
        RecordedSchedule.of(rounds, order, 3)
