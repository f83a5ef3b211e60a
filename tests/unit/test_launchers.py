"""A launcher is asked only for strategies that it has."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from cluster.spec.errors import SpecError
from cluster.spec.exchange.strategies import STRATEGIES
from cluster.spec.experiment import Experiment
from cluster.spec.launchers import LAUNCHERS

PROJECT = Path(__file__).resolve().parents[2]


def test_a_strategy_added_at_run_time_is_refused_by_launchers_that_do_not_list_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(STRATEGIES, "gossip", STRATEGIES["allreduce"])
    assert Experiment(strategy="gossip", launcher="torch").strategy == "gossip"
    for launcher in ("horovod", "spark"):
        with pytest.raises(SpecError, match=rf"launcher {launcher} has no gossip.*allreduce"):
            Experiment(strategy="gossip", launcher=launcher)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_launcher_lists_strategies_that_exist_and_takes_them(launcher: str) -> None:
    for strategy in LAUNCHERS[launcher].strategies:
        facts = STRATEGIES[strategy]
        workers = 4 if facts.exchanges else 1
        passes = 1 if facts.has_passes else None
        Experiment(
            strategy=strategy,
            launcher=launcher,
            workers=workers,
            passes=passes,
            schedule="ring" if passes else None,
            sites="a:2,b:2" if facts.needs_sites else None,
        )


def test_horovod_lists_the_strategies_that_its_exchanges_are_written_for() -> None:
    """Read from the source: importing it needs Horovod."""
    source = (PROJECT / "workloads" / "launchers" / "horovod_exchange.py").read_text()
    tables = [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "EXCHANGES"
    ]
    (table,) = tables
    assert isinstance(table, ast.Dict)
    names = {key.value for key in table.keys if isinstance(key, ast.Constant)}
    assert names == set(LAUNCHERS["horovod"].strategies)
