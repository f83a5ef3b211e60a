"""A shaped node and iperf3, an independent program, on its link, in fresh namespaces.

    unshare --net ... python -m tests.link_lab 20mbit

Prints what our rate probe and what iperf3 measure, in both directions, as two lines of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from statistics import median
from typing import Any

from cluster.links.burst_size import FRAME_BYTES
from cluster.namespaces import network
from cluster.namespaces.links import set_up_links
from cluster.spec.links import parse_link

PAYLOAD_BYTES = 1448
SECONDS = 4
ATTEMPTS, GOOD = 3, 0.01


def main(text: str) -> int:
    namespaces = network.create_namespaces(2)
    network.build_network(2, namespaces)
    links, complaint = set_up_links({0: text}, namespaces)
    if complaint:
        sys.exit(complaint)
    print(json.dumps(links[0].to_json()), flush=True)
    rate_bit = parse_link(text).rate_bit
    sent = nearest(rate_bit, lambda: iperf3(rate_bit, 0, 1, namespaces))
    received = nearest(rate_bit, lambda: iperf3(rate_bit, 1, 0, namespaces))
    print(json.dumps({"sent": sent, "received": received}))
    return 0


def nearest(rate_bit: int, measure: Callable[[], float]) -> float:
    """The nearest of up to three measurements: a busy machine disturbs some."""
    rates: list[float] = []
    while len(rates) < ATTEMPTS and not any(abs(rate / rate_bit - 1) <= GOOD for rate in rates):
        rates.append(measure())
    return min(rates, key=lambda rate: abs(rate - rate_bit))


def iperf3(rate_bit: int, sender: int, receiver: int, namespaces: list[int]) -> float:
    """Bits per second on the wire, counted by the receiver: the median of half seconds.

    The sum at the end would include what was still in the queue when the sender stopped, and
    moments in which this machine was busy.
    """
    piece = max(PAYLOAD_BYTES, min(128 * 1024, rate_bit // 8 // 100))
    command = ["iperf3", "--client", network.address(sender), "--reverse", "--json"]
    command += ["--length", str(piece), "--time", str(SECONDS), "--omit", "1"]
    command += ["--interval", "0.5"]
    if rate_bit < 10**7:
        command += ["--window", "32K"]  # the default exceeds the queue of a slow link
    server = subprocess.Popen(
        ["iperf3", "--server", "--one-off", "--forceflush"],
        stdout=subprocess.PIPE,
        text=True,
        **inside(namespaces[sender]),
    )
    try:
        assert server.stdout is not None
        while "listening" not in (said := server.stdout.readline()):
            assert said, "iperf3's server did not start"
        client = subprocess.run(
            command, check=True, capture_output=True, **inside(namespaces[receiver])
        )
    finally:
        server.kill()
        server.wait()
    intervals = [interval["sum"] for interval in json.loads(client.stdout)["intervals"]]
    counted = [span for span in intervals if not span["omitted"] and span["seconds"] > 0.4]
    payload = median(span["bytes"] / span["seconds"] for span in counted)
    return float(payload * 8 * FRAME_BYTES / PAYLOAD_BYTES)


def inside(namespace: int) -> dict[str, Any]:
    return {"preexec_fn": lambda: network.enter(namespace), "pass_fds": (namespace,)}


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    sys.exit(main(sys.argv[1]))
