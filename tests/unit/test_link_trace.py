"""Links over time: traces as text and as files."""

from pathlib import Path

import pytest

from cluster.flags import parse
from cluster.plan import make_experiments
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment
from cluster.spec.link_trace import Change, parse_traces, read_trace, write_traces
from cluster.spec.links import parse_link

MBIT = 10**6


def change(at_s: float, up: float, down: float | None = None) -> Change:
    return Change(at_s, round(up * MBIT), round((up if down is None else down) * MBIT))


def test_a_trace_is_moments_with_one_rate_or_two() -> None:
    found = parse_traces("a-b:0s=50mbit/1500ms=5mbit>10mbit, 2:3s=0.02gbit/4s=20mbit")
    assert found == {2: (change(3, 20),), ("a", "b"): (change(0, 50), change(1.5, 5, 10))}
    text = "2:3s=20mbit,a-b:0s=50mbit/1.5s=5mbit>10mbit"
    assert write_traces(found) == text
    assert parse_traces(text) == found


def test_a_change_keeps_delay_and_loss() -> None:
    link = parse_link("100mbit/50mbit/5ms/1%")
    assert str(change(0, 10).link(link)) == "10mbit/5ms/1%"
    assert str(change(0, 10, 2).link(link)) == "10mbit/2mbit/5ms/1%"


@pytest.mark.parametrize(
    ("text", "trace"),
    [
        ("0,100\n20,10\n40,100\n", (change(0, 100), change(20, 10), change(40, 100))),
        ("seconds,mbit,down\n0,1.5,3\n# night\n\n1,1,3", (change(0, 1.5, 3), change(1, 1, 3))),
        # 1,000 packets of 1,500 bytes in the first second, 100 in the second, none in the third
        ("\n".join(map(str, [*range(1000), *range(1000, 2000, 10), 3000])),
         (change(0, 12), change(1, 1.2), change(2, 0.1))),
    ],
    ids=["csv", "two rates", "mahimahi"],
)  # fmt: skip
def test_a_file_is_lines_of_rates_or_of_packets(text: str, trace: tuple[Change, ...]) -> None:
    assert read_trace(text) == trace


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0,100\n20,10\n10,5", "goes backwards: after 20 s comes 10 s"),
        ("0,100\n0,10", "goes backwards: after 0 s comes 0 s"),
        ("5\n4\n", "goes backwards in line 2: 4 ms after 5"),
        ("0,100\n1,fast", "line 2 is not seconds,mbit: '1,fast'"),
        ("0,100\n1,nan", "line 2 is not seconds,mbit"),
        ("0,100\n1,0", "line 2: a rate must be between 0.1 and 10,000 mbit"),
        ("-1,100", "line 1: seconds must be"),
        ("0,100\n0.01,10", "0.1 s must be between two changes"),
        ("", "must have 1 to 2,000 changes, not 0"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(text)
    with pytest.raises(SpecError, match=r"trace\.csv: ") as refused:
        make_experiments(parse(["--link", "100mbit", "--link-trace", f"1:{file}"]))
    assert problem in str(refused.value)


def test_a_file_is_stored_as_its_trace(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("0,100\n20,10\n")
    typed = ["--link", "100mbit", "--link-trace", f"1:{file}", "--link-trace", "none"]
    traced, free = make_experiments(parse(typed))
    assert (traced.link_trace, free.link_trace) == ("1:0s=100mbit/20s=10mbit", None)


def test_only_what_is_shaped_and_not_throttled_by_a_fault_has_a_trace() -> None:
    trace = "1:0s=5mbit"
    with pytest.raises(SpecError, match="node 1 has no rate that could change"):
        Experiment(bottleneck="2:5mbit", link_trace=trace)
    with pytest.raises(SpecError, match="path a-b has no rate that could change"):
        Experiment(sites="a:2,b:2", link_trace="a-b:0s=5mbit")
    with pytest.raises(SpecError, match="there is no node 9, the 4 nodes are 0 to 3"):
        Experiment(link="9mbit", link_trace="9:0s=5mbit")
    with pytest.raises(SpecError, match="there is no site 'c', the sites are a, b"):
        Experiment(sites="a:2,b:2", between="a-b:9mbit", link_trace="a-c:0s=5mbit")
    with pytest.raises(SpecError, match="both set the rate of node 1"):
        Experiment(link="9mbit", link_trace=trace, fault="1:throttle=1mbit@5s/1s")
    assert Experiment(link="9mbit", link_trace=trace).link_traces == {1: (change(0, 5),)}
