"""Every preset is a valid set of runs, and flags beside it go for all of them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from analysis.summary.step_times import WARM_UP, steps_of_a_period
from cluster import PROJECT, presets
from cluster.flags import make_parser
from cluster.links import findings as link_report
from cluster.links.burst_size import burst_bytes
from cluster.plan import make_experiments
from cluster.spec import synthetic
from cluster.spec.documents.session_plan import SessionPlan
from cluster.spec.documents.summary import OUT_OF_MEMORY, Summary
from cluster.spec.errors import SpecError
from cluster.spec.exchange.algorithms import ALGORITHMS
from cluster.spec.experiment import Experiment
from cluster.spec.launchers import LAUNCHERS
from cluster.sweep.key_lines import key_lines


def experiments(flags: str) -> list[Experiment]:
    return make_experiments(make_parser().parse_args(flags.split()))


@pytest.mark.parametrize("name", presets.names())
def test_a_preset_is_a_set_of_valid_runs_with_a_title(name: str) -> None:
    assert len(experiments(f"--preset {name}")) > 1
    assert presets.title(name)


@pytest.mark.parametrize("name", presets.names())
def test_every_preset_has_a_quick_variant_that_trains_less(name: str) -> None:
    whole, quick = experiments(f"--preset {name}"), experiments(f"--preset {name} --quick")
    work = [sum(e.train_size * e.epochs for e in runs) for runs in (whole, quick)]
    assert work[1] <= work[0] / 3
    assert {e.strategy for e in quick} == {e.strategy for e in whole}


def test_vgg_parts_has_256_images_a_step_whatever_the_workers() -> None:
    found = experiments("--preset vgg-parts --repeat 1")
    assert [(e.strategy, e.workers, e.batch_size) for e in found] == [
        *(("single", 1, 256), ("gather-scatter", 4, 64), ("allreduce", 4, 64), ("ddp", 4, 64)),
        *(("ddp", 1, 256), ("ddp", 2, 128), ("ddp", 3, 85)),
    ]
    assert {(e.model, e.lr, e.momentum, e.weight_decay) for e in found} == {
        ("vgg11", 0.1, 0.9, 1e-4)
    }
    assert {e.steps_per_epoch for e in found} == {40}


@pytest.mark.parametrize("quick", ["", " --quick"])
def test_vgg_parts_has_equal_nodes_and_three_runs_each(quick: str) -> None:
    found = experiments(f"--preset vgg-parts{quick}")
    assert {e.cpus for e in found} == {0.5}
    assert {e.link for e in found if e.strategy != "single"} == {"1gbit"}
    counts = Counter((e.strategy, e.workers) for e in found)
    assert set(counts.values()) == {3}
    assert len(counts) == 7


def test_lab_batch_size_has_runs_for_all_seven_questions() -> None:
    for quick in ("", " --quick"):
        found = experiments(f"--preset lab-batch-size{quick}")
        alone = [e.batch_size for e in found if e.strategy == "single" and e.epochs == 2]
        assert all(large == 4 * small for small, large in pairwise(alone))
        assert {e.shuffle for e in found if e.strategy == "ddp"} == {"epoch", "fixed"}
        skewed = [e for e in found if e.partition != "iid"]
        assert {e.buffers for e in skewed} == {"broadcast", "average", "local"}


def test_collectives_has_sum_and_mean_and_bottleneck_nodes() -> None:
    found = experiments("--preset collectives --quick")
    two = [(e.strategy, e.reduce, e.average) for e in found if e.workers == 2]
    assert two == [
        ("allreduce", "mean", "gradients"),
        ("allgather", "mean", "gradients"),
        ("allreduce", "sum", "gradients"),
        ("allreduce", "mean", "parameters"),
    ]
    slow = [(e.bottleneck, e.straggler) for e in found if e.workers == 4]
    assert Counter(slow) == {(None, None): 2, ("1:5mbit", None): 2, (None, "1:0.05"): 2}


def test_language_model_has_one_worker_with_the_batch_of_all_four() -> None:
    found = experiments("--preset language-model --quick")
    assert [(e.strategy, e.workers, e.batch_size) for e in found] == [
        *(("single", 1, 64), ("gather-scatter", 4, 16), ("allreduce", 4, 16), ("ddp", 4, 16)),
    ]
    assert {e.epochs for e in found} == {3}


@pytest.mark.parametrize("quick", ["", " --quick"])
@pytest.mark.parametrize(
    ("name", "rules"),
    [
        *((name, {"none"}) for name in ("vgg-parts", "collectives", "language-model")),
        ("pairwise-averaging", {"none"}),
        ("lab-batch-size", {"none", "linear"}),
    ],
)
def test_a_published_preset_keeps_its_rate_whatever_the_workers(
    name: str, rules: set[str], quick: str
) -> None:
    assert {e.lr_rule for e in experiments(f"--preset {name}{quick}")} == rules


def test_frugal_compares_pairs_that_rarely_meet_with_an_all_reduce() -> None:
    found = [(e.strategy, e.passes, e.local_steps, e.seed) for e in experiments("--preset frugal")]
    assert found == [("allreduce", None, 1, seed) for seed in (1, 2, 3)] + [
        ("pairwise", 1, 8, seed) for seed in (1, 2, 3)
    ]


def test_bottleneck_has_every_strategy_in_every_case() -> None:
    found = experiments("--preset bottleneck")
    strategies = [
        *(("allreduce", None), ("allgather", None), ("gather-scatter", None)),
        *(("reduce-broadcast", None), ("pairwise", 1), ("pairwise", 2)),
    ]
    links = [None, "3:20mbit", "0:20mbit", "3:20mbit,5:20mbit"]
    assert [(e.strategy, e.passes, e.link, e.bottleneck, e.straggler) for e in found] == [
        *((s, p, "100mbit", slow, None) for slow in links for s, p in strategies),
        *((s, p, None, None, cores) for cores in (None, "3:0.05") for s, p in strategies),
    ]
    assert {e.workers for e in found} == {6}
    assert {e.model for e in found if e.link is None} == {"mnist-cnn"}


def test_the_links_of_bottleneck_are_no_faster_for_a_small_message() -> None:
    """On a kernel with 250 ticks a second, too, no burst is a tenth of the model."""
    for experiment in experiments("--preset bottleneck"):
        if experiment.link is not None:
            size = synthetic.parse(experiment.model).size_bytes
            bursts = [burst_bytes(link.rate_bit, 0.004) for link in experiment.links.values()]
            assert max(bursts) < link_report.LARGE_BURST * size


def test_bottleneck_makes_whole_turns_of_its_schedules_after_the_first_step() -> None:
    for experiment in experiments("--preset bottleneck"):
        steps = experiment.steps_per_epoch - WARM_UP
        assert steps % steps_of_a_period(experiment) == 0


def test_flags_beside_a_preset_go_for_all_of_its_runs() -> None:
    found = experiments("--preset frugal --epochs 2 --workers 4 --repeat 1")
    assert [(e.workers, e.epochs, e.seed) for e in found] == [(4, 2, 1), (4, 2, 1)]


def test_an_unknown_preset_is_told_what_exists() -> None:
    with pytest.raises(SpecError, match=r"unknown preset 'free'; there is: .*frugal"):
        experiments("--preset free")


def test_an_option_that_does_not_exist_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd.toml").write_text(
        'title = "odd"\n[[runs]]\nworkers = [2, 3]\ncolour = "red"\n'
    )
    monkeypatch.setattr(presets, "FOLDER", tmp_path)
    with pytest.raises(SpecError, match="preset odd, line 4: unknown option 'colour'"):
        experiments("--preset odd")


def test_a_list_in_a_preset_is_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some.toml").write_text('title = "some"\n[[runs]]\nworkers = [2, 3]\nlr = 0.25\n')
    monkeypatch.setattr(presets, "FOLDER", tmp_path)
    assert [(e.workers, e.lr) for e in experiments("--preset some")] == [(2, 0.25), (3, 0.25)]


def test_a_list_of_bottlenecks_in_a_preset_is_a_list_of_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with as many nodes as its commas say."""
    (tmp_path / "slow.toml").write_text(
        'title = "slow"\n[[runs]]\n'
        'bottleneck = ["none", "1:5mbit,2:5mbit"]\nlink = ["none", "1gbit"]\n'
        '[[runs]]\nstraggler = "1:0.5"\n'
    )
    monkeypatch.setattr(presets, "FOLDER", tmp_path)
    assert [(e.link, e.bottleneck, e.straggler) for e in experiments("--preset slow")] == [
        (None, None, None),
        (None, "1:5mbit,2:5mbit", None),
        ("1gbit", None, None),
        ("1gbit", "1:5mbit,2:5mbit", None),
        (None, None, "1:0.5"),
    ]
    beside = experiments("--preset slow --bottleneck 0:1mbit")
    assert {e.bottleneck for e in beside} == {"0:1mbit"}


