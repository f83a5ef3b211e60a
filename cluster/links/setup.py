"""Shape a link and verify that it, or a path between sites, reaches its target.

A command that fails, or a link that misses its target, is an error with the command or the numbers;
the worker is then never started. With time dilation the host's link is the dilated one, and what is
measured is told in emulated time.
"""

import dataclasses
import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from functools import partial

from cluster.links import rate_probe, router, tc
from cluster.links.burst_size import burst_bytes, queue_bytes
from cluster.spec.documents.links import COUNTS, LinkStatistics, MeasuredLink
from cluster.spec.links import Link
from cluster.spec.sites import Pair, path_name

MOST_OFF = 0.03
"""A link that is further off than this stops the run."""
GOOD = 0.01
ATTEMPTS = 4
PAUSE_S = 0.2
DELAY_OFF, DELAY_OFF_S = 0.05, 0.0005
STATISTICS = ["tc", "-s", "-j", "qdisc", "show"]


class LinkFailed(Exception):
    """The link misses its target; the message is one line. Carries what was measured."""

    def __init__(self, message: str, measured: MeasuredLink | None = None) -> None:
        super().__init__(message)
        self.measured = measured


def set_up(target: Link, node: str, reference: str, dilation: float) -> MeasuredLink:
    """Shape and verify a node's link; LinkFailed where it does not reach its target."""
    link = target.dilated(dilation)
    for command in tc.rate_commands(link, kernel_tick_s()):
        run(command)

    def add_delay() -> None:
        for command in tc.netem_commands(link):
            run(command)

    return verify(target, node, reference, dilation, add_delay)


def verify(
    target: Link, name: str, reference: str, dilation: float, add_delay: Callable[[], None]
) -> MeasuredLink:
    """Measure what lies between here and the reference, whose rate is limited already.

    `add_delay` adds delay and loss, after the rate. `name` is that of a node, or of a path.
    """
    link, what = target.dilated(dilation), describe(name)
    try:
        measured = verify_rate(link, name, reference, kernel_tick_s())
        plain_s = rate_probe.measure_round_trip_s(reference) if link.delay_s else 0.0
        if link.needs_netem:
            add_delay()
        if link.delay_s:
            delay_s = measure_delay_s(reference, plain_s, link.delay_s)
            measured = dataclasses.replace(measured, delay_ms=round(delay_s * 1000, 3))
    except OSError as error:
        raise LinkFailed(f"{what} ({target}) could not be measured: {error}") from error
    measured = in_emulated_time(measured, target, dilation)
    if complaint := complain(target, measured):
        raise LinkFailed(f"{what} {complaint}", measured)
    return measured


def describe(name: str) -> str:
    """A link by its node, or a path by its sites, for a sentence."""
    return f"the path {name}" if "-" in name else f"the link of {name}"


def verify_rate(link: Link, node: str, reference: str, tick_s: float) -> MeasuredLink:
    """Measure one direction after the other: acknowledgements would use the other's link."""
    targets = [
        rate_probe.ProbeTarget(rate, burst_bytes(rate, tick_s), queue_bytes(rate, tick_s))
        for rate in (link.rate_bit, link.down_bit)
    ]
    measures = (rate_probe.measure_sent, rate_probe.measure_received)
    sent, received = (
        measure_well(partial(measure, reference), target)
        for measure, target in zip(measures, targets, strict=True)
    )
    errors: list[float] = [sent[0] / link.rate_bit - 1, received[0] / link.down_bit - 1]
    worst: float = max(errors, key=abs)
    return MeasuredLink(
        node=node,
        target=str(link),
        target_mbit=link.rate_mbit,
        sent_mbit=round(sent[0] / 1e6, 5),
        received_mbit=round(received[0] / 1e6, 5),
        target_received_mbit=None if link.received_bit is None else link.down_mbit,
        error=round(worst, 5),
        attempts=max(sent[1], received[1]),
        burst_bytes=max(target.burst_bytes for target in targets),
    )


def measure_delay_s(reference: str, plain_s: float, target_s: float) -> float:
    """One way, beyond what a round trip took before; nearest to the target, as a rate is."""
    delays: list[float] = []
    for attempt in range(1, ATTEMPTS + 1):
        delays.append((rate_probe.measure_round_trip_s(reference) - plain_s) / 2)
        nearest = min(delays, key=lambda delay_s: abs(delay_s - target_s))
        if abs(nearest - target_s) <= max(GOOD * target_s, DELAY_OFF_S):
            break
        time.sleep(PAUSE_S * attempt)
    return nearest


