"""The router between sites: all that goes from one site to another crosses one bucket. Pure.

It is a network namespace of its own on the nodes' switch. Nodes send to it what is for a site to
which the path is shaped (a route for each of its nodes); it sends that on to the node.

    arriving     eth0: ingress, which finds the sites of sender and receiver by their addresses, and
                 redirects packets to the device of this direction (an ifb), which has a tbf, as the
                 links of nodes have; from there they are routed
    delay, loss  netem below the tbf, added after the rate is verified
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cluster.links.tc import DEVICE, Command, bucket, netem
from cluster.spec.links import Link
from cluster.spec.sites import Pair

NAME = "router"
SETTINGS = {
    "net.ipv4.ip_forward": "1",
    "net.ipv4.conf.all.send_redirects": "0",  # else nodes learn the direct way
    f"net.ipv4.conf.{DEVICE}.send_redirects": "0",
}
TO_EACH = "tc filter add dev eth0 parent ffff: protocol ip prio 1"


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
    paths: Mapping[Pair, Link], addresses: Mapping[str, Sequence[str]], tick_s: float
) -> list[Command]:
    """Commands that shape all paths; `addresses` are those of each site's nodes."""
    sites = list(addresses)
    lines = [f"tc qdisc add dev {DEVICE} handle ffff: ingress"]
    for number, site in enumerate(sites, 1):  # a table of receivers for each site of senders
        lines.append(f"{TO_EACH} handle {number}: u32 divisor 1")
        lines += [
            f"{TO_EACH} u32 ht 800:: match ip src {node}/32 link {number}:"
            for node in addresses[site]
        ]
    for way in directions(paths):
        lines += [
            f"ip link add {way.device} type ifb",
            f"ip link set {way.device} up",
            f"tc qdisc add dev {way.device} root handle 1: {bucket(way.rate_bit, tick_s)}",
        ]
        table = sites.index(way.source) + 1
        lines += [
            f"{TO_EACH} u32 ht {table}: match ip dst {node}/32"
            f" action mirred egress redirect dev {way.device}"
            for node in addresses[way.destination]
        ]
    return [line.split() for line in lines]


def netem_commands(paths: Mapping[Pair, Link], pair: Pair) -> list[Command]:
    """Commands that add delay and loss to one path, both ways; none for a rate alone."""
    below = ["parent", "1:1", "handle", "10:"]
    return [
        ["tc", "qdisc", "add", "dev", way.device, *below, *netem(way.rate_bit, way.path).split()]
        for way in _of(paths, pair)
        if way.path.needs_netem
    ]


def change_commands(paths: Mapping[Pair, Link], pair: Pair, tick_s: float) -> list[Command]:
    """Commands that give one path other rates; `paths` has it as it shall be."""
    changes = []
    for way in _of(paths, pair):
        changes.append(f"dev {way.device} root handle 1: {bucket(way.rate_bit, tick_s)}")
        if way.path.needs_netem:
            added = netem(way.rate_bit, way.path)
            changes.append(f"dev {way.device} parent 1:1 handle 10: {added}")
    return [f"tc qdisc change {change}".split() for change in changes]


def reached_by_router(paths: Mapping[Pair, Link], site: str) -> list[str]:
    """The sites to which a node of this site has a shaped path."""
    return [other for pair in paths if site in pair for other in pair if other != site]


def _of(paths: Mapping[Pair, Link], pair: Pair) -> list[Direction]:
    return [way for way in directions(paths) if {way.source, way.destination} == set(pair)]
