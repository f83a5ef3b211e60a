"""A node's link, given other rates in place, in fresh namespaces; rates are measured by TCP bytes.

    unshare --net ... python -m tests.changing_link_lab 20mbit 5mbit/9mbit 40mbit

Prints, for each link in turn, its rates from the node and to it, and the node's qdiscs, as a line
of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial

from cluster.links import rate_probe
from cluster.links.burst_size import burst_bytes, queue_bytes
from cluster.links.setup import measure_well
from cluster.namespaces import links, network
from cluster.spec.links import parse_link


def main(texts: list[str]) -> int:
    namespaces = network.create_namespaces(2)
    network.build_network(2, namespaces)
    _, complaint = links.set_up_links({0: texts[0]}, namespaces)
    if complaint:
        sys.exit(complaint)
    reference = os.fork()
    if reference == 0:
        network.enter(namespaces[1])
        os._exit(rate_probe.main(1))
    for place, text in enumerate(texts):
        if place:
            links.change(0, text, namespaces, 1.0)
        with network.inside(namespaces[0]):
            print(json.dumps({"rates": rates(text), "qdiscs": qdiscs()}), flush=True)
    with network.inside(namespaces[0]):
        rate_probe.report_done(network.address(1))
    os.waitpid(reference, 0)
    return 0


def rates(text: str) -> list[float]:
    link, found = parse_link(text), []
    for measure, rate_bit in (
        (rate_probe.measure_sent, link.rate_bit),
        (rate_probe.measure_received, link.down_bit),
    ):
        burst, queue = burst_bytes(rate_bit, 1e-9), queue_bytes(rate_bit, 1e-9)
        target = rate_probe.ProbeTarget(rate_bit, burst, queue)
        found.append(measure_well(partial(measure, network.address(1)), target)[0])
    return found


def qdiscs() -> list[str]:
    command = ["tc", "-j", "qdisc", "show"]
    shown = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return [f"{q['kind']} {q['handle']} {q['dev']}" for q in shown if q["kind"] != "noqueue"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
