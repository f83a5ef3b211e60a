"""Sites: which nodes are in which, from text and from files."""

from pathlib import Path

import pytest

from cluster.flags import parse
from cluster.plan import make_experiments
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment
from cluster.spec.sites import members, parse_sites, write_sites


@pytest.mark.parametrize("text", ["a:3,b:3", "a:1,b:1,a:1,b:2", "east:2,west:1,north_2:4"])
def test_a_text_of_sites_and_the_sites_follow_from_each_other(text: str) -> None:
    assert write_sites(parse_sites(text)) == text


def test_every_node_is_in_the_site_that_its_part_names() -> None:
    run = Experiment(workers=5, sites="b:2, a:1 ,b:1,c:1")
    assert [run.site_of(rank) for rank in range(5)] == ["b", "b", "a", "b", "c"]
    assert run.site_members == {"b": (0, 1, 3), "a": (2,), "c": (4,)}
    assert members(()) == Experiment().site_members == {}
    assert Experiment().site_of(0) is None


def test_a_parameter_server_is_in_a_site() -> None:
    run = Experiment(strategy="parameter-server", workers=3, sites="a:3,b:1")
    assert run.site_of(3) == "b"
    with pytest.raises(SpecError, match="3 nodes, and there are 4, the parameter server among"):
        Experiment(strategy="parameter-server", workers=3, sites="a:2,b:1")


def test_paths_are_stored_from_the_site_that_comes_first() -> None:
    between = "c-a:5mbit/20mbit, a-b:50mbit/40ms"
    run = Experiment(workers=4, sites="a:1,b:1,c:2", between=between)
    assert run.between == "a-b:50mbit/40ms,a-c:20mbit/5mbit"
    assert run.paths["a", "c"].down_bit == 5_000_000
    assert run.links == {}
    assert run.slowest_mbit == 5
    assert run.dilation == "auto"


def test_a_node_has_its_own_link_or_its_sites_or_everybodys() -> None:
    slow = "1:1mbit"
    run = Experiment(workers=4, sites="a:2,b:2", link="100mbit", bottleneck=slow, inside="a:1gbit")
    assert {rank: str(link) for rank, link in run.links.items()} == {
        0: "1gbit",
        1: "1mbit",
        2: "100mbit",
        3: "100mbit",
    }
    inside = Experiment(workers=4, sites="a:1,b:3", inside="b:5mbit").links
    assert list(inside) == [1, 2, 3]


def from_file(folder: Path, text: str, workers: int = 4) -> Experiment:
    file = folder / "sites.toml"
    file.write_text(text)
    (found,) = make_experiments(parse(["--workers", str(workers), "--sites", str(file)]))
    return found


@pytest.mark.parametrize(
    ("text", "sites"),
    [
        ("[sites]\na = 3\nb = 1", "a:3,b:1"),
        ("[sites]\na = [0, 2]\nb = [3, 1]", "a:1,b:1,a:1,b:1"),
    ],
)
def test_a_file_of_sites_is_stored_as_its_text(tmp_path: Path, text: str, sites: str) -> None:
    assert from_file(tmp_path, text).sites == sites


def test_a_file_may_have_paths_and_links(tmp_path: Path) -> None:
    links = '[between]\na-b = "50mbit/40ms"\n[inside]\na = "1gbit"\nb = "0.1gbit"'
    found = from_file(tmp_path, f"[sites]\na = 3\nb = 1\n{links}")
    assert (found.between, found.inside) == ("a-b:50mbit/40ms", "a:1gbit,b:100mbit")
    with pytest.raises(SpecError, match=r"between is in .* and is given beside it"):
        make_experiments(parse(["--sites", str(tmp_path / "sites.toml"), "--between", "a-b:5mbit"]))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[sites]\na = 3\nb = [3]", "site a must be a number of nodes, as others, or ranks: 3"),
        ("[sites]\na = [0, 1]\nb = [1, 2]", "node 1 is in site a and in site b"),
        ("[sites]\na = [0, 1]\nb = [3]", "node 2 is in no site"),
        ("[sites]\na = 0\nb = 4", "site a must be a number"),
        ("[sites]\n'a b' = 2\nb = 2", "'a b' is no name"),
        ("[side]\na = 2", "unknown key 'side'; there is: sites, between, inside"),
        ("[sites]\na = 3\nb = 1\n[between]\na-b = 5", "between: a-b must be a link such as"),
        ("[sites]\na = 3\nb = 1\n[inside]\n", "inside must be a table of links"),
        ("a =", "Invalid value"),
        ("", "there must be a table"),
    ],
)
def test_a_wrong_file_of_sites_is_refused_by_name(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(SpecError, match=r"sites\.toml: ") as refused:
        from_file(tmp_path, text)
    assert problem in str(refused.value)


def test_sites_are_swept_by_the_flag_again() -> None:
    typed = ["--sites", "none", "--sites", "a:2,b:2", "--strategy", "single,allreduce"]
    found = make_experiments(parse(typed))
    assert [(run.strategy, run.sites) for run in found] == [
        ("single", None),
        ("allreduce", None),
        ("allreduce", "a:2,b:2"),
    ]
