"""A link -> the tc commands that shape it, in both directions. Pure.

    sending      eth0: tbf, a token bucket of the link's rate, and packets of at most half of it
    receiving    eth0: ingress, which redirects packets to gw-ingress (an ifb) with the same tbf
    delay, loss  netem below each tbf, added after the rate is verified: TCP cannot measure a rate
                 through loss

cluster/links/burst_size.py sizes the buckets.
"""

from cluster.links.burst_size import (
    FRAME_BYTES,
    QUEUE_S,
    burst_bytes,
    packet_bytes,
    queue_bytes,
)
from cluster.spec.links import Link

Command = list[str]

CONGESTION_CONTROL = ("net.ipv4.tcp_congestion_control", "reno")
"""TCP's congestion control on all nodes, shaped or not: every kernel has Reno. The host's default
would affect step times (BBR: about 9 % longer at 20 Mbit/s) and bytes (BBR: up to 2 % retransmitted
in
short runs, also on links without a limit)."""
DEVICE = "eth0"
INGRESS_DEVICE = "gw-ingress"


def rate_commands(link: Link, tick_s: float) -> list[Command]:
    """Commands that limit the rate both ways; they need CAP_NET_ADMIN in the node's namespace."""
    bucket = f"tbf rate {link.rate_bit}bit"
    bucket += f" burst {burst_bytes(link, tick_s)} limit {queue_bytes(link, tick_s)}"
    return [
        command.split()
        for command in (
            f"tc qdisc add dev {DEVICE} root handle 1: {bucket}",
            f"ip link add {INGRESS_DEVICE} type ifb",
            f"ip link set {INGRESS_DEVICE} up",
            f"tc qdisc add dev {INGRESS_DEVICE} root handle 1: {bucket}",
            f"tc qdisc add dev {DEVICE} handle ffff: ingress",
            f"tc filter add dev {DEVICE} parent ffff: protocol all prio 1 u32 match u32 0 0"
            f" action mirred egress redirect dev {INGRESS_DEVICE}",
            f"ip link set {DEVICE} gso_max_size {packet_bytes(link, tick_s)}",
        )
    ]


def netem_commands(link: Link) -> list[Command]:
    """Commands that add delay and loss below the existing buckets; none for a rate alone."""
    if not link.needs_netem:
        return []
    waiting_s = link.delay_s + QUEUE_S
    packets = 100 + int(link.rate_bit / 8 * waiting_s / FRAME_BYTES)
    netem = f"netem limit {packets}"
    if link.delay_s > 0:
        netem += f" delay {round(link.delay_s * 1e6)}us"
    if link.loss > 0:
        netem += f" loss {link.loss * 100:.6g}%"
    return [
        f"tc qdisc add dev {device} parent 1:1 handle 10: {netem}".split()
        for device in (DEVICE, INGRESS_DEVICE)
    ]
