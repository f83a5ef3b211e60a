"""Predicted bytes against values computed by hand, by brute force, and by conservation."""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.theory import predicted_bytes
from analysis.theory.predicted_bytes import Prediction, lower_bound_s
from analysis.theory.table import main
from cluster.spec.exchange.strategies import STRATEGIES
from cluster.spec.links import Link
from cluster.spec.schedules.consensus import available, choose_schedule, plan
from cluster.spec.schedules.messages import Setting
from cluster.spec.schedules.pairwise import group_of, period


def predict(strategy: str, *, rounds: int = 1, **setting: Any) -> Prediction:
    return predicted_bytes.predict(strategy, Setting(**setting), rounds)


def sent_by_rank(strategy: str, **setting: Any) -> tuple[float, ...]:
    return predict(strategy, **setting).sent_by_rank


@st.composite
def pairwise_settings(draw: st.DrawFn) -> tuple[int, int, str, int, int]:
    workers = draw(st.integers(1, 20))
    passes = draw(st.integers(1, workers + 1))
    schedule = draw(st.sampled_from(available(passes)))
    return workers, passes, schedule, draw(st.integers(0, 99)), draw(st.integers(1, 60))


@pytest.mark.parametrize(
    ("workers", "sent"), [(1, 0), (2, 1000), (4, 1500), (5, 1600), (8, 1750), (1000, 1998)]
)
def test_allreduce_sends_2_n_minus_1_over_n_models(workers: int, sent: float) -> None:
    assert sent_by_rank("allreduce", workers=workers, model_bytes=1000) == (sent,) * workers


@pytest.mark.parametrize(
    ("strategy", "workers", "sent"),
    [
        ("ring", 4, (1500, 1500, 1500, 1500)),
        ("local-sgd", 4, (1500, 1500, 1500, 1500)),
        ("allgather", 4, (3000, 3000, 3000, 3000)),
        ("gather-scatter", 4, (3000, 1000, 1000, 1000)),
        # The tree of six: 0 has 1, 2 and 4 below it, 2 has 3, 4 has 5.
        ("reduce-broadcast", 6, (3000, 1000, 2000, 1000, 2000, 1000)),
        ("reduce-broadcast", 2, (1000, 1000)),
        ("ddp", 4, (1500, 1500, 1500, 1500)),
        ("parameter-server", 3, (1000, 1000, 1000, 3000)),  # the last one is the server
        ("parameter-server", 1, (1000, 1000)),
        ("gather-scatter", 1, (0,)),
        ("allgather", 1, (0,)),
        ("reduce-broadcast", 1, (0,)),
    ],
)
def test_what_each_rank_sends_is_as_computed_by_hand(
    strategy: str, workers: int, sent: tuple[float, ...]
) -> None:
    assert sent_by_rank(strategy, workers=workers, model_bytes=1000) == sent


@pytest.mark.parametrize(
    ("strategy", "mean", "busiest"),
    [
        ("allreduce", lambda n: 2 * (n - 1) / n, lambda n: 2 * (n - 1) / n),
        ("allgather", lambda n: n - 1, lambda n: n - 1),
        ("gather-scatter", lambda n: 2 * (n - 1) / n, lambda n: n - 1),
        ("reduce-broadcast", lambda n: 2 * (n - 1) / n, lambda n: (n - 1).bit_length()),
        ("parameter-server", lambda n: 1, lambda n: n),
    ],
)
def test_mean_and_busiest_node_follow_the_closed_formulas(
    strategy: str, mean: Callable[[int], float], busiest: Callable[[int], float]
) -> None:
    for workers in (2, 3, 4, 7, 8, 33, 1024):
        predicted = predict(strategy, workers=workers, model_bytes=10**6)
        assert predicted.sent_mean == pytest.approx(mean(workers) * 10**6)
        assert predicted.sent_max == pytest.approx(busiest(workers) * 10**6)
        assert predicted.received_max == pytest.approx(busiest(workers) * 10**6)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_worker_that_trains_alone_sends_nothing(workers: int) -> None:
    assert sent_by_rank("single", workers=workers, model_bytes=1000) == (0,) * workers


