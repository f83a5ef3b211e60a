"""Laws of schedules: each worker in exactly one group, members agree, consensus is reached."""

import itertools
import random
import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.spec.schedules.consensus import available, choose_schedule, plan
from cluster.spec.schedules.pairwise import (
    SCHEDULES,
    Partition,
    cycle_length,
    group_of,
    groups,
    period,
)
from workloads.groups import main

SMALL = [(workers, schedule) for workers in range(2, 18) for schedule in SCHEDULES]


def all_passes(workers: int, schedule: str) -> list[int]:
    return [p for p in range(1, workers) if schedule in available(p)]


@st.composite
def settings_of_a_round(draw: st.DrawFn) -> tuple[int, int, int, str, int]:
    workers = draw(st.integers(1, 80))
    passes = draw(st.integers(1, workers + 2))
    schedule = draw(st.sampled_from(available(passes)))
    return draw(st.integers(0, 10**6)), workers, passes, schedule, draw(st.integers(0, 2**32))


def average(values: list[Fraction], partition: Partition) -> list[Fraction]:
    after = list(values)
    for members in partition:
        mean = sum((values[m] for m in members), Fraction(0)) / len(members)
        for m in members:
            after[m] = mean
    return after


def product(rounds: list[Partition], workers: int) -> list[list[Fraction]]:
    """W_t ... W_1, column by column: what becomes of each unit vector."""
    columns = []
    for rank in range(workers):
        values = [Fraction(int(other == rank)) for other in range(workers)]
        for partition in rounds:
            values = average(values, partition)
        columns.append(values)
    return columns


def is_consensus(rounds: list[Partition], workers: int) -> bool:
    mean = Fraction(1, workers)
    return all(entry == mean for column in product(rounds, workers) for entry in column)


def sweep(
    workers: int, passes: int, schedule: str, rounds: range, seed: int = 0
) -> list[Partition]:
    return [groups(t, workers, passes, schedule, seed) for t in rounds]


def whole_period(workers: int, passes: int, schedule: str) -> range:
    return range(period(workers, passes, schedule) or 40)


def primes_of(number: int) -> set[int]:
    return {p for p in range(2, number + 1) if number % p == 0 and all(p % q for q in range(2, p))}


# ------------------------------------------------------------------------------------ every round


@given(settings_of_a_round())
def test_every_worker_is_in_exactly_one_group(setting: tuple[int, int, int, str, int]) -> None:
    assert sorted(itertools.chain(*groups(*setting))) == list(range(setting[1]))


@given(settings_of_a_round())
def test_a_group_has_at_most_one_member_more_than_passes(
    setting: tuple[int, int, int, str, int],
) -> None:
    sizes = [len(members) for members in groups(*setting)]
    assert min(sizes) >= 1
    assert max(sizes) <= setting[2] + 1


@given(settings_of_a_round())
def test_every_member_sees_the_same_group_in_the_same_order(
    setting: tuple[int, int, int, str, int],
) -> None:
    for rank in range(setting[1]):
        mine = group_of(rank, *setting)
        assert rank in mine
        assert all(group_of(other, *setting) == mine for other in mine)


@given(settings_of_a_round(), st.randoms(use_true_random=False))
def test_averaging_by_groups_keeps_the_global_mean(
    setting: tuple[int, int, int, str, int], source: random.Random
) -> None:
    values = [Fraction(source.randint(-(10**6), 10**6)) for _ in range(setting[1])]
    assert sum(average(values, groups(*setting))) == sum(values)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("workers", [1, 2, 3, 6, 17])
def test_passes_that_reach_everybody_make_one_group_whatever_the_schedule(
    workers: int, schedule: str
) -> None:
    for passes in (max(workers - 1, 1), workers, 10 * workers):
        for t in (0, 1, 7):
            assert groups(t, workers, passes, schedule, t) == (tuple(range(workers)),)


@pytest.mark.parametrize(("workers", "schedule"), SMALL)
def test_groups_repeat_after_their_period(workers: int, schedule: str) -> None:
    for passes in all_passes(workers, schedule):
        repeats = period(workers, passes, schedule)
        if repeats is None:
            assert schedule == "random"
            continue
        once = sweep(workers, passes, schedule, range(repeats))
        assert sweep(workers, passes, schedule, range(repeats, 2 * repeats)) == once
        assert sweep(workers, passes, schedule, range(7 * repeats, 8 * repeats), seed=5) == once
        if schedule == "ring":
            assert len(set(once)) == repeats, "the ring repeats earlier"


# -------------------------------------------------------------------------------- over the rounds


