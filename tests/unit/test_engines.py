"""The table of engines: one row each, the first that works is taken, a new one is one row more."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from cluster import engine
from cluster.engine import EngineRow, EngineUnavailable, choose_engine, engine_names
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment

RUNS = [Experiment(workers=2)]


def add_engine(
    monkeypatch: pytest.MonkeyPatch, name: str, missing: str | None = None, **row: str
) -> None:
    """One more row, whose engine is unavailable for a reason, or works."""

    def check(experiments: Sequence[Experiment] = (), master: str | None = None) -> str:
        if missing is not None:
            raise EngineUnavailable(f"engine {name}: {missing}; install it", missing)
        return f"{len(experiments)} runs"

    module = f"tests.engine_{name}"
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(check=check))
    monkeypatch.setitem(engine.ENGINES, name, EngineRow(f"{name} nodes", module, **row))


@pytest.fixture
def no_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "ENGINES", {})


def test_every_row_has_a_module_with_check_and_open_engine() -> None:
    for row in engine.ENGINES.values():
        module = row.load()
        assert callable(module.check)
        assert callable(module.open_engine)


def test_a_new_engine_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    add_engine(monkeypatch, "vm")
    assert engine_names() == ["auto", "docker", "netns", "vm"]
    assert choose_engine("vm", RUNS) == ("vm", "1 runs")


@pytest.mark.usefixtures("no_engines")
def test_auto_takes_the_first_engine_that_works_and_says_why_not_an_earlier_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_engine(monkeypatch, "first", missing="no daemon answers")
    add_engine(monkeypatch, "second")
    assert choose_engine(None, RUNS) == ("second", "second nodes, since no daemon answers")
    with pytest.raises(EngineUnavailable, match="install it"):
        choose_engine("first", RUNS)


@pytest.mark.usefixtures("no_engines")
def test_auto_never_takes_another_engine_where_containers_are_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_engine(monkeypatch, "first", missing="no daemon answers")
    add_engine(monkeypatch, "second")
    with pytest.raises(EngineUnavailable, match="engine first"):
        choose_engine("auto", [Experiment(workers=2, launcher="spark")])


@pytest.mark.usefixtures("no_engines")
def test_an_engine_of_another_flag_is_not_taken_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    add_engine(monkeypatch, "theirs", flag="--their-master")
    with pytest.raises(SpecError, match="unknown engine 'theirs'"):
        choose_engine("theirs", RUNS)
