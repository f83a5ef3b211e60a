"""A link -> the tc commands that make it real, in both directions. Pure; the sizes are explained here.

    sending      eth0:  tbf
    receiving    eth0:  ingress -> every packet to the device gw-ingress (an ifb), which has the same tbf
    delay, loss  netem below each tbf, added once the rate has been verified: TCP cannot measure a rate
                 through loss

Sizes. A token bucket lets through what has gathered in it (the burst) at once, and then the rate. It must
hold what falls due between two ticks of the kernel's clock (rate/HZ), and on fast links one packet of the
largest size (64 KiB: the kernel hands TCP down in such pieces), else the rate is missed: usual recipes are
13-41 % off at 1 Gbit. It must hold no more, else it is no throttle for a small message. On slow links the
largest packets are many milliseconds' worth; there the kernel cuts them into frames, and the burst is what
falls due in 10 ms, which a machine that is busy for a moment makes up for. So measured: within 0.1 % of the
rate from 1 Mbit to 1 Gbit. The queue holds 50 ms and one largest packet; what comes then is dropped.

On all nodes, throttled or not, TCP's congestion control is Reno, which every kernel has and allows: what the
host prefers would show in the steps (with BBR, about 9 % longer at 20 Mbit) and in the bytes (with BBR, up to
2 % of a short run's are repeats, also on free links).
"""

from __future__ import annotations

from cluster.spec.links import Link

Command = list[str]

CONGESTION_CONTROL = ("net.ipv4.tcp_congestion_control", "reno")
DEVICE = "eth0"
INGRESS_DEVICE = "gw-ingress"
LARGEST_PACKET = 64 * 1024
SLACK_S = 0.006
QUEUE_S = 0.050
FRAME_BYTES = 1514
"""A full Ethernet frame as the kernel counts it: 1,448 bytes of payload with TCP's usual options."""


def burst_bytes(link: Link, hz: int) -> int:
    rate = link.rate_bit / 8
    return int(rate / hz + min(LARGEST_PACKET, 2 * FRAME_BYTES + rate * SLACK_S))


def queue_bytes(link: Link, hz: int) -> int:
    rate = link.rate_bit / 8
    return int(rate / hz + LARGEST_PACKET + rate * QUEUE_S)


def rate_commands(link: Link, hz: int) -> list[Command]:
    """Both directions; run as they stand, by one who has CAP_NET_ADMIN in the node's namespace."""
    catch_all = "protocol all prio 1 u32 match u32 0 0"
    return [
        _words(f"tc qdisc add dev {DEVICE} root handle 1: {_bucket(link, hz)}"),
        _words(f"ip link add {INGRESS_DEVICE} type ifb"),
        _words(f"ip link set {INGRESS_DEVICE} up"),
        _words(f"tc qdisc add dev {INGRESS_DEVICE} root handle 1: {_bucket(link, hz)}"),
        _words(f"tc qdisc add dev {DEVICE} handle ffff: ingress"),
        _words(
            f"tc filter add dev {DEVICE} parent ffff: {catch_all}"
            f" action mirred egress redirect dev {INGRESS_DEVICE}"
        ),
    ]


def netem_commands(link: Link) -> list[Command]:
    """Delay and loss, below the buckets that are there already; none where none are asked for."""
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
        _words(f"tc qdisc add dev {device} parent 1:1 handle 10: {netem}")
        for device in (DEVICE, INGRESS_DEVICE)
    ]


def _bucket(link: Link, hz: int) -> str:
    sizes = f"burst {burst_bytes(link, hz)} limit {queue_bytes(link, hz)}"
    return f"tbf rate {link.rate_bit}bit {sizes}"


def _words(text: str) -> Command:
    return text.split()