@pytest.mark.parametrize(("workers", "schedule"), SMALL)
def test_what_one_worker_learned_reaches_all(workers: int, schedule: str) -> None:
    for passes in all_passes(workers, schedule):
        knows = [{rank} for rank in range(workers)]
        for t in range(10 * workers):
            for members in groups(t, workers, passes, schedule, 0):
                together = set().union(*(knows[m] for m in members))
                for m in members:
                    knows[m] = together
        assert min(map(len, knows)) == workers, f"passes {passes}"


@pytest.mark.parametrize(("workers", "schedule"), SMALL)
def test_nobody_is_alone_forever(workers: int, schedule: str) -> None:
    for passes in all_passes(workers, schedule):
        rounds = sweep(workers, passes, schedule, whole_period(workers, passes, schedule))
        pairs_and_more = [members for cut in rounds for members in cut if len(members) > 1]
        assert set().union(*pairs_and_more) == set(range(workers)), f"passes {passes}"


@pytest.mark.parametrize(("workers", "schedule"), [case for case in SMALL if case[1] != "random"])
def test_over_a_period_everyone_is_alone_equally_often(workers: int, schedule: str) -> None:
    for passes in all_passes(workers, schedule):
        rounds = sweep(workers, passes, schedule, whole_period(workers, passes, schedule))
        alone = [members[0] for cut in rounds for members in cut if len(members) == 1]
        assert len({alone.count(rank) for rank in range(workers)}) == 1, f"passes {passes}"


# --------------------------------------------------------------------------------------- exactness


@pytest.mark.parametrize("workers", [2, 4, 8, 16, 32])
def test_exponential_pairs_of_a_power_of_two_are_exact_after_log2_rounds(workers: int) -> None:
    needed = workers.bit_length() - 1
    for start in (0, 1, needed, 3 * needed + 2):
        rounds = sweep(workers, 1, "exponential", range(start, start + needed))
        assert is_consensus(rounds, workers)
        assert not is_consensus(rounds[1:], workers)
    assert plan(workers, 1, "exponential", 0).rounds_to_exact == needed


def test_exponential_partners_are_at_distance_1_2_4() -> None:
    for t in range(9):
        distance = 2 ** (t % 3)
        assert all(b - a == distance for a, b in groups(t, 8, 1, "exponential", 0))


@pytest.mark.parametrize("workers", range(2, 25))
def test_a_grid_is_exact_after_any_cycle_when_the_workers_factor(workers: int) -> None:
    for passes in range(max(primes_of(workers)) - 1, workers):
        cycle = cycle_length(workers, passes, "grid")
        for start in (0, 5 * cycle - 1):
            rounds = sweep(workers, passes, "grid", range(start, start + cycle))
            assert is_consensus(rounds, workers), f"passes {passes}"
        assert plan(workers, passes, "grid", 0).rounds_to_exact == cycle


def test_six_workers_and_two_passes_are_groups_of_three_then_of_two() -> None:
    assert groups(0, 6, 2, "grid", 0) == ((0, 1, 2), (3, 4, 5))
    assert groups(1, 6, 2, "grid", 0) == ((0, 3), (1, 4), (2, 5))
    assert groups(2, 6, 2, "grid", 0) == groups(0, 6, 2, "grid", 0)
    found = plan(6, 2, "grid", 0)
    assert found.rounds_to_exact == 2
    assert found.sent_m_to_exact == pytest.approx(4 / 3 + 1)


@pytest.mark.parametrize(
    ("workers", "passes", "sizes"),
    [(12, 3, [4, 3]), (24, 5, [6, 4]), (36, 11, [12, 3]), (60, 9, [10, 6]), (64, 3, [4, 4, 4])],
)
def test_a_grid_takes_the_fewest_dimensions_and_then_the_fewest_bytes(
    workers: int, passes: int, sizes: list[int]
) -> None:
    found = plan(workers, passes, "grid", 0)
    assert [len(partition[0]) for partition in found.cycle] == sizes


@pytest.mark.parametrize(("workers", "schedule"), SMALL)
def test_no_schedule_is_exact_when_a_prime_factor_is_larger_than_a_group(
    workers: int, schedule: str
) -> None:
    for passes in all_passes(workers, schedule):
        exact = plan(workers, passes, schedule, 0).rounds_to_exact
        if max(primes_of(workers)) > passes + 1:
            assert exact is None, f"passes {passes}"
        elif schedule == "grid":
            assert exact is not None, f"passes {passes}"


