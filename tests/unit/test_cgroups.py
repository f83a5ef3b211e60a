"""Control groups, version 1 and 2: where they are looked for and what is written into them.

Real groups: tests/cluster/test_netns_memory.py and, for CPUs, tests/cluster/test_netns_runs.py.
"""

from pathlib import Path

import pytest

from cluster.host.cgroups import find_parents, settings

V1 = """\
12:memory:/user/someone
4:cpu,cpuacct:/
0::/user.slice
"""


def delegate(group: Path, controllers: str) -> None:
    group.mkdir(parents=True, exist_ok=True)
    (group / "cgroup.subtree_control").write_text(controllers + "\n")


def test_version_1_has_a_tree_for_each_controller(tmp_path: Path) -> None:
    assert find_parents(["cpu", "memory"], V1, tmp_path) == {
        "cpu": tmp_path / "cpu",
        "memory": tmp_path / "memory/user/someone",
    }


def test_version_2_has_one_tree_and_the_nearest_group_that_delegates_counts(
    tmp_path: Path,
) -> None:
    own = "0::/user.slice/app.scope\n"
    delegate(tmp_path, "cpu io memory pids")
    delegate(tmp_path / "user.slice", "memory pids")
    delegate(tmp_path / "user.slice/app.scope", "")
    assert find_parents(["memory"], own, tmp_path) == {"memory": tmp_path / "user.slice"}
    assert find_parents(["cpu"], own, tmp_path) == {"cpu": tmp_path}
    # One process cannot be in two groups of the same tree.
    assert find_parents(["cpu", "memory"], own, tmp_path) == {"cpu": tmp_path, "memory": tmp_path}


def test_a_controller_may_be_in_version_1_while_another_is_in_version_2(tmp_path: Path) -> None:
    delegate(tmp_path / "user.slice", "memory")
    groups = "4:cpu,cpuacct:/\n0::/user.slice\n"
    assert find_parents(["cpu", "memory"], groups, tmp_path) == {
        "cpu": tmp_path / "cpu",
        "memory": tmp_path / "user.slice",
    }


@pytest.mark.parametrize("groups", ["", "0::/\n", "3:pids:/\n", "0::/gone/far\n"])
def test_a_controller_that_no_group_delegates_is_not_found(groups: str, tmp_path: Path) -> None:
    assert find_parents(["memory"], groups, tmp_path) == {}


@pytest.mark.parametrize(
    ("controller", "limit", "v2", "written"),
    [
        ("cpu", 0.5, True, {"cpu.max": "5000 10000"}),
        ("cpu", 0.5, False, {"cpu.cfs_period_us": "10000", "cpu.cfs_quota_us": "5000"}),
        ("memory", 2**28, True, {"memory.max": "268435456", "memory.swap.max": "0"}),
        (
            *("memory", 2**28, False),
            # In this order: together with swap it may not be less than without.
            {"memory.limit_in_bytes": "268435456", "memory.memsw.limit_in_bytes": "268435456"},
        ),
    ],
)
def test_a_limit_is_written_in_the_files_of_its_version(
    controller: str, limit: float, v2: bool, written: dict[str, str]
) -> None:
    assert list(settings(controller, limit, v2=v2).items()) == list(written.items())
