"""Paths between sites of namespace nodes: a router on the switch, shaped and verified.

A path is measured between the first nodes of its two sites, before their own links are shaped.
"""

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cluster.host.process_state import how_ended
from cluster.links import delay_line, rate_probe, router, setup
from cluster.links.tc import CONGESTION_CONTROL
from cluster.namespaces import isolation
from cluster.namespaces.links import answers, in_namespace
from cluster.namespaces.network import (
    address,
    disable_ipv6,
    enter,
    inside,
    ip_batch,
    mac,
    name_process,
    tc_batch,
)
from cluster.namespaces.protocol import HELPER, REFERENCE, SupervisorPlan, describe
from cluster.spec.documents.links import LinkAnswer, LinkStatistics, MeasuredLink
from cluster.spec.documents.run_folder import node_name
from cluster.spec.links import Link
from cluster.spec.sites import Pair, parse_between, path_name

ROUTER_ADDRESS = "10.77.255.253"
ROUTER_MAC = mac(0xFFFC)


@dataclass(frozen=True)
class Routed:
    """Sites, the shaped paths between them, and where they are."""

    sites: Mapping[str, tuple[int, ...]]
    paths: Mapping[Pair, Link]
    """In emulated time."""
    nodes: list[int]
    """The nodes' namespaces."""
    namespace: int
    """The router's."""
    dilation: float
    delay_line: bool = False
    """Whether they are delayed in user space."""

    @classmethod
    def of(cls, plan: SupervisorPlan, namespaces: list[int]) -> "Routed":
        paths = parse_between(plan.between, plan.sites) if plan.between else {}
        nodes = namespaces[: plan.nodes]
        router_of = namespaces[-1]
        return cls(plan.sites, paths, nodes, router_of, plan.dilation, plan.delay_line)

    @property
    def shaped(self) -> dict[Pair, Link]:
        """In this host's time."""
        return {pair: path.dilated(self.dilation) for pair, path in self.paths.items()}

    @property
    def addresses(self) -> dict[str, list[str]]:
        """Of each site's nodes."""
        return {site: list(map(address, ranks)) for site, ranks in self.sites.items()}


def start_delay_line(routed: Routed) -> int:
    """A process in the router's namespace; its device is there when this returns."""
    is_up, tell = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            name_process("delay-line")
            nothing = os.open("/dev/null", os.O_RDWR)
            for descriptor in (0, 1):
                os.dup2(nothing, descriptor)
            enter(routed.namespace)
            device = delay_line.attach(ROUTER_MAC)
            delay_line.hurry()
            isolation.drop_privileges(None)
            os.write(tell, b"up")
            delay_line.hold(device, delay_line.delays(routed.shaped, routed.addresses))
        except BaseException as error:
            print(f"the delay line between sites: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(1)
    os.close(tell)
    with os.fdopen(is_up, "rb") as answer:
        if not answer.read(2):
            raise OSError("the delay line between sites did not start")
    return process


def build(routed: Routed) -> None:
    """Attach the router to the switch, shape the paths without delay, and send nodes through it."""
    ranks = range(len(routed.nodes))
    ip_batch(
        f"link add {router.NAME} type veth peer name eth0 address {ROUTER_MAC}"
        f" netns /proc/{os.getpid()}/fd/{routed.namespace}",
        f"link set {router.NAME} master switch up",
    )
    addresses = routed.addresses
    with inside(routed.namespace):
        disable_ipv6()
        ip_batch(
            "link set lo up",
            f"addr add {ROUTER_ADDRESS}/16 dev eth0",
            "link set eth0 up",
            *(f"neigh add {address(r)} lladdr {mac(r)} dev eth0 nud permanent" for r in ranks),
        )
        for name, value in {**CONGESTION_CONTROL, **router.SETTINGS}.items():
            Path("/proc/sys", *name.split(".")).write_text(value)
        tick_s = setup.kernel_tick_s()
        for command in router.rate_commands(routed.shaped, addresses, tick_s, routed.delay_line):
            setup.run(command)
    for site, ranks_ in routed.sites.items():
        others = router.reached_by_router(routed.paths, site)
        ways = [
            f"route add {node}/32 via {ROUTER_ADDRESS}" for o in others for node in addresses[o]
        ]
        for rank in ranks_ if ways else ():
            with inside(routed.nodes[rank]):
                ip_batch(
                    f"neigh add {ROUTER_ADDRESS} lladdr {ROUTER_MAC} dev eth0 nud permanent", *ways
                )


def verify(routed: Routed) -> tuple[list[MeasuredLink], str | None]:
    """What was measured of each path, and the first complaint; delay and loss are added."""
    measured: list[MeasuredLink] = []
    for answer in _verified(routed):
        measured += [answer.measured] if answer.measured else []
        if answer.complaint:
            return measured, answer.complaint
    return measured, None


def _verified(routed: Routed) -> Iterator[LinkAnswer]:
    """One path after the other: sites may share the nodes that measure."""
    for pair in routed.paths:
        here, there = (routed.sites[site][0] for site in pair)
        reference = _serve(routed.nodes[there])
        helper = in_namespace(here, routed.nodes, partial(_verify, routed, pair, address(there)))
        ((_, answer, code),) = answers(LinkAnswer, {here: helper})
        os.kill(reference, signal.SIGKILL)
        os.waitpid(reference, 0)
        ended = f"{describe(node_name(here) + HELPER)} {how_ended(code)} before training"
        yield answer or LinkAnswer(complaint=ended)


def _serve(namespace: int) -> int:
    """A reference in a node's namespace; its process."""
    child = os.fork()
    if child == 0:
        name_process(REFERENCE)
        enter(namespace)
        os._exit(rate_probe.main(1))
    return child


def _verify(routed: Routed, pair: Pair, reference: str) -> LinkAnswer:
    def add_delay() -> None:
        shaped, addresses = routed.shaped, routed.addresses
        with inside(routed.namespace):
            for command in router.delay_commands(shaped, pair, addresses, routed.delay_line):
                setup.run(command)

    try:
        name, path = path_name(pair), routed.paths[pair]
        found = setup.verify(path, name, reference, routed.dilation, add_delay)
        return LinkAnswer(measured=found)
    except setup.LinkFailed as failure:
        return LinkAnswer(measured=failure.measured, complaint=str(failure))


def change(routed: Routed, pair: Pair, path: Link) -> None:
    """Give a path other rates, in place."""
    changed = {**routed.shaped, pair: path.dilated(routed.dilation)}
    tick_s = setup.kernel_tick_s()
    commands = router.change_commands(changed, pair, tick_s, routed.delay_line)
    with inside(routed.namespace):
        tc_batch(*(" ".join(command[1:]) for command in commands))


def read_statistics(routed: Routed) -> list[LinkStatistics]:
    with inside(routed.namespace):
        return setup.parse_path_statistics(setup.run(setup.STATISTICS), routed.paths)
