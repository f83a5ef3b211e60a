"""What is recorded and printed of links."""

import pytest

from cluster.links.findings import burst_warning, verdict, with_statistics
from cluster.links.rate_probe import ProbeTarget
from cluster.links.setup import ATTEMPTS, complain, measure_well, parse_statistics
from cluster.spec.documents.links import COUNTS, LinkStatistics, MeasuredLink
from cluster.spec.links import parse_link


def found(
    node: str = "node2",
    error: float = 0.001,
    delay_ms: float | None = None,
    burst_bytes: int = 28_028,
) -> MeasuredLink:
    return MeasuredLink(
        node=node,
        target="20mbit",
        target_mbit=20.0,
        sent_mbit=20 * (1 + error),
        received_mbit=20.0,
        error=error,
        delay_ms=delay_ms,
        burst_bytes=burst_bytes,
    )


def counted(count: int) -> list[LinkStatistics]:
    return [
        LinkStatistics(
            node="node2",
            sent_drops=count,
            sent_overlimits=count,
            received_drops=count,
            received_overlimits=count,
        )
    ]


def test_drops_of_a_run_are_between_its_own_two_readings() -> None:
    """Verifying, and earlier runs on the same cluster, dropped some too."""
    (link,) = with_statistics([found()], counted(100), counted(130))
    assert [getattr(link, name) for name in COUNTS] == [30] * 4
    assert link.error == 0.001


def test_statistics_that_were_not_read_are_null() -> None:
    before = counted(100)
    for readings in (((), ()), (before, ()), ((), before)):
        (link,) = with_statistics([found()], *readings)
        assert [getattr(link, name) for name in COUNTS] == [None] * 4


def test_statistics_are_those_of_the_two_buckets() -> None:
    text = """[{"kind": "noqueue", "dev": "lo", "root": true, "drops": 9, "overlimits": 9},
        {"kind": "tbf", "dev": "eth0", "root": true, "drops": 1, "overlimits": 2},
        {"kind": "ingress", "dev": "eth0", "drops": 9, "overlimits": 9},
        {"kind": "tbf", "dev": "gw-ingress", "root": true, "drops": 3, "overlimits": 4}]"""
    found = parse_statistics(text, "node2")
    assert [getattr(found, name) for name in COUNTS] == [1, 2, 3, 4]
    assert parse_statistics("[]", "node2") == LinkStatistics(node="node2")


@pytest.mark.parametrize(
    ("model_bytes", "warns"), [(87_360, True), (280_279, True), (281_000, False)]
)
def test_a_burst_of_more_than_a_tenth_of_a_message_is_warned_of(
    model_bytes: int, warns: bool
) -> None:
    warning = burst_warning([found(), found("node1", burst_bytes=3000)], model_bytes)
    assert (warning is not None) == warns
    if warning:
        assert "node2 (20mbit) lets 28.0 kB through at once" in warning


def test_without_links_or_a_message_there_is_no_warning() -> None:
    assert burst_warning([], 87_360) is None
    assert burst_warning([found()], 0) is None


def test_the_verdict_names_the_link_with_the_largest_error() -> None:
    assert verdict([found()]).startswith("link of node2: 20mbit measures 20.02 Mbit/s sent")
    several = verdict([found("node0"), found("node1", -0.008), found("node2", 0.002)])
    assert several.startswith("3 links verified; the furthest off is node1")
    assert "(-0.80 %)" in several


@pytest.mark.parametrize(
    ("error", "fine"), [(0.029, True), (-0.03, True), (0.031, False), (-0.5, False)]
)
def test_more_than_three_percent_off_is_a_complaint(error: float, fine: bool) -> None:
    complaint = complain(parse_link("20mbit"), found(error=error))
    assert (complaint is None) == fine
    assert fine or "instead of 20" in str(complaint)


def test_a_rate_that_is_no_number_is_a_complaint() -> None:
    assert complain(parse_link("20mbit"), found(error=float("nan"))) is not None


@pytest.mark.parametrize(
    ("delay_ms", "fine"), [(10.4, True), (9.6, True), (10.6, False), (0.1, False)]
)
def test_a_delay_may_be_five_percent_off(delay_ms: float, fine: bool) -> None:
    complaint = complain(parse_link("20mbit/10ms"), found(delay_ms=delay_ms))
    assert (complaint is None) == fine


# --- measuring again -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("readings", "kept", "attempts"),
    [
        ([20.1, 99], 20.1, 1),
        ([17, 19.9, 99], 19.9, 2),
        ([17, 19.5, 18, 15, 99], 19.5, ATTEMPTS),
        ([40, 41, 39, 40, 99], 39, ATTEMPTS),
    ],
)
def test_a_measurement_off_the_target_is_repeated_and_longer(
    readings: list[float], kept: float, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.links.setup.PAUSE_S", 0)
    results, lengths = iter(readings), []

    def measure(target: ProbeTarget) -> float:
        lengths.append(target.longer)
        return next(results) * 1e6

    target = ProbeTarget(rate_bit=20_000_000, burst_bytes=28_000, queue_bytes=200_000)
    assert measure_well(measure, target) == (kept * 1e6, attempts)
    assert lengths == list(range(1, attempts + 1))
