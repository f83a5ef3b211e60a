"""Who overtakes whom, and where."""

from __future__ import annotations

from analysis.predict.crossovers import (
    Crossover,
    Stretch,
    crossovers,
    fastest,
    rates_mbit,
    worker_counts,
)

TIE = 0.01


def step_s(name: str, value: float) -> float:
    """`flat` takes 10 whatever happens, `rising` as much as the value, `slow` twice that."""
    return {"flat": 10.0, "rising": value, "slow": 2 * value}[name]


def test_an_overtaking_is_where_the_other_becomes_the_faster_one() -> None:
    found = crossovers("rising", "flat", range(1, 20), step_s, TIE)
    assert found == [Crossover(9, 11, "flat", "rising")]
    assert crossovers("rising", "slow", range(1, 20), step_s, TIE) == []


def test_a_tie_is_no_overtaking() -> None:
    assert crossovers("flat", "flat", range(1, 20), step_s, TIE) == []
    (crossing,) = crossovers("rising", "flat", [9, 10.05, 12], step_s, TIE)
    assert crossing.at == 12


def test_the_fastest_by_stretches_cover_all_values() -> None:
    found = fastest(["rising", "flat", "slow"], [1, 5, 10, 15, 20], step_s, TIE)
    assert found == [
        Stretch(1, 5, ("rising",)),
        Stretch(10, 10, ("rising", "flat")),
        Stretch(15, 20, ("flat",)),
    ]


def test_counts_and_rates_rise_from_the_least_to_the_most() -> None:
    counts, rates = worker_counts(1024), rates_mbit()
    assert (counts[0], counts[-1]) == (2, 1024)
    assert worker_counts(6) == [2, 4, 6]
    assert counts == sorted(set(counts))
    assert (rates[0], rates[3], rates[-1]) == (1, 10, 100_000)