OWN = """\
title = "own"  # quick = 1
[quick]
epochs = 1
[[runs]]
strategy = ["allreduce", "pairwise"]
workers = [
    2,
    4,  # four = 4
]
passes = [1, 3]

[[runs]]
workers = 3
quick = { lr = 0.1, link = "none" }
"""


def test_a_file_of_ones_own_is_a_preset(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN)
    found = experiments(f"--preset {tmp_path / 'own.toml'} --quick")
    assert [(e.strategy, e.workers, e.passes, e.epochs) for e in found] == [
        *(("allreduce", 2, None, 1), ("pairwise", 2, 1, 1), ("allreduce", 4, None, 1)),
        *(("pairwise", 4, 1, 1), ("pairwise", 4, 3, 1), ("allreduce", 3, None, 1)),
    ]


@pytest.mark.parametrize(
    ("right", "wrong", "line", "key"),
    [
        ("epochs = 1", "epochz = 1", 3, "epochz"),
        ("epochs = 1", 'epochs = "one"', 3, "epochs"),
        ("epochs = 1", "epochs = = 1", 3, ""),
        ('"pairwise"', '"pairwize"', 5, "strategy"),
        ("passes = [1, 3]", "passes = [1, 0]", 10, "passes"),
        ("passes = [1, 3]", 'output = "x"', 10, "output"),
        ("workers = 3", "workers = 5000", 13, "workers"),
        ("lr = 0.1", "lr = true", 14, "lr"),
        ("lr = 0.1", "batch_size = 6000", 12, "batch_size"),  # with workers: of the run
        ('title = "own"', "titel = 1", 1, "titel"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_line_and_key(
    right: str, wrong: str, line: int, key: str, tmp_path: Path
) -> None:
    (tmp_path / "own.toml").write_text(OWN.replace(right, wrong))
    with pytest.raises(SpecError, match=rf"own\.toml.* line {line}\b.*{key}"):
        experiments(f"--preset {tmp_path / 'own.toml'} --quick")


def test_tables_written_inline_have_their_own_lines() -> None:
    text = 'runs = [\n  {a = "{", b = [1, {c = 2}]},\n\n  {a = 2,\n b.c = 3},\n]\n[x]\ny = 1\n'
    found = key_lines(text)
    assert found["runs", 0, "b", 1, "c"] == 2
    assert (found["runs", 1], found["runs", 1, "b", "c"]) == (4, 5)
    assert found["x", "y"] == 8


def test_flags_that_replace_a_presets_values_are_announced() -> None:
    flags = "--preset frugal --epochs 2 --workers 6 --lr 0.1"
    title, line = presets.announcement(make_parser().parse_args(flags.split()))
    assert "frugal" in title
    assert "--epochs 2" in line
    assert "12" in line


def test_passes_beyond_all_workers_are_shown_as_what_they_are() -> None:
    said: list[str] = []
    args = make_parser().parse_args(["--workers", "2,4", "--passes", "1,3"])
    found = make_experiments(args, say=said.append)
    assert [(e.workers, e.passes) for e in found] == [(2, 1), (4, 1), (4, 3)]
    assert [line for line in said if "passes 3 with 2 workers is passes 1" in line] == said


QUICK = """
title = "some"
[quick]
epochs = 1
[[runs]]
workers = [2, 3]
epochs = 9
[[runs]]
workers = 4
quick = { workers = 2, epochs = 2 }
[[runs]]
workers = 5
quick = false
"""


def test_a_quick_variant_replaces_options_of_all_runs_or_of_one_and_leaves_some_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some.toml").write_text(QUICK)
    monkeypatch.setattr(presets, "FOLDER", tmp_path)
    whole = [(e.workers, e.epochs) for e in experiments("--preset some")]
    assert whole == [(2, 9), (3, 9), (4, 12), (5, 12)]
    quick = [(e.workers, e.epochs) for e in experiments("--preset some --quick")]
    assert quick == [(2, 1), (2, 2), (3, 1)]  # runs that fit one cluster stand together
    beside = experiments("--preset some --quick --epochs 7")
    assert {e.epochs for e in beside} == {7}


def test_quick_without_a_preset_or_a_quick_variant_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SpecError, match="goes with --preset"):
        experiments("--quick")
    (tmp_path / "some.toml").write_text('title = "some"\n[[runs]]\nworkers = [2, 3]\n')
    monkeypatch.setattr(presets, "FOLDER", tmp_path)
    with pytest.raises(SpecError, match="preset some has no quick variant"):
        experiments("--preset some --quick")


PUBLISHED = (
    "2:2,12 2:1,15 3:3,12 3:2,15 3:1,18 4:4,12 4:3,15 4:2,18 4:1,21 5:5,12 5:4,15 5:3,18 5:2,21"
    " 5:1,24 6:6,12 6:5,15 6:4,18 6:3,21 6:2,24 6:1,27"
)
"""workers:passes,epochs, where as many passes as workers is all-reduce."""


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("quick", ["", "--quick"])
def test_pairwise_averaging_is_the_published_table_with_any_launcher(
    quick: str, launcher: str
) -> None:
    found = experiments(f"--preset pairwise-averaging {quick} --launcher {launcher}")
    rows = [f"{e.workers}:{e.passes or e.workers},{e.epochs}" for e in found]
    assert set(PUBLISHED.split()) < set(rows)
    assert set(rows) - set(PUBLISHED.split()) == {"5:4,12", "5:3,12", "5:2,12", "5:1,12", "5:1,18"}
    assert {e.strategy for e in found if e.passes is None} == {"allreduce"}
    assert {(e.total_memory, e.launcher) for e in found} == {("6g", launcher)}


def test_a_presets_memory_limit_is_turned_off_by_none() -> None:
    found = experiments("--preset pairwise-averaging --total-memory none")
    assert {e.total_memory for e in found} == {None}


def test_running_out_of_memory_is_an_answer_where_the_preset_looks_for_it() -> None:
    starved = Summary(
        session="s", run="r", status="failed", error=f"node0 {OUT_OF_MEMORY}", spec={}
    )
    killed = Summary(session="s", run="r", status="failed", error="node0 was killed", spec={})
    for name in presets.names():
        plan = SessionPlan(command=[], memory_may_end=presets.memory_may_end(name))
        assert plan.is_answered(starved) == (name == "lab-batch-size")
        assert not plan.is_answered(killed)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_is_its_options_which_flags_replace(name: str) -> None:
    plain, found = experiments(f"--algorithm none,{name}")
    assert (plain.algorithm, plain.strategy) == (None, "allreduce")
    assert found.algorithm == name
    for option, value in ALGORITHMS[name].options.items():
        assert getattr(found, option) == value
    (changed,) = experiments(f"--algorithm {name} --local-steps 2 --epochs 3")
    assert (changed.algorithm, changed.local_steps, changed.epochs) == (name, 2, 3)
    assert Experiment.from_json(found.to_json()) == found
    text = (PROJECT / "docs/algorithms.md").read_text()
    flags = (f"--{key.replace('_', '-')} {v}" for key, v in ALGORITHMS[name].options.items())
    assert f"| `{name}` | {ALGORITHMS[name].summary} | `{' '.join(flags)}` |" in text


def test_two_sites_has_both_orders_of_a_ring_and_strategies_without_one() -> None:
    found = experiments("--preset two-sites")
    orders = {(run.strategy, run.ring_order) for run in found}
    assert {(s, o) for s in ("allreduce", "ring") for o in (None, "sites")} < orders
    assert ("hierarchical", None) in orders
    assert {run.between for run in found} == {"a-b:50mbit"}
    assert {run.ring for run in found if run.ring_order} == {(0, 2, 4, 1, 3, 5)}
    assert len(found) == len(experiments("--preset two-sites --quick")) == 8