def test_seven_workers_in_threes_are_as_computed_by_hand() -> None:
    # Round 0: 012 345 6; round 1: 123 456 0. A member of a group of 3 sends 4/3 of 900 = 1200.
    first, both = (
        sent_by_rank(
            "pairwise", workers=7, model_bytes=900, passes=2, schedule="ring", rounds=rounds
        )
        for rounds in (1, 2)
    )
    assert list(first) == [1200, 1200, 1200, 1200, 1200, 1200, 0]
    assert list(both) == [600, 1200, 1200, 1200, 1200, 1200, 600]


def test_the_bound_is_of_the_mean_round_and_not_of_each() -> None:
    """Rounds of 800 and of 600 bytes a worker: the second is shorter than the bound."""
    grid = predict("pairwise", workers=6, model_bytes=600, passes=2, schedule="grid", rounds=2)
    second = Prediction(6, (600.0,) * 6, (600.0,) * 6)
    of_mean, of_second = (lower_bound_s(found, [Link(10**6)] * 6) for found in (grid, second))
    assert of_mean == pytest.approx(of_second * 700 / 600)


def test_six_workers_on_a_grid_of_three_by_two_are_as_computed_by_hand() -> None:
    # Threes for 4/3 of 600 = 800, then twos for 600; three rounds are 800, 600, 800.
    for rounds, sent in ((1, 800), (2, 700), (3, 2200 / 3), (100_000, 700)):
        assert sent_by_rank(
            "pairwise", workers=6, model_bytes=600, passes=2, schedule="grid", rounds=rounds
        ) == pytest.approx((sent,) * 6, rel=1e-15)


@given(pairwise_settings(), st.integers(0, 10**10))
def test_pairwise_is_what_adding_up_every_group_of_every_round_gives(
    setting: tuple[int, int, str, int, int], model_bytes: int
) -> None:
    workers, passes, schedule, seed, rounds = setting
    expected = []
    for rank in range(workers):
        sizes = [len(group_of(rank, t, workers, passes, schedule, seed)) for t in range(rounds)]
        total = sum((Fraction(2 * (size - 1) * model_bytes, size) for size in sizes), Fraction(0))
        expected.append(float(total / rounds))
    assert list(
        sent_by_rank(
            "pairwise",
            workers=workers,
            model_bytes=model_bytes,
            passes=passes,
            schedule=schedule,
            seed=seed,
            rounds=rounds,
        )
    ) == pytest.approx(expected, rel=1e-15)


@given(pairwise_settings(), st.sampled_from(sorted(STRATEGIES)))
def test_what_is_sent_is_received(setting: tuple[int, int, str, int, int], strategy: str) -> None:
    workers, passes, schedule, seed, rounds = setting
    predicted = predict(
        strategy,
        workers=workers,
        model_bytes=87_160,
        passes=passes,
        schedule=schedule,
        seed=seed,
        rounds=rounds,
    )
    assert len(predicted.sent_by_rank) == len(predicted.received_by_rank)
    assert sum(predicted.sent_by_rank) == pytest.approx(sum(predicted.received_by_rank))


@pytest.mark.parametrize("workers", [2, 3, 6, 7, 16])
def test_pairwise_among_everybody_is_allreduce(workers: int) -> None:
    everybody = predict("allreduce", workers=workers, model_bytes=12_345)
    for schedule in ("exponential", "grid", "ring", "random", "auto"):
        assert everybody == predict(
            "pairwise",
            workers=workers,
            model_bytes=12_345,
            passes=workers - 1,
            schedule=schedule,
            rounds=17,
        )


@pytest.mark.parametrize("schedule", ["ring", "random"])
@pytest.mark.parametrize(("workers", "passes"), [(6, 1), (6, 2), (12, 3), (20, 4)])
def test_full_groups_send_2_p_over_p_plus_1_models(
    workers: int, passes: int, schedule: str
) -> None:
    assert (
        sent_by_rank(
            "pairwise",
            workers=workers,
            model_bytes=60_000,
            passes=passes,
            schedule=schedule,
            rounds=100_000,
        )
        == (2 * passes * 60_000 / (passes + 1),) * workers
    )


