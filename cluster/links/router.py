"""The router between sites: all that goes from one site to another crosses one bucket. Pure.

It is a network namespace of its own on the nodes' switch. Nodes send to it what is for a site to
which the path is shaped (a route for each of its nodes); it sends that on to the node.

    arriving     eth0: ingress, which finds the sites of sender and receiver by their addresses, and
                 redirects packets to the device of this direction (an ifb), which has a tbf, as the
                 links of nodes have; from there they are routed
    delay, loss  netem below the tbf, added after the rate is verified
    delay alone  where the kernel has no netem: eth0 redirects to the device of a delay line
                 (delay_line.py), which gives packets back later, and they go on as above from there
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cluster.links import delay_line
from cluster.links.tc import DEVICE, Command, bucket, netem
from cluster.spec.links import Link
from cluster.spec.sites import Pair

NAME = "router"
SETTINGS = {
    "net.ipv4.ip_forward": "1",
    "net.ipv4.conf.all.send_redirects": "0",  # else nodes learn the direct way
    f"net.ipv4.conf.{DEVICE}.send_redirects": "0",
    "net.ipv4.conf.all.rp_filter": "0",  # packets come back from the delay line's device
    "net.ipv4.conf.default.rp_filter": "0",
}
HOLD = delay_line.DEVICE
FIRST, THEN = 1, 2
"""Order of the filters: to the delay line, then to the device of the path."""


@dataclass(frozen=True)
class Direction:
    """From one site to another."""

    device: str
    source: str
    destination: str
    rate_bit: int
    path: Link


def directions(paths: Mapping[Pair, Link]) -> Iterator[Direction]:
    for index, ((first, second), path) in enumerate(paths.items()):
        yield Direction(f"gw-path{2 * index}", first, second, path.rate_bit, path)
        yield Direction(f"gw-path{2 * index + 1}", second, first, path.down_bit, path)


def rate_commands(
    paths: Mapping[Pair, Link],
    addresses: Mapping[str, Sequence[str]],
    tick_s: float,
    delay_line: bool = False,
) -> list[Command]:
    """Commands that shape all paths; `addresses` are those of each site's nodes.

    Packets may also come from the device of a delay line, if there is one.
    """
    lines = []
    for way in directions(paths):
        lines += [
            f"ip link add {way.device} type ifb",
            f"ip link set {way.device} up",
            f"tc qdisc add dev {way.device} root handle 1: {_bucket(way, tick_s)}",
        ]
    for device in (DEVICE, *([HOLD] if delay_line else ())):
        lines += _to_buckets(device, paths, addresses)
    return [line.split() for line in lines]


def _to_buckets(
    device: str, paths: Mapping[Pair, Link], addresses: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """What arrives on a device goes to the bucket of its path."""
    sites = list(addresses)
    to_each = _filters(device, THEN)
    yield f"tc qdisc add dev {device} handle ffff: ingress"
    for number, site in enumerate(sites, 1):  # a table of receivers for each site of senders
        yield f"{to_each} handle {number}: u32 divisor 1"
        for node in addresses[site]:
            yield f"{to_each} u32 ht 800:: match ip src {node}/32 link {number}:"
    for way in directions(paths):
        table = sites.index(way.source) + 1
        for node in addresses[way.destination]:
            yield (
                f"{to_each} u32 ht {table}: match ip dst {node}/32"
                f" action mirred egress redirect dev {way.device}"
            )


def _bucket(way: Direction, tick_s: float) -> str:
    return bucket(way.rate_bit, tick_s, way.path.delay_s)


def _filters(device: str, order: int) -> str:
    return f"tc filter add dev {device} parent ffff: protocol ip prio {order}"


def delay_commands(
    paths: Mapping[Pair, Link],
    pair: Pair,
    addresses: Mapping[str, Sequence[str]],
    delay_line: bool = False,
) -> list[Command]:
    """Commands that add delay and loss to one path, both ways; none for a rate alone."""
    if not delay_line:
        return netem_commands(paths, pair)
    to_line = f"action mirred egress redirect dev {HOLD}"
    return [
        f"{_filters(DEVICE, FIRST)} u32 match ip src {here}/32 match ip dst {there}/32"
        f" {to_line}".split()
        for way in _of(paths, pair)
        if way.path.delay_s
        for here in addresses[way.source]
        for there in addresses[way.destination]
    ]


def netem_commands(paths: Mapping[Pair, Link], pair: Pair) -> list[Command]:
    """Commands that add delay and loss to one path, both ways; none for a rate alone."""
    below = ["parent", "1:1", "handle", "10:"]
    return [
        ["tc", "qdisc", "add", "dev", way.device, *below, *netem(way.rate_bit, way.path).split()]
        for way in _of(paths, pair)
        if way.path.needs_netem
    ]


def change_commands(
    paths: Mapping[Pair, Link], pair: Pair, tick_s: float, delay_line: bool = False
) -> list[Command]:
    """Commands that give one path other rates; `paths` has it as it shall be."""
    changes = []
    for way in _of(paths, pair):
        changes.append(f"dev {way.device} root handle 1: {_bucket(way, tick_s)}")
        if way.path.needs_netem and not delay_line:
            added = netem(way.rate_bit, way.path)
            changes.append(f"dev {way.device} parent 1:1 handle 10: {added}")
    return [f"tc qdisc change {change}".split() for change in changes]


def reached_by_router(paths: Mapping[Pair, Link], site: str) -> list[str]:
    """The sites to which a node of this site has a shaped path."""
    return [other for pair in paths if site in pair for other in pair if other != site]


def _of(paths: Mapping[Pair, Link], pair: Pair) -> list[Direction]:
    return [way for way in directions(paths) if {way.source, way.destination} == set(pair)]
