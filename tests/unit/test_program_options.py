"""A user's program as an experiment: its command, its folder, and the options that it takes."""

import dataclasses
import json
from pathlib import Path

import pytest

from cluster.flags import parse
from cluster.plan import make_experiments
from cluster.spec.errors import SpecError
from cluster.spec.exchange.strategies import facts_of
from cluster.spec.experiment import Experiment


def planned(line: str) -> list[Experiment]:
    return make_experiments(parse(line.split()))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    folder = tmp_path / "my lab"
    folder.mkdir()
    for path in (*tmp_path.parents, tmp_path):  # nodes of root are other users
        if path.stat().st_uid == 0 and path.is_relative_to("/tmp/pytest-of-root"):
            path.chmod(0o755)
    (folder / "train.py").write_text("print('hello')\n")
    return folder / "train.py"


def test_a_program_is_a_run_under_its_own_name(script: Path) -> None:
    for command in ("train.py", "python train.py", "/usr/bin/python3.11 train.py"):
        command = command.replace("train.py", str(script).replace(" ", "\0"))
        words = [word.replace("\0", " ") for word in command.split(" ")]
        (run,) = make_experiments(parse(["--workers", "3", "--", *words, "--lr", "a b"]))
        assert (run.strategy, run.workers, run.folder) == ("train.py", 3, str(script.parent))
        assert run.program == f"'{script}' --lr 'a b'"
        assert run.user_folders == (str(script.parent),)
    assert facts_of(run.strategy).colour != facts_of("another.py").colour


def test_a_programs_spec_survives_json_with_null_for_what_it_does_not_take(script: Path) -> None:
    (run,) = make_experiments(parse(["--link", "20mbit", "--", str(script)]))
    document = json.loads(json.dumps(run.to_json()))
    assert Experiment.from_json(document) == run
    assert (document["epochs"], document["model"], document["lr"]) == (None, None, None)
    assert document["link"] == "20mbit"


@pytest.mark.parametrize("option", ["--epochs 3", "--lr 0.1", "--model vgg11", "--gpu 1"])
def test_an_option_of_our_training_is_refused_beside_a_program(script: Path, option: str) -> None:
    with pytest.raises(SpecError, match=f"^{option.split()[0][2:]} "):
        make_experiments(parse([*option.split(), "--", str(script)]))


def test_a_mistake_in_a_program_is_found_before_anything_starts(script: Path) -> None:
    for words, named in {
        ("missing.py",): "missing.py",
        ("ls", "-l"): "ls",
        (): "--",
        ("-m",): "-m",
        ("python",): "--",
    }.items():
        with pytest.raises(SpecError, match=named):
            make_experiments(parse(["--", *words]))
    with pytest.raises(SpecError, match="of their own"):
        make_experiments(parse(["--folder", "/", "--", str(script)]))
    with pytest.raises(SpecError, match="does not hold"):
        make_experiments(parse(["--folder", str(Path(__file__).parent), "--", str(script)]))
    script.chmod(0)
    with pytest.raises(SpecError, match="chmod"):
        make_experiments(parse(["--", str(script)]))


def test_options_of_a_program_need_one() -> None:
    with pytest.raises(SpecError, match="nproc_per_node"):
        planned("--nproc-per-node 2")


def test_every_run_of_a_cluster_sees_the_same_folders(script: Path) -> None:
    (run,) = make_experiments(parse(["--", str(script)]))
    other = dataclasses.replace(run, folder="/elsewhere", program="/elsewhere/train.py")
    assert run.cluster != other.cluster