def in_emulated_time(measured: MeasuredLink, target: Link, dilation: float) -> MeasuredLink:
    delay_ms = measured.delay_ms
    return dataclasses.replace(
        measured,
        target=str(target),
        target_mbit=target.rate_mbit,
        target_received_mbit=None if target.received_bit is None else target.down_mbit,
        sent_mbit=round(measured.sent_mbit * dilation, 5),
        received_mbit=round(measured.received_mbit * dilation, 5),
        delay_ms=None if delay_ms is None else round(delay_ms / dilation, 3),
    )


def measure_well(
    measure: Callable[[rate_probe.ProbeTarget], float], target: rate_probe.ProbeTarget
) -> tuple[float, int]:
    """The measured rate that is nearest to the target, and the number of attempts.

    A busy machine disturbs a measurement, so one that is more than GOOD off is repeated after a
    pause, and longer. All measurements of a wrong link are wrong.
    """
    rates: list[float] = []
    for attempt in range(1, ATTEMPTS + 1):
        rates.append(measure(dataclasses.replace(target, longer=attempt)))
        nearest = min(rates, key=lambda rate_bit: abs(rate_bit - target.rate_bit))
        if abs(nearest / target.rate_bit - 1) <= GOOD:
            break
        time.sleep(PAUSE_S * attempt)
    return nearest, attempt


def complain(link: Link, measured: MeasuredLink) -> str | None:
    """What is wrong with it, for a sentence that begins with "the link of node2"."""
    if not abs(measured.error) <= MOST_OFF:
        return (
            f"measures {measured.sent_mbit:.4g} Mbit/s sent and"
            f" {measured.received_mbit:.4g} Mbit/s received instead of {_rates(link)}:"
            f" more than {100 * MOST_OFF:g} % off, so nothing was trained on it"
        )
    if link.delay_s and measured.delay_ms is not None:
        off_s = abs(measured.delay_ms / 1000 - link.delay_s)
        if off_s > max(DELAY_OFF * link.delay_s, DELAY_OFF_S):
            return f"delays by {measured.delay_ms} ms instead of {link.delay_s * 1000:g} ms"
    return None


def _rates(link: Link) -> str:
    up, down = link.rate_mbit, link.down_mbit
    return f"{up:g}" if up == down else f"{up:g} and {down:g}"


def change(link: Link, dilation: float) -> list[tc.Command]:
    """Commands that change the rates of a link that is shaped already."""
    return tc.change_commands(link.dilated(dilation), kernel_tick_s())


def kernel_tick_s() -> float:
    """The kernel's timers are no finer."""
    return time.clock_getres(time.CLOCK_MONOTONIC)


def read_statistics(node: str) -> LinkStatistics:
    """Packets that the two buckets of this namespace dropped and delayed; needs no privilege."""
    return parse_statistics(run(STATISTICS), node)


def parse_path_statistics(text: str | bytes, paths: Mapping[Pair, Link]) -> list[LinkStatistics]:
    """Of the router's paths: sent is what went from the first of two sites to the second."""
    ways = [way.device for way in router.directions(paths)]
    return [
        parse_statistics(text, path_name(pair), ways[2 * index], ways[2 * index + 1])
        for index, pair in enumerate(paths)
    ]


def parse_statistics(
    text: str | bytes, node: str, sent: str = tc.DEVICE, received: str = tc.INGRESS_DEVICE
) -> LinkStatistics:
    """Of the buckets on these two devices."""
    buckets = {q["dev"]: q for q in json.loads(text) if q.get("root") and q["kind"] == "tbf"}
    devices = {"sent": sent, "received": received}
    counts = {}
    for name in COUNTS:
        direction, _, what = name.partition("_")
        bucket = buckets.get(devices[direction])
        counts[name] = bucket[what] if bucket else None
    return LinkStatistics(node=node, **counts)


def run(command: tc.Command) -> str:
    """The output of a command; LinkFailed, with the command and its error, where it fails."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "PATH": path}
        )
    except OSError as error:
        raise LinkFailed(f"'{' '.join(command)}' failed: {error}") from error
    if done.returncode != 0:
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise LinkFailed(f"'{' '.join(command)}' failed: {said}")
    return done.stdout