# ------------------------------------------------------------------------------------- the planner


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("workers", [2, 4, 6, 7, 9])
def test_a_plan_agrees_with_the_product_of_matrices_in_exact_fractions(
    workers: int, schedule: str
) -> None:
    for passes in all_passes(workers, schedule):
        found = plan(workers, passes, schedule, 3, horizon=6)
        exact = found.rounds_to_exact
        for t in range(6):
            columns = product(sweep(workers, passes, schedule, range(t + 1), seed=3), workers)
            mean = Fraction(1, workers)
            square = sum((entry - mean) ** 2 for column in columns for entry in column)
            assert found.residuals[t] ** 2 == pytest.approx(
                float(square / (workers - 1)), abs=1e-15
            )
            assert (square == 0) == (exact is not None and t + 1 >= exact)


@given(settings_of_a_round())
def test_a_residual_never_grows_and_never_passes_one(
    setting: tuple[int, int, int, str, int],
) -> None:
    _, workers, passes, schedule, seed = setting
    left = (1.0, *plan(workers, passes, schedule, seed, horizon=6).residuals)
    assert all(after <= before + 1e-12 for before, after in itertools.pairwise(left))


def test_residuals_of_four_workers_in_pairs_are_as_computed_by_hand() -> None:
    # After pairs, A has blocks of 1/2: |A - J|^2 = 8/16 + 8/16 = 1, of |I - J|^2 = 3.
    first, second, *_ = plan(4, 1, "ring", 0).residuals
    assert first == pytest.approx((1 / 3) ** 0.5)
    assert second == 0


def test_bytes_of_a_round_are_counted_by_group() -> None:
    # 7 workers in groups of 3, 3 and 1: six send 4/3 M and one nothing.
    assert plan(7, 2, "ring", 0).sent_m_by_round[0] == pytest.approx(6 * (4 / 3) / 7)
    assert plan(7, 2, "ring", 0).sent_m_per_round == pytest.approx(6 * (4 / 3) / 7)
    # 6 workers: groups of 3 for 4/3 M, then of 2 for 1 M.
    assert plan(6, 2, "grid", 0).sent_m_by_round[:3] == pytest.approx((4 / 3, 1, 4 / 3))


def test_one_worker_agrees_with_itself_before_the_first_round() -> None:
    alone = plan(1, 1, "grid", 0)
    assert (alone.rounds_to_exact, alone.sent_m_to_exact, alone.residuals[0]) == (0, 0, 0)


@pytest.mark.parametrize("workers", range(2, 18))
def test_auto_takes_the_best_of_what_the_plans_say(workers: int) -> None:
    for passes in range(1, workers):
        plans = {name: plan(workers, passes, name, 7) for name in available(passes)}
        choice = choose_schedule(workers, passes, 7)
        taken = plans[choice.schedule]
        exact = [
            found.sent_m_to_exact for found in plans.values() if found.sent_m_to_exact is not None
        ]
        if exact:
            assert taken.sent_m_to_exact == pytest.approx(min(exact))
            assert f"{min(exact):.3g} M" in choice.why
        else:
            best = min(found.shrink_per_m for found in plans.values())
            assert taken.shrink_per_m == pytest.approx(best, abs=1e-8)
            assert f"{best:.3f}" in choice.why


@pytest.mark.parametrize(
    ("workers", "passes", "schedule"),
    [(8, 1, "exponential"), (6, 2, "grid"), (12, 3, "grid"), (5, 1, "ring"), (9, 1, "random")],
)
def test_auto_is_what_it_was_when_the_schedules_were_compared(
    workers: int, passes: int, schedule: str
) -> None:
    assert choose_schedule(workers, passes, 0).schedule == schedule


def test_shrink_per_m_is_the_root_of_the_residual_by_the_bytes() -> None:
    found = plan(64, 2, "ring", 0, horizon=10)
    assert found.shrink_per_m ** sum(found.sent_m_by_round) == pytest.approx(found.residuals[-1])


def test_shrink_per_m_does_not_look_at_rounding_errors() -> None:
    # P = N-2 leaves one alone. Round 1: |A - J|^2 = 39 (1/39) + 1 - 1 = 1 of |I - J|^2 = 39; every
    # further round divides the distance by 39. Round 6 is the last above 1e-9; 32 are far below
    # what floats can tell from 0.
    found = plan(40, 38, "ring", 0)
    assert found.rounds_to_exact is None
    assert found.shrink_per_m ** (6 * found.sent_m_per_round) == pytest.approx(39**-5.5, rel=1e-6)


# ---------------------------------------------------------------------------- ring, random, repeats


def test_a_ring_moves_on_by_one_place_each_round() -> None:
    assert groups(0, 7, 2, "ring", 0) == ((0, 1, 2), (3, 4, 5), (6,))
    assert groups(1, 7, 2, "ring", 0) == ((0,), (1, 2, 3), (4, 5, 6))
    assert groups(2, 7, 2, "ring", 0) == ((0, 5, 6), (1,), (2, 3, 4))


