"""A delay between sites without netem: real packets through the delay line of the router.

Only with ./test.sh --soak: on a busy machine packets are read late.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from cluster.namespaces.cluster import unshare_command
from cluster.namespaces.engine import link_modules
from tests.measuring import PROJECT

pytestmark = [pytest.mark.soak, pytest.mark.timed]


@pytest.mark.parametrize(
    ("path", "delay_ms", "rates"),
    [
        ("50mbit/10ms", 10, (50e6, 50e6)),
        ("50mbit/80ms", 80, (50e6, 50e6)),
        ("100mbit/20mbit/40ms", 40, (100e6, 20e6)),
    ],
)
def test_packets_are_delayed_both_ways_and_the_rate_stays(
    path: str, delay_ms: float, rates: tuple[float, float]
) -> None:
    if "tun" not in link_modules():
        pytest.skip("no TAP device can be made here")
    command = [*unshare_command(), sys.executable, "-m", "tests.netem_lab", "held", path]
    answer = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=300)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)[path]
    print(found)  # with the seconds of a core that it took
    assert found["complaint"] is None
    assert found["verified"] == pytest.approx(delay_ms, rel=0.05)
    for way in ("sent", "received"):
        assert found[way]["delay_ms"] == pytest.approx(delay_ms, rel=0.05)
        assert found[way]["lost"] == 0
    assert found["rates"] == pytest.approx(rates, rel=0.03)
