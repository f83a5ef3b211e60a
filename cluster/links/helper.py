"""The link helper of a container: shapes and verifies what its node is attached with, and exits.

    python -m cluster.links.helper '{"node": "node2", "link": "20mbit", "dilation": 2.5, ...}'

It shares the node's network namespace. It prints a LinkAnswer as one line of JSON and opens the
worker's gate (cluster/links/gate.py). Paths between sites come first: they are measured between
nodes without a limit of their own.
"""

import json
import sys
from dataclasses import dataclass
from functools import partial

from cluster.links import gate, rate_probe, router, setup
from cluster.links.router_service import ask, resolve
from cluster.spec.documents.codec import from_json, to_json
from cluster.spec.documents.links import LinkAnswer, MeasuredLink
from cluster.spec.links import parse_link


@dataclass(frozen=True)
class PathProbe:
    """A path to measure from this node to the first node of another site."""

    name: str
    path: str
    to: str


@dataclass(frozen=True)
class HelperPlan:
    """What a helper does on its node."""

    node: str
    reference: str
    """The other end when its link is measured."""
    dilation: float
    link: str | None = None
    """To shape and verify."""
    through_router: tuple[str, ...] = ()
    """Names of nodes that it reaches through the router between sites."""
    probes: tuple[PathProbe, ...] = ()
    probed: int = 0
    """Paths that other nodes measure with this node as the other end."""

    def text(self) -> str:
        return json.dumps(to_json(self))


def main(text: str) -> int:
    plan = from_json(HelperPlan, json.loads(text))
    paths: list[MeasuredLink] = []
    link: MeasuredLink | None = None
    complaint: str | None = None
    try:
        take_routes(plan)
        verify_paths(plan, paths)
        if plan.link is not None:
            target = parse_link(plan.link)
            link = setup.set_up(target, plan.node, plan.reference, plan.dilation)
        gate.open_gate()
    except setup.LinkFailed as failure:
        complaint = str(failure)
        if failure.measured and failure.measured.node == plan.node:
            link = failure.measured
        elif failure.measured:
            paths.append(failure.measured)
    if plan.link is not None:
        rate_probe.report_done(plan.reference)
    answer = LinkAnswer(measured=link, paths=paths, complaint=complaint)
    print(json.dumps(answer.to_json()), flush=True)
    return 0 if complaint is None else 1


def take_routes(plan: HelperPlan) -> None:
    if plan.through_router:
        gateway = resolve(router.NAME)
        for name in plan.through_router:
            setup.run(["ip", "route", "add", f"{resolve(name)}/32", "via", gateway])


def verify_paths(plan: HelperPlan, found: list[MeasuredLink]) -> None:
    """Measure this node's paths, and serve those of others, all before its own link is shaped."""
    served = rate_probe.Reference() if plan.probed else None
    if served:
        served.start()
    for probe in plan.probes:
        ask("ready")
        path, add_delay = parse_link(probe.path), partial(ask, f"delay {probe.name}")
        found.append(setup.verify(path, probe.name, probe.to, plan.dilation, add_delay))
        rate_probe.report_done(probe.to)
        ask(f"verified {probe.name}")
    if served:
        for _ in range(plan.probed):
            if not served.done.acquire(timeout=rate_probe.PROGRAM_PATIENCE_S):
                raise setup.LinkFailed(f"the paths to {plan.node} were not measured in time")
        served.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
