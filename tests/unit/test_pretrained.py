"""Which model a workload uses where weights may be unavailable. The hub is a real web server."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.flags import make_parser
from cluster.plan import make_experiments
from cluster.spec.catalogue import WORKLOADS
from tests.data_sets import web_server
from workloads.data import sources
from workloads.data.dataset import DataFile, Dataset
from workloads.models.pretrained import WEIGHTS, Chooser, choose

MODELS = ("large", "small")
RAW = b"weights" * 1000


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADWIRE_DATA_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("GRADWIRE_DATA_PATH", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Its address, and the folder that it hands out."""
    folder = tmp_path / "hub"
    folder.mkdir()
    with web_server(folder) as address:
        yield address, folder


def weights(address: str) -> dict[str, Dataset]:
    file = DataFile(name="w", size_bytes=len(RAW), sha256=hashlib.sha256(RAW).hexdigest())
    return {"large": Dataset(name="large", files=(file,), mirrors=(address,), packed="")}


@pytest.fixture
def unreachable() -> Iterator[str]:
    """An address at which nothing listens."""
    with socket.socket() as held:  # bound, so that no other process can listen
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}/"


def test_the_first_model_is_chosen_where_the_hub_has_it(hub: tuple[str, Path]) -> None:
    address, folder = hub
    (folder / "w").write_bytes(RAW)
    assert choose(MODELS, None, weights(address)) == ("large", "which will be fetched")


def test_weights_that_the_hub_does_not_have_are_not_available(hub: tuple[str, Path]) -> None:
    model, why = choose(MODELS, None, weights(hub[0]))
    assert model == "small"
    assert "large is neither here nor available (127.0.0.1" in why
    assert "not found" in why.lower()


def test_the_last_model_is_chosen_where_no_hub_answers(unreachable: str) -> None:
    model, why = choose(MODELS, None, weights(unreachable))
    assert model == "small"
    assert "Connection refused" in why


def test_a_silent_hub_has_a_short_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "ANSWER_TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        model, why = choose(MODELS, None, weights(f"http://127.0.0.1:{silent.getsockname()[1]}/"))
    assert model == "small"
    assert "no answer within 0.3 s" in why or "timed out" in why


@pytest.mark.parametrize("where", ["cache", "data_dir", "shared"])
def test_files_that_are_here_need_no_hub(
    where: str, unreachable: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = {"cache": cache, "data_dir": tmp_path / "mine", "shared": tmp_path / "ours"}[where]
    monkeypatch.setenv("GRADWIRE_DATA_PATH", str(tmp_path / "ours"))
    (root / "large").mkdir(parents=True)
    (root / "large" / "w").write_bytes(RAW)
    found = choose(MODELS, tmp_path / "mine", weights(unreachable))
    assert found == ("large", f"whose files are in {root / 'large'}")
    (root / "large" / "w").write_bytes(RAW[::-1])
    assert choose(MODELS, tmp_path / "mine", weights(unreachable))[0] == "small"


def test_a_model_is_chosen_once_for_a_workload_and_the_line_says_how_to_pin_it(
    unreachable: str,
) -> None:
    chooser = Chooser(weights=weights(unreachable))
    assert [chooser("some", MODELS) for _ in range(3)] == ["small"] * 3
    (line,) = chooser.lines.values()
    assert line.startswith("workload some: model small, since large is neither here nor available")
    assert line.endswith("; --model small pins it")


def test_the_chosen_model_is_run_and_a_named_model_needs_no_choice(
    unreachable: str, hub: tuple[str, Path]
) -> None:
    address, folder = hub
    candidates = WORKLOADS["bert-rte"]["model"]
    (folder / WEIGHTS[candidates[0]].files[0].name).write_bytes(RAW)
    for mirror, taken in ((address, "bert-base-cased"), (unreachable, "bert-minilm")):
        known = {name: replace(files, mirrors=(mirror,)) for name, files in WEIGHTS.items()}
        chooser = Chooser(weights=known)
        for flags in ("--workload bert-rte", "--preset language-model"):
            found = make_experiments(make_parser().parse_args(flags.split()), chooser)
            assert {run.model for run in found} == {taken}
    silent = Chooser(weights={})  # which would be a KeyError
    for flags in ("--workload bert-rte --model bert-minilm", "--preset language-model --quick"):
        found = make_experiments(make_parser().parse_args(flags.split()), silent)
        assert {run.model for run in found} == {"bert-minilm"}
        assert not silent.lines
