"""What a namespace node does not see, and which user it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.namespaces.cluster import FIRST_USER, MOST_NODES, find_users
from cluster.namespaces.isolation import covers


def test_homes_and_temporary_folders_are_hidden_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    hidden = covers([])
    assert {Path("/tmp"), Path("/root"), Path("/dev/shm")} <= set(hidden)
    assert not any(one.is_relative_to(two) for one in hidden for two in hidden if one != two)


@pytest.mark.parametrize("home", ["/", "/usr", "relative", "", "/not/there"])
def test_a_home_that_is_none_hides_nothing(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without = covers([])
    monkeypatch.setenv("HOME", home)
    assert set(covers([])) <= set(without)


def test_what_others_may_not_enter_on_the_way_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outermost such folder: pytest's own, or the one that is made here."""
    monkeypatch.setattr("cluster.namespaces.isolation.TEMPORARY", ())
    (tmp_path / "closed" / "project").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    hidden = covers([tmp_path / "closed" / "project"])
    assert [tmp_path.is_relative_to(f) or f.parent == tmp_path for f in hidden].count(True) == 1


@pytest.mark.parametrize(
    ("id_map", "first"),
    [
        ("         0          0 4294967295\n", FIRST_USER),
        ("0 1000 1\n1 100000 65536\n", 1 + 65536 // 2),
        ("0 1000 1\n", None),
        ("0 0 10000\n", None),
    ],
    ids=["root", "root in a container", "a user", "few"],
)
def test_nodes_get_users_where_there_are_enough(id_map: str, first: int | None) -> None:
    assert find_users(id_map) == first
    assert first is None or first > MOST_NODES