@pytest.mark.parametrize(
    ("workers", "passes", "schedule"),
    [(5, 1, "exponential"), (7, 1, "ring"), (11, 2, "grid"), (13, 4, "ring"), (23, 3, "grid")],
)
def test_over_whole_periods_every_rank_sends_what_the_planner_says(
    workers: int, passes: int, schedule: str
) -> None:
    repeats = period(workers, passes, schedule)
    assert repeats is not None
    sent_m = plan(workers, passes, schedule, 0).sent_m_per_round
    for periods in (1, 1000):
        assert sent_by_rank(
            "pairwise",
            workers=workers,
            model_bytes=1_000_000,
            passes=passes,
            schedule=schedule,
            rounds=periods * repeats,
        ) == pytest.approx((sent_m * 1_000_000,) * workers)


def test_auto_and_no_schedule_are_what_choose_schedule_takes() -> None:
    # 12 workers in pairs: exponential is 0.647 per M, random 0.65 give or take its seed.
    taken = [choose_schedule(12, 1, seed).schedule for seed in range(8)]
    assert set(taken) == {"exponential", "random"}
    for seed, chosen in enumerate(taken):
        found = [
            sent_by_rank(
                "pairwise",
                workers=12,
                model_bytes=900,
                passes=1,
                schedule=schedule,
                seed=seed,
                rounds=10,
            )
            for schedule in (None, "auto", chosen)
        ]
        assert found[0] == found[1] == found[2]


def test_mean_and_busiest_are_taken_over_ranks() -> None:
    predicted = Prediction(3, (0.0, 30.0, 60.0), (80.0, 10.0, 0.0))
    assert (predicted.sent_mean, predicted.sent_max) == (30, 60)
    assert (predicted.received_mean, predicted.received_max) == (30, 80)


def test_an_unknown_strategy_is_told_what_exists() -> None:
    with pytest.raises(ValueError, match=r"'gossip'.*single, allreduce, .*pairwise"):
        sent_by_rank("gossip", workers=2, model_bytes=1)


def test_pairwise_without_passes_is_refused() -> None:
    with pytest.raises(ValueError, match="passes"):
        sent_by_rank("pairwise", workers=2, model_bytes=1)


@pytest.mark.parametrize(
    ("workers", "model_bytes", "rounds", "named"),
    [(0, 1, 1, "workers"), (1, -1, 1, "model_bytes"), (1, 1, 0, "rounds")],
)
def test_a_number_out_of_range_is_named(
    workers: int, model_bytes: int, rounds: int, named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        sent_by_rank("allreduce", workers=workers, model_bytes=model_bytes, rounds=rounds)


# ------------------------------------------------------------------------------------ command line


def rows(printed: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip()) for line in printed.splitlines()[3:]]


def test_the_command_line_has_a_row_for_each_strategy_and_all_passes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--workers", "6", "--model-bytes", "87M"]) == 0
    table = rows(capsys.readouterr().out)
    assert table[0] == ["single", "0 B", "0 B", "0 B", "0 B", "0.0000"]
    assert table[1] == ["allreduce", "145.0 MB", "20.16 kB", "145.0 MB", "145.0 MB", "1.6667"]
    assert [row[0] for row in table if row[0] != "pairwise"] == [
        name for name, f in STRATEGIES.items() if name != "pairwise" and not f.needs_sites
    ]
    pairwise = [row for row in table if row[0] == "pairwise"]
    assert [row[1] for row in pairwise] == ["1", "2", "3", "4", "5"]
    assert pairwise[1] == [
        "pairwise",
        "2",
        "ring",
        "116.0 MB",
        "576 B",
        "116.0 MB",
        "116.0 MB",
        "1.3333",
    ]
    assert pairwise[4][-3:] == table[1][-3:]


def test_the_command_line_shows_the_busiest_node_of_the_rounds_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    size = ["--workers", "5", "--model-bytes", "10k"]
    main([*size, "--passes", "1", "--schedule", "ring", "--rounds", "2"])
    # Pairs send 10 kB. Rounds leave rank 4, then rank 0 alone: 10, 10, 10 and twice 5.
    (row,) = (row for row in rows(capsys.readouterr().out) if row[0] == "pairwise")
    assert row == ["pairwise", "1", "ring", "8.000 kB", "115 B", "8.000 kB", "10.00 kB", "0.8000"]


