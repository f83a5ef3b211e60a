"""tc commands as values: both directions, and bursts that meet the rate."""

import pytest

from cluster.engine import EngineUnavailable
from cluster.links import kernel_support
from cluster.links.burst_size import (
    FRAME_BYTES,
    LARGEST_PACKET,
    burst_bytes,
    packet_bytes,
    queue_bytes,
)
from cluster.links.tc import INGRESS_DEVICE, change_commands, netem_commands, rate_commands
from cluster.spec.documents.records import NOT_COUNTED
from cluster.spec.links import Link, parse_link

RATES = [parse_link(f"{rate}mbit") for rate in (0.1, 1, 5, 20, 80, 100, 500, 1000, 10000)]


def lines(link: Link) -> list[str]:
    return [" ".join(command) for command in rate_commands(link, 0.0)]


def test_both_directions_have_a_bucket_of_the_same_size() -> None:
    buckets = [line for line in lines(parse_link("20mbit")) if " tbf " in line]
    assert [line.split()[4] for line in buckets] == ["eth0", INGRESS_DEVICE]
    assert len({line.partition(" tbf ")[2] for line in buckets}) == 1
    assert "rate 20000000bit" in buckets[0]


def test_up_and_down_have_rates_of_their_own() -> None:
    buckets = [line for line in lines(parse_link("20mbit/80mbit")) if " tbf " in line]
    assert ["eth0" in line and "rate 20000000bit" in line for line in buckets] == [True, False]
    assert INGRESS_DEVICE in buckets[1]
    assert "rate 80000000bit" in buckets[1]


@pytest.mark.parametrize("text", ["5mbit", "5mbit/9mbit", "5mbit/9mbit/20ms/1%"])
def test_a_change_gives_the_qdiscs_that_are_there_what_a_new_link_would_have(text: str) -> None:
    link = parse_link(text)
    made = [*lines(link), *(" ".join(command) for command in netem_commands(link))]
    added = {
        line for line in made if line.startswith("tc qdisc add") and "ingress" not in line[-8:]
    }
    changed = {" ".join(command) for command in change_commands(link, 0.0)}
    assert changed == {line.replace("qdisc add", "qdisc change") for line in added}


def test_every_received_packet_passes_the_second_bucket() -> None:
    (redirect,) = [line for line in lines(parse_link("20mbit")) if "mirred" in line]
    assert "u32 match u32 0 0" in redirect
    assert redirect.endswith(f"redirect dev {INGRESS_DEVICE}")


def test_the_second_bucket_exists_before_packets_are_redirected_to_it() -> None:
    made = lines(parse_link("20mbit"))
    bucket = next(i for i, line in enumerate(made) if INGRESS_DEVICE in line and " tbf " in line)
    assert bucket < next(i for i, line in enumerate(made) if "mirred" in line)


def test_the_ingress_device_is_not_counted() -> None:
    assert INGRESS_DEVICE in NOT_COUNTED


@pytest.mark.parametrize("link", RATES, ids=str)
@pytest.mark.parametrize("tick_s", [1e-9, 0.004, 0.01])
def test_a_bucket_holds_a_tick_and_two_packets(link: Link, tick_s: float) -> None:
    rate = link.rate_bit / 8
    burst, packet = burst_bytes(link.rate_bit, tick_s), packet_bytes(link.rate_bit, tick_s)
    assert burst >= rate * tick_s + 2 * FRAME_BYTES
    assert 2 * packet <= burst
    assert 2 * FRAME_BYTES <= packet <= LARGEST_PACKET
    assert queue_bytes(link.rate_bit, tick_s) >= burst + rate * 0.04


@pytest.mark.parametrize("rate", [1, 5, 20, 50, 100])
def test_a_message_of_the_default_model_feels_its_link(rate: int) -> None:
    """87 kB, on a kernel with high-resolution timers: the burst is a seventh of it at most."""
    assert burst_bytes(rate * 10**6, 1e-9) < 87_360 / 6.9


def test_delay_and_loss_go_below_both_buckets_and_only_if_the_link_has_them() -> None:
    assert netem_commands(parse_link("20mbit")) == []
    made = [" ".join(command) for command in netem_commands(parse_link("20mbit/5ms/0.1%"))]
    assert [line.split()[4] for line in made] == ["eth0", INGRESS_DEVICE]
    assert all("parent 1:1" in line and "delay 5000us loss 0.1%" in line for line in made)
    (loss, _) = netem_commands(parse_link("20mbit/0ms/2%"))
    assert "delay" not in loss


def test_the_queue_of_a_delayed_link_holds_all_packets_in_flight() -> None:
    (command, _) = netem_commands(parse_link("100mbit/100ms"))
    packets = int(command[command.index("limit") + 1])
    assert packets * FRAME_BYTES > 100e6 / 8 * 0.15


# --- what a kernel must have ---------------------------------------------------------------------


def test_a_kernel_without_netem_refuses_delay_and_loss_by_its_name() -> None:
    modules = set(kernel_support.FOR_RATES)
    kernel_support.check([parse_link("20mbit")], modules)
    for text in ("20mbit/5ms", "20mbit/0ms/1%"):
        with pytest.raises(EngineUnavailable, match=f"link {text}: .*sch_netem"):
            kernel_support.check([parse_link("1mbit"), parse_link(text)], modules)
    kernel_support.check([parse_link("20mbit/5ms/1%")], modules | {"sch_netem"})


@pytest.mark.parametrize("module", kernel_support.FOR_RATES)
def test_a_kernel_that_cannot_shape_names_the_missing_module(module: str) -> None:
    modules = set(kernel_support.MODULES) - {module}
    with pytest.raises(EngineUnavailable, match=module):
        kernel_support.check([parse_link("20mbit")], modules)
    with pytest.raises(EngineUnavailable, match=module):
        kernel_support.describe(modules)


def test_without_links_a_kernel_needs_no_module() -> None:
    kernel_support.check([], set())
