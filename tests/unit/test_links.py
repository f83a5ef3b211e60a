"""Links and stragglers as people write them: strict, one line when wrong, one way of writing."""

import re

import pytest

from cluster.spec.links import Link, parse_cores, parse_link, parse_links, write_by_rank


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("10mbit", Link(10_000_000)),
        ("1.5gbit", Link(1_500_000_000)),
        ("500kbit", Link(500_000)),
        ("0.5mbit", Link(500_000)),
        ("100mbit/5ms", Link(100_000_000, 0.005)),
        ("100mbit/5ms/0.1%", Link(100_000_000, 0.005, 0.001)),
        ("100mbit/250us", Link(100_000_000, 0.00025)),
        ("100mbit/1.5s", Link(100_000_000, 1.5)),
        ("100mbit/0ms/2%", Link(100_000_000, 0.0, 0.02)),
        ("20mbit/100mbit", Link(20_000_000, received_bit=100_000_000)),
        ("20mbit/100mbit/5ms/1%", Link(20_000_000, 0.005, 0.01, 100_000_000)),
        ("20mbit/0.02gbit/5ms", Link(20_000_000, 0.005)),
    ],
)
def test_a_link_is_rate_delay_and_loss(text: str, link: Link) -> None:
    assert parse_link(text) == link


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1000kbit", "1mbit"),
        ("0.02gbit", "20mbit"),
        ("1500mbit", "1.5gbit"),
        ("20mbit/0ms", "20mbit"),
        ("20mbit/0ms/0%", "20mbit"),
        ("20mbit/0.005s/0.10%", "20mbit/5ms/0.1%"),
        ("20mbit/0us/1%", "20mbit/0ms/1%"),
        ("20mbit/250us", "20mbit/0.25ms"),
        ("20mbit/0.1gbit/5ms", "20mbit/100mbit/5ms"),
        ("20mbit/20mbit", "20mbit"),
    ],
)
def test_the_same_link_is_always_written_the_same_way(text: str, written: str) -> None:
    assert str(parse_link(text)) == written
    assert parse_link(written) == parse_link(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0mbit", "rate must be between 100kbit and 10gbit, not 0mbit"),
        ("-5mbit", "rate must be between 100kbit and 10gbit, not -5mbit"),
        ("99kbit", "rate must be between"),
        ("11gbit", "rate must be between"),
        ("20mbps", "mbps is bytes a second; write mbit"),
        ("20Mbps", "Mbps is bytes a second; write mbit"),
        ("500kbps", "write kbit"),
        ("20", "must end in kbit, mbit, gbit"),
        ("20MB", "must end in kbit, mbit, gbit"),
        ("20Mbit", "must end in kbit, mbit, gbit"),
        ("20 mbit", "is not understood"),
        ("mbit", "is not understood"),
        ("1e3mbit", "is not understood"),
        ("nanmbit", "is not understood"),
        ("", "is not understood"),
        ("\u0665mbit", "is not understood"),
        ("9" * 400 + "mbit", "is not understood"),
        ("20mbit/-5ms", "delay must be between 0 and 10s, not -5ms"),
        ("20mbit/11s", "delay must be between"),
        ("20mbit/5", "must end in us, ms, s"),
        ("20mbit/", "delay '' is not understood"),
        ("20mbit/5ms/101%", "loss must be at least 0% and below 100%, not 101%"),
        ("20mbit/5ms/100%", "below 100%"),
        ("20mbit/5ms/-1%", "loss must be at least 0%"),
        ("20mbit/5ms/0.1", "must end in %"),
        ("20mbit/5ms/1%/x", "is no link"),
    ],
)
def test_what_is_no_link_is_refused_with_what_would_be_right(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)) as refusal:
        parse_link(text)
    assert "\n" not in str(refusal.value)


def test_links_by_rank_come_in_the_order_of_the_ranks() -> None:
    links = parse_links("3:5mbit, 0:0.02gbit")
    assert links == {0: Link(20_000_000), 3: Link(5_000_000)}
    assert list(links) == [0, 3]
    assert write_by_rank(links) == "0:20mbit,3:5mbit"
    assert write_by_rank(parse_cores("2:1,1:0.50")) == "1:0.5,2:1"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2:20mbit,2:5mbit", "node 2 is named twice"),
        ("02:20mbit,2:5mbit", "node 2 is named twice"),
        ("20mbit", "'20mbit' is not RANK:LINK"),
        ("2:", "is not RANK:LINK"),
        (":20mbit", "is not RANK:LINK"),
        ("-1:20mbit", "is not RANK:LINK"),
        ("two:20mbit", "is not RANK:LINK"),
        ("2:20mbit,", "'' is not RANK:LINK"),
        ("2:20mbps", "write mbit"),
        ("", "is not RANK:LINK"),
    ],
)
def test_a_list_of_bottlenecks_is_read_strictly(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        parse_links(text)


@pytest.mark.parametrize("text", ["1:0", "1:-1", "1:x", "1:nan", "1:inf", "1:1e9", "1:2000", "0.5"])
def test_a_list_of_stragglers_is_read_strictly(text: str) -> None:
    with pytest.raises(ValueError, match=r"cores|RANK"):
        parse_cores(text)