def test_buffers_are_broadcast_down_a_tree_averaged_with_the_rest_or_stay() -> None:
    common: dict[str, Any] = {"workers": 4, "model_bytes": 1000, "buffer_bytes": 100}
    assert sent_by_rank("allreduce", buffers="local", **common) == (1500,) * 4
    assert sent_by_rank("allreduce", buffers="average", **common) == (1650,) * 4
    broadcast = predict("allreduce", buffers="broadcast", **common)
    # The tree of four: 0 has 1 and 2 below it, 2 has 3.
    assert list(broadcast.sent_by_rank) == [1700, 1500, 1600, 1500]
    assert list(broadcast.received_by_rank) == [1500, 1600, 1600, 1600]
    server = predict("parameter-server", buffers="broadcast", **common)
    assert list(server.sent_by_rank) == [1200, 1000, 1100, 1000, 4000]


def test_a_round_takes_what_its_busiest_link_takes() -> None:
    """1,448 bytes of payload travel as 1,514: 12,112 bits, which 12.112 Mbit/s carry in 1 ms."""
    star = predict("gather-scatter", workers=4, model_bytes=1448)
    rate = Link(12_112_000)
    assert lower_bound_s(star, [rate] * 4) == pytest.approx(0.003)  # the root's three
    assert lower_bound_s(star, [None, rate, rate, rate]) == pytest.approx(0.001)
    assert lower_bound_s(star, [Link(121_120_000), rate, None, None]) == pytest.approx(0.001)
    assert lower_bound_s(star, [None] * 4) == 0
    # Receiving counts as sending does.
    assert lower_bound_s(Prediction(2, (0.0, 0.0), (1448.0, 0.0)), [rate] * 2) == pytest.approx(
        0.001
    )
    # A link with two rates: what the root receives is as much as it sends.
    assert lower_bound_s(star, [Link(24_224_000, received_bit=12_112_000)] * 4) == pytest.approx(
        0.003
    )


def test_the_command_line_knows_links_compression_and_buffers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--workers", "4", "--model-bytes", "4M", "--link", "100mbit", "--bottleneck", "4:10mbit"])
    table = {row[0]: row for row in rows(capsys.readouterr().out)}
    assert table["allreduce"][-1] == "502 ms"
    assert table["parameter-server"][-1] == "13.4 s"  # node 4 is the server
    main(["--workers", "4", "--model-bytes", "4M", "--compress", "fp16", "--buffer-bytes", "1M"])
    table = {row[0]: row for row in rows(capsys.readouterr().out)}
    assert table["allreduce"][1:5] == ["3.750 MB", "1.836 kB", "3.750 MB", "5.000 MB"]


@pytest.mark.parametrize(
    ("text", "count"), [("7", 7), ("87k", 87_000), ("4.5M", 4_500_000), ("1G", 10**9)]
)
def test_suffixes_are_powers_of_1000(
    text: str, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--workers", "2", "--model-bytes", text])
    assert f"M = {count:,} bytes" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        "--workers 6 --model-bytes 87Q",
        "--workers 6 --model-bytes 0",
        "--workers 6 --model-bytes 0.5",
        "--workers 6 --model-bytes nan",
        "--workers 0 --model-bytes 1k",
        "--workers 6 --model-bytes 1k --rounds 0",
        "--workers 6 --model-bytes 1k --passes 1,0",
        "--workers 6 --model-bytes 1k --schedule hexagon",
        "--workers 6 --model-bytes 1k --link 100mbps",
        "--workers 6 --model-bytes 1k --link fast",
        "--workers 6 --model-bytes 1k --bottleneck 7:10mbit",
        "--workers 6 --model-bytes 1k --bottleneck 10mbit",
        "--workers 6 --model-bytes 1k --compress zip",
        "--workers 6 --model-bytes 1k --schedule exponential --passes 2",
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
