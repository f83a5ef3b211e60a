"""A link -> the tc commands that shape it, in both directions, and change it in place. Pure.

    sending      eth0: tbf, a token bucket of the link's rate, and packets of at most half of it
    receiving    eth0: ingress, which redirects packets to gw-ingress (an ifb) with a tbf
    delay, loss  netem below each tbf, added after the rate is verified: TCP cannot measure a rate
                 through loss

cluster/links/burst_size.py sizes the buckets. A change keeps the queues and what is in them.
"""

from collections.abc import Iterable

from cluster.links.burst_size import (
    FRAME_BYTES,
    QUEUE_S,
    ROUND_TRIPS,
    burst_bytes,
    packet_bytes,
    queue_bytes,
)
from cluster.spec.links import Link

Command = list[str]

CONGESTION_CONTROL = {"net.ipv4.tcp_congestion_control": "reno"}
"""TCP's congestion control on all nodes, shaped or not: every kernel has Reno. The host's default
would affect step times (BBR: about 9 % longer at 20 Mbit/s) and bytes (BBR: up to 2 % retransmitted
in short runs, also on links without a limit)."""
FAR = {"net.ipv4.tcp_slow_start_after_idle": "0"}
"""Beside it where a link or path has a delay: a connection that was silent while its node computed
goes on as fast as before, as hosts are set that train over long ways. Else a message of 667 kB over
80 ms there and back would begin with 14 kB, and take twice as long."""
DEVICE = "eth0"
INGRESS_DEVICE = "gw-ingress"


def tcp_settings(links: Iterable[Link]) -> dict[str, str]:
    """Of all nodes, where these links and paths are shaped."""
    return CONGESTION_CONTROL | (FAR if any(link.delay_s for link in links) else {})


def rate_commands(link: Link, tick_s: float) -> list[Command]:
    """Commands that limit the rates; they need CAP_NET_ADMIN in the node's namespace."""
    return [
        command.split()
        for command in (
            f"tc qdisc add dev {DEVICE} root handle 1: {bucket(link.rate_bit, tick_s)}",
            f"ip link add {INGRESS_DEVICE} type ifb",
            f"ip link set {INGRESS_DEVICE} up",
            f"tc qdisc add dev {INGRESS_DEVICE} root handle 1: {bucket(link.down_bit, tick_s)}",
            f"tc qdisc add dev {DEVICE} handle ffff: ingress",
            f"tc filter add dev {DEVICE} parent ffff: protocol all prio 1 u32 match u32 0 0"
            f" action mirred egress redirect dev {INGRESS_DEVICE}",
            f"ip link set {DEVICE} gso_max_size {packet_bytes(link.rate_bit, tick_s)}",
        )
    ]


def netem_commands(link: Link) -> list[Command]:
    """Commands that add delay and loss below the existing buckets; none for a rate alone."""
    return [
        f"tc qdisc add dev {device} parent 1:1 handle 10: {netem(rate_bit, link)}".split()
        for device, rate_bit in _directions(link)
        if link.needs_netem
    ]


def change_commands(link: Link, tick_s: float) -> list[Command]:
    """Commands that give a link of this delay and loss other rates: nothing is torn down.

    Connections keep the largest packet that they began with: a bucket that it does not fit into
    cuts it.
    """
    changes = []
    for device, rate_bit in _directions(link):
        changes.append(f"dev {device} root handle 1: {bucket(rate_bit, tick_s)}")
        if link.needs_netem:
            changes.append(f"dev {device} parent 1:1 handle 10: {netem(rate_bit, link)}")
    return [f"tc qdisc change {change}".split() for change in changes]


def _directions(link: Link) -> list[tuple[str, int]]:
    return [(DEVICE, link.rate_bit), (INGRESS_DEVICE, link.down_bit)]


def bucket(rate_bit: int, tick_s: float, delay_s: float = 0.0) -> str:
    burst, queue = burst_bytes(rate_bit, tick_s), queue_bytes(rate_bit, tick_s, delay_s)
    return f"tbf rate {rate_bit}bit burst {burst} limit {queue}"


def netem(rate_bit: int, link: Link) -> str:
    """Its queue holds what is on its way and what waits for the bucket."""
    packets = 100 + int(
        rate_bit / 8 * ((1 + 2 * ROUND_TRIPS) * link.delay_s + QUEUE_S) / FRAME_BYTES
    )
    text = f"netem limit {packets}"
    if link.delay_s > 0:
        text += f" delay {round(link.delay_s * 1e6)}us"
    if link.loss > 0:
        text += f" loss {link.loss * 100:.6g}%"
    return text
