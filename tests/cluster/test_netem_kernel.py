"""Delay, loss and limits of version 2, on a kernel that has them (tests/user_mode_linux.py).

Only with ./test.sh --soak: a kernel that is a process takes minutes on a busy machine, and has no
better clock than it gets.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.user_mode_linux import NotThere, UserModeLinux, find

pytestmark = [pytest.mark.soak, pytest.mark.timed]
WAYS = ("sent", "received")
LOSS = {"20mbit/0ms/1%": (0.0077, 0.0123)}
"""The interval of 99.9 % for 20,000 datagrams."""


@pytest.fixture(scope="module")
def kernel() -> UserModeLinux:
    try:
        return find()
    except NotThere as reason:
        pytest.skip(str(reason))


def seen(kernel: UserModeLinux, link: str, folder: Path) -> dict[str, Any]:
    (line,) = kernel.run("tests.netem_lab", "links", str(kernel.modules), link, folder=folder)
    found: dict[str, Any] = json.loads(line)[link]
    return found


@pytest.mark.parametrize(
    ("link", "delay_ms", "rates"),
    [
        ("20mbit/10ms", 10, (20e6, 20e6)),
        ("20mbit/80ms", 80, (20e6, 20e6)),
        ("50mbit/20mbit/10ms", 10, (50e6, 20e6)),
        ("path=50mbit/40ms", 40, (50e6, 50e6)),
    ],
)
def test_a_delay_is_there_in_both_directions_and_the_rate_with_it(
    kernel: UserModeLinux, link: str, delay_ms: float, rates: tuple[float, float], tmp_path: Path
) -> None:
    found = seen(kernel, link, tmp_path)
    assert found["complaint"] is None
    assert found["verified"] == pytest.approx(delay_ms, rel=0.05, abs=0.5)
    for way in WAYS:
        assert found[way]["delay_ms"] == pytest.approx(delay_ms, rel=0.05)
        assert found[way]["lost"] == 0
    assert found["rates"] == pytest.approx(rates, rel=0.03)


def test_a_message_is_delayed_by_the_links_of_both_nodes(
    kernel: UserModeLinux, tmp_path: Path
) -> None:
    found = seen(kernel, "both=20mbit/40ms", tmp_path)
    assert found["complaint"] is None
    assert found["verified"] == pytest.approx(40, rel=0.05)
    for way in WAYS:
        assert found[way]["delay_ms"] == pytest.approx(80, rel=0.05)


@pytest.mark.parametrize("link", LOSS)
def test_a_loss_is_there_in_both_directions(
    kernel: UserModeLinux, link: str, tmp_path: Path
) -> None:
    found = seen(kernel, link, tmp_path)
    least, most = LOSS[link]
    for way in WAYS:
        assert least <= found[way]["lost"] <= most


def test_limits_of_version_2_hold(kernel: UserModeLinux, tmp_path: Path) -> None:
    """Half a core, and 64 MiB, beyond which a process is killed and its node named."""
    (line,) = kernel.run("tests.netem_lab", "limits", folder=tmp_path)
    found = json.loads(line)
    assert found["version_2"]
    assert found["cores"] == pytest.approx(0.5, rel=0.05)
    assert not found["survived"]
    assert found["noticed"]