def test_random_groups_differ_by_round_and_by_seed() -> None:
    by_round = {groups(t, 16, 1, "random", 0) for t in range(50)}
    by_seed = {groups(0, 16, 1, "random", seed) for seed in range(50)}
    assert len(by_round) == len(by_seed) == 50
    assert groups(1, 16, 1, "random", 11) != groups(11, 16, 1, "random", 1)


def test_random_groups_are_the_same_in_every_process() -> None:
    program = (
        "from cluster.spec.schedules.pairwise import groups; print(groups(3, 9, 2, 'random', 4))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert printed == {str(groups(3, 9, 2, "random", 4))}


def test_random_pairs_treat_every_pair_alike() -> None:
    met = [pair for t in range(3000) for pair in groups(t, 6, 1, "random", 0)]
    shares = [met.count(pair) / 3000 for pair in itertools.combinations(range(6), 2)]
    assert all(share == pytest.approx(1 / 5, abs=0.04) for share in shares)


# --------------------------------------------------------------------------------- what is refused


def test_exponential_with_larger_groups_is_refused_and_grid_is_offered() -> None:
    with pytest.raises(ValueError, match=r"passes 1, not 3.*'grid'"):
        groups(0, 8, 3, "exponential", 0)
    assert "exponential" in available(1)
    assert "exponential" not in available(3)
    assert {"grid", "ring", "random"} <= set(available(3))


def test_an_unknown_schedule_is_told_what_exists() -> None:
    with pytest.raises(ValueError, match=rf"'hexagon'.*{', '.join(SCHEDULES)}"):
        groups(0, 8, 1, "hexagon", 0)


def test_auto_must_be_resolved_beforehand() -> None:
    for passes in (1, 7):
        with pytest.raises(ValueError, match="choose_schedule"):
            groups(0, 8, passes, "auto", 0)


@pytest.mark.parametrize(
    ("round_index", "workers", "passes", "named"),
    [(0, 0, 1, "workers"), (0, 6, 0, "passes"), (0, 6, -1, "passes"), (-1, 6, 1, "round")],
)
def test_a_number_out_of_range_is_named(
    round_index: int, workers: int, passes: int, named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        groups(round_index, workers, passes, "ring", 0)


@pytest.mark.parametrize("rank", [-1, 6])
def test_a_rank_that_does_not_exist_is_refused(rank: int) -> None:
    with pytest.raises(ValueError, match="rank must be 0 to 5"):
        group_of(rank, 0, 6, 1, "ring", 0)


@pytest.mark.parametrize(("workers", "passes"), [(0, 1), (6, 0)])
def test_choosing_for_nobody_or_without_passes_is_refused(workers: int, passes: int) -> None:
    with pytest.raises(ValueError, match="must be 1 or more"):
        choose_schedule(workers, passes, 0)


def test_a_plan_without_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="horizon"):
        plan(6, 1, "ring", 0, horizon=0)


# ------------------------------------------------------------------------------------ command line


def test_the_command_line_shows_groups_bytes_and_the_choice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--workers", "6", "--passes", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  round 0   0 1 2 | 3 4 5" in lines
    assert "  round 1   0 3 | 1 4 | 2 5" in lines
    assert ["grid", "2", "rounds", "0", "1.167", "2.333"] in [line.split() for line in lines]
    assert ["exponential", "only", "for", "passes", "1"] in [line.split() for line in lines]
    assert any(line.startswith("auto takes grid: ") for line in lines)


@pytest.mark.parametrize("rounds", [1, 2, 40])
def test_the_command_line_shows_as_many_rounds_as_asked(
    rounds: int, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--workers", "5", "--passes", "2", "--rounds", str(rounds)])
    printed = capsys.readouterr().out
    assert printed.count("  round ") == rounds * len(available(2))
    assert f"residual after {rounds} " in printed
    row = next(line.split() for line in printed.splitlines() if line.startswith("random "))
    left = plan(5, 2, "random", 0, horizon=40).residuals[rounds - 1]
    assert row[2] == ("<1e-12" if left < 1e-12 else f"{left:.3g}")


@pytest.mark.parametrize("passes", ["1", "40", "127"])
def test_the_command_line_stays_readable_for_many_workers(
    passes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--workers", "128", "--passes", passes])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert len(lines) <= 50
    assert any("..." in line for line in lines)


@pytest.mark.parametrize(
    "arguments",
    [
        "--workers 0 --passes 1",
        "--workers 5000 --passes 1",
        "--workers six --passes 1",
        "--workers 6 --passes 0",
        "--workers 6",
        "--workers 6 --passes 1 --rounds 0",
    ],
)
def test_a_mistake_on_the_command_line_is_one_line_and_exit_code_2(
    arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments.split())
    assert stopped.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
