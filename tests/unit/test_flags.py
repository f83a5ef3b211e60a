"""Flags -> experiments: a value list is a sweep, in an order that shares clusters."""

import dataclasses
import itertools
import re
from typing import Any

import pytest

from cluster import presets
from cluster.flags import MOST_USED, all_help_texts, help_texts, make_parser
from cluster.plan import make_experiments
from cluster.spec.errors import SpecError
from cluster.spec.exchange.strategies import STRATEGIES
from cluster.spec.experiment import Experiment
from cluster.spec.schedules.consensus import SCHEDULE_CHOICES

OPTIONS = dataclasses.fields(Experiment)


def experiments(line: str) -> list[Experiment]:
    return make_experiments(make_parser().parse_args(line.split()))


def all_help() -> str:
    return "\n".join(all_help_texts(make_parser(with_help=True)))


def short_help() -> str:
    return "\n".join(help_texts(make_parser(with_help=True)))


def test_without_flags_there_is_one_run_with_every_default() -> None:
    assert experiments("") == [Experiment()]


TYPED: dict[str, tuple[str, Any]] = {
    "strategy": ("ring", "ring"),
    "gpu": ("1", 1),
    "workers": ("3", 3),
    "passes": ("2", 2),
    "schedule": ("ring", "ring"),
    "local_steps": ("4", 4),
    "compress": ("fp16", "fp16"),
    "error_feedback": ("0.5", 0.5),
    "outer": ("sgd:0.5", "sgd:0.5"),
    "stream": ("2:1:0.5", "2:1:0.5"),
    "epochs": ("7", 7),
    "train_size": ("5000", 5000),
    "batch_size": ("32", 32),
    "lr": ("0.25", 0.25),
    "momentum": ("0", 0.0),
    "seed": ("9", 9),
    "cpus": ("0.5", 0.5),
    "dilation": ("2.5", 2.5),
    "link": ("10mbit", "10mbit"),
    "bottleneck": ("2:20mbit,0:5mbit", "0:5mbit,2:20mbit"),
    "sites": ("a:1,a:1,b:2", "a:2,b:2"),
    "ring_order": ("sites", "sites"),
    "between": ("b-a:5mbit/0.01gbit/10ms", "a-b:10mbit/5mbit/10ms"),
    "inside": ("b:1gbit,a:0.1gbit", "a:100mbit,b:1gbit"),
    "link_trace": ("1:0s=10mbit/2.50s=0.005gbit/3s=5mbit", "1:0s=10mbit/2.5s=5mbit"),
    "background": ("2-0:0.01gbit,1-3:500kbit", "1-3:500kbit,2-0:10mbit"),
    "straggler": ("1:0.50", "1:0.5"),
    "total_memory": ("4096m", "4g"),
    "interval": ("2", 2.0),
    "average": ("parameters", "parameters"),
    "reduce": ("sum", "sum"),
    "bucket_mb": ("0", 0.0),
    "overlap": ("", True),
    "virtual": ("yes", True),
    "score_on": ("held-out", "held-out"),
    "launcher": ("horovod", "horovod"),
    "timeline": ("", True),
    "staleness": ("3", 3),
    "quorum": ("2", 2),
    "grace": ("0.5", 0.5),
    "buffers": ("local", "local"),
    "model": ("mnist-bn", "mnist-bn"),
    "dataset": ("fashion-mnist", "fashion-mnist"),
    "save_state": ("yes", True),
    "optimizer": ("lars", "lars"),
    "weight_decay": ("1e-4", 1e-4),
    "lr_rule": ("linear", "linear"),
    "warmup_epochs": ("0.5", 0.5),
    "partition": ("dirichlet:0.5", "dirichlet:0.5"),
    "shuffle": ("fixed", "fixed"),
    "augment": ("", True),
    "test_size": ("100", 100),
    "fault": ("2:freeze@30.0s/10s", "2:freeze@30s/10s"),
    "storm": ("freezes=60s", "freezes=60s,seed=1"),
    "on_failure": ("stop", "stop"),
}
ONLY_PAIRWISE = ("passes", "schedule")


OF_TRAINING = [
    option.name
    for option in OPTIONS
    if option.name not in ("engine", "loss", "algorithm")
    and option.metadata["group"] not in ("", "program")
]
"""A loss other than the default is the user's own (test_own_code.py), an algorithm several
options (test_presets.py)."""


@pytest.mark.parametrize("name", OF_TRAINING)
def test_a_flag_sets_its_own_field_and_no_other(name: str) -> None:
    """An option that is new here needs a line in TYPED."""
    text, value = TYPED[name]
    with_passes = name in (*ONLY_PAIRWISE, "outer")
    strategy = "--strategy pairwise" if with_passes else "--strategy allreduce"
    if name in ("staleness", "quorum", "grace"):
        strategy = "--strategy async-server" if name == "staleness" else "--strategy quorum"
    strategy = "--strategy local-sgd --outer sgd:1" if name == "stream" else strategy
    strategy += " --launcher horovod" if name == "timeline" else ""
    strategy += " --compress int8" if name == "error_feedback" else ""
    strategy += " --model mnist-bn" if name == "buffers" else ""
    strategy += " --lr-rule none" if name != "lr_rule" else ""  # its default depends on others
    strategy += " --dilation 1" if name in ("link", "bottleneck", "between", "inside") else ""
    strategy += " --link 20mbit" if name == "link_trace" else ""
    strategy += " --sites a:2,b:2" if name in ("between", "inside", "ring_order") else ""
    (base,) = experiments(strategy)
    (experiment,) = experiments(f"{strategy} --{name.replace('_', '-')} {text}")
    assert experiment == dataclasses.replace(base, **{name: value})
    assert type(getattr(experiment, name)) is type(value)


def test_value_lists_make_all_combinations_workers_outermost() -> None:
    found = experiments("--workers 3,4 --strategy allreduce,pairwise --passes 1,2 --lr 0.1,0.2")
    shown = [(e.workers, e.strategy, e.passes, e.lr) for e in found]
    assert shown == [
        (3, "allreduce", None, 0.1),
        (3, "allreduce", None, 0.2),
        (3, "pairwise", 1, 0.1),
        (3, "pairwise", 1, 0.2),
        (3, "pairwise", 2, 0.1),
        (3, "pairwise", 2, 0.2),
        (4, "allreduce", None, 0.1),
        (4, "allreduce", None, 0.2),
        (4, "pairwise", 1, 0.1),
        (4, "pairwise", 1, 0.2),
        (4, "pairwise", 2, 0.1),
        (4, "pairwise", 2, 0.2),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "--workers 2,4 --strategy allreduce,pairwise --passes 1,2 --repeat 2",
        "--workers 2,4 --strategy pairwise,single,allreduce",
        "--workers 2,4 --cpus 1,2 --strategy allreduce,pairwise",
        "--workers 2 --cpus 1,2 --repeat 2 --lr 0.1,0.2",
    ],
)
def test_runs_that_fit_one_cluster_are_neighbours(line: str) -> None:
    """A session starts a cluster for each stretch of equal (workers, cpus)."""
    clusters = [(e.workers, e.cpus) for e in experiments(line)]
    started = [key for key, _ in itertools.groupby(clusters)]
    assert len(started) == len(set(clusters))


def test_links_are_swept_by_a_list_and_bottlenecks_by_the_flag_again() -> None:
    """The comma of a bottleneck lists the nodes of one run."""
    found = experiments(
        "--link 10mbit,none,10000kbit --bottleneck none --bottleneck 2:5mbit,0:1mbit"
    )
    assert [(e.link, e.bottleneck) for e in found] == [
        ("10mbit", None),
        ("10mbit", "0:1mbit,2:5mbit"),
        (None, None),
        (None, "0:1mbit,2:5mbit"),
    ]


def test_total_memory_is_swept_by_a_list_in_which_none_is_no_limit() -> None:
    found = experiments("--total-memory none,2g,2048m,1.5g --strategy allreduce,single")
    assert [(e.strategy, e.total_memory) for e in found] == [
        *(("allreduce", None), ("allreduce", "2g"), ("allreduce", "1536m")),
        *(("single", None), ("single", "2g"), ("single", "1536m")),
    ]


def test_stragglers_are_swept_by_the_flag_again() -> None:
    found = experiments("--straggler none --straggler 1:0.5 --straggler 1:.5,2:1")
    assert [e.straggler for e in found] == [None, "1:0.5", "1:0.5,2:1"]


def test_a_bottleneck_has_its_own_link_and_the_others_the_one_for_all() -> None:
    (found,) = experiments(
        "--workers 3 --link 100mbit --bottleneck 1:5mbit --cpus 1 --straggler 2:.5"
    )
    assert [str(found.links[rank]) for rank in range(3)] == ["100mbit", "5mbit", "100mbit"]
    assert found.cpus_by_rank == {0: 1, 1: 1, 2: 0.5}
    (alone,) = experiments("--workers 3 --bottleneck 1:5mbit --straggler 2:0.5")
    assert (list(alone.links), list(alone.cpus_by_rank)) == ([1], [2])


def test_a_server_is_a_node_that_can_be_a_bottleneck_too() -> None:
    (found,) = experiments("--workers 3 --strategy parameter-server --bottleneck 3:5mbit")
    assert list(found.links) == [3]
    with pytest.raises(SpecError, match="there is no node 3, the 3 nodes are 0 to 2"):
        experiments("--workers 3 --bottleneck 3:5mbit")


@pytest.mark.parametrize("flag", ["link 5mbit", "bottleneck 0:5mbit", "straggler 0:0.5"])
def test_runs_with_other_links_or_stragglers_never_share_a_cluster(flag: str) -> None:
    (plain,), (other,) = experiments(""), experiments(f"--{flag}")
    assert plain.cluster != other.cluster
    assert plain.label != other.label
    assert "/" not in other.label


def test_the_baseline_in_a_list_of_strategies_has_no_bottleneck() -> None:
    found = experiments("--strategy single,allreduce --link 5mbit --bottleneck 2:1mbit")
    assert [(e.strategy, e.link, e.bottleneck) for e in found] == [
        ("single", None, None),
        ("allreduce", "5mbit", "2:1mbit"),
    ]


def test_values_keep_the_order_in_which_they_were_typed() -> None:
    assert [e.workers for e in experiments("--workers 8,2,4")] == [8, 2, 4]
    assert [e.strategy for e in experiments("--strategy pairwise,allreduce")] == [
        "pairwise",
        "allreduce",
    ]


def test_spaces_in_a_list_do_no_harm() -> None:
    args = make_parser().parse_args(["--workers", "2, 4"])
    assert [e.workers for e in make_experiments(args)] == [2, 4]


def test_duplicates_are_run_once() -> None:
    assert [e.workers for e in experiments("--workers 2,4,2")] == [2, 4]
    assert len(experiments("--lr 0.1,0.10,1e-1")) == 1


@pytest.mark.parametrize(
    ("line", "seeds"),
    [("--repeat 3", [1, 2, 3]), ("--repeat 3 --seed 10", [10, 11, 12]), ("--seed 0", [0])],
)
def test_repeat_counts_seeds_up_from_the_first(line: str, seeds: list[int]) -> None:
    assert [e.seed for e in experiments(line)] == seeds


def test_repeat_repeats_every_run_of_a_sweep() -> None:
    found = experiments("--workers 2,4 --repeat 2")
    assert [(e.workers, e.seed) for e in found] == [(2, 1), (2, 2), (4, 1), (4, 2)]


@pytest.mark.parametrize("value", ["0", "-1", "1001", "two", "1.5"])
def test_a_refused_repeat_is_named(value: str) -> None:
    with pytest.raises(SpecError, match="repeat must be"):
        experiments(f"--repeat={value}")


def test_seeds_that_repeat_pushes_over_the_edge_are_refused() -> None:
    with pytest.raises(SpecError, match="seed must be between"):
        experiments(f"--seed {2**31 - 1} --repeat 2")


@pytest.mark.parametrize(
    ("line", "strategy", "passes", "schedule"),
    [
        ("", "allreduce", None, None),
        ("--passes 2", "pairwise", 2, "ring"),
        ("--strategy pairwise", "pairwise", 1, "ring"),
        ("--passes 1 --schedule random", "pairwise", 1, "random"),
    ],
)
def test_passes_make_pairwise_the_default_strategy(
    line: str, strategy: str, passes: int | None, schedule: str | None
) -> None:
    (found,) = experiments(line)
    assert (found.strategy, found.passes, found.schedule) == (strategy, passes, schedule)


def test_the_help_tells_the_schedule_that_is_taken_by_default() -> None:
    (found,) = experiments("--strategy pairwise")
    words = " ".join(all_help().split())
    assert re.search(rf"--schedule NAME [^-]*\(default: {found.schedule}\b", words)


def test_in_a_list_passes_go_only_to_strategies_that_have_them() -> None:
    found = experiments("--strategy allreduce,pairwise,single --passes 2 --schedule grid")
    assert [(e.strategy, e.passes, e.schedule) for e in found] == [
        ("allreduce", None, None),
        ("pairwise", 2, "grid"),
        ("single", None, None),
    ]


@pytest.mark.parametrize("flag", ["passes 1", "schedule ring"])
@pytest.mark.parametrize("strategies", ["allreduce", "single", "allreduce,single"])
def test_passes_are_refused_where_no_strategy_has_them(flag: str, strategies: str) -> None:
    name = flag.split()[0]
    with pytest.raises(SpecError, match=f"{name} does not apply to .*; it applies to: pairwise"):
        experiments(f"--{flag} --strategy {strategies}")


def test_in_a_list_an_option_goes_only_to_runs_in_which_it_does_something() -> None:
    found = experiments("--optimizer sgd,adamw --momentum 0.5,0.9")
    assert [(e.optimizer, e.momentum) for e in found] == [
        ("sgd", 0.5),
        ("adamw", None),
        ("sgd", 0.9),
    ]
    found = experiments("--model mnist-cnn,mnist-bn --buffers local")
    assert [(e.model, e.buffers) for e in found] == [
        ("mnist-cnn", "broadcast"),
        ("mnist-bn", "local"),
    ]
    found = experiments("--model synthetic:4M,mnist-cnn --lr 0.1,0.2")
    assert [(e.model, e.lr) for e in found] == [
        ("synthetic:4M", 0.05),
        ("mnist-cnn", 0.1),
        ("mnist-cnn", 0.2),
    ]


def test_beside_a_preset_an_option_goes_to_those_of_its_runs_in_which_it_does_something() -> None:
    found = experiments("--preset bottleneck --lr 0.1")
    assert {(e.dataset, e.lr) for e in found} == {("none", 0.05), ("mnist", 0.1)}
    with pytest.raises(SpecError, match="buffers does not apply to model"):
        experiments("--preset bottleneck --buffers local")


def test_a_preset_that_keeps_its_rate_takes_a_model_that_learns_nothing() -> None:
    found = experiments("--preset pairwise-averaging --model synthetic:4M")
    assert {(e.model, e.lr_rule, e.warmup_epochs) for e in found} == {("synthetic:4M", "none", 0.0)}
    with pytest.raises(SpecError, match="lr_rule does not apply to model synthetic:4M"):
        experiments("--preset pairwise-averaging --model synthetic:4M --lr-rule linear")


def test_another_optimizer_than_a_workloads_goes_without_the_workloads_momentum() -> None:
    (found,) = experiments("--workload vgg11-cifar10 --optimizer adamw")
    assert (found.optimizer, found.momentum) == ("adamw", None)
    with pytest.raises(SpecError, match="momentum does not apply to optimizer adamw"):
        experiments("--workload vgg11-cifar10 --optimizer adamw --momentum 0.9")


def test_a_batch_for_all_workers_together_keeps_its_rate() -> None:
    assert [e.lr_rule for e in experiments("--workers 2,4 --global-batch-size 64")] == ["none"] * 2
    assert [e.lr_rule for e in experiments("--workers 2,4 --batch-size 64")] == ["sqrt"] * 2
    assert [e.lr_rule for e in experiments("--global-batch-size 64 --lr-rule none")] == ["none"]


def test_the_baseline_in_a_list_of_strategies_has_no_learning_rate_rule() -> None:
    found = experiments("--strategy single,allreduce,pairwise --lr-rule linear")
    assert [e.lr_rule for e in found] == ["none", "linear", "linear"]


def test_single_in_a_list_runs_once_with_one_worker() -> None:
    found = experiments("--workers 2,4,8 --strategy single,allreduce")
    assert [(e.strategy, e.workers) for e in found] == [
        ("single", 1),
        ("allreduce", 2),
        ("allreduce", 4),
        ("allreduce", 8),
    ]


def test_single_alone_has_one_worker_by_default_and_no_more_when_asked() -> None:
    assert [e.workers for e in experiments("--strategy single")] == [1]
    with pytest.raises(SpecError, match="single has one worker, not 4"):
        experiments("--strategy single --workers 4")


def test_one_bad_value_in_a_sweep_refuses_the_whole_sweep() -> None:
    with pytest.raises(SpecError, match="workers must be between 1 and 4,096, not 0"):
        experiments("--workers 2,0")
    with pytest.raises(SpecError, match="unknown strategy 'gossip'"):
        experiments("--strategy allreduce,gossip")


@pytest.mark.parametrize(
    ("flag", "value", "expected"),
    [
        ("workers", "two", "a whole number"),
        ("workers", "2.0", "a whole number"),
        ("workers", "", "a whole number"),
        ("workers", "2,", "a whole number"),
        ("passes", "x", "a whole number"),
        ("epochs", "1e3", "a whole number"),
        ("lr", "fast", "a number"),
        ("cpus", "0,5x", "a number"),
        ("interval", "1s", "a number"),
    ],
)
def test_what_is_no_number_is_refused_by_its_name(flag: str, value: str, expected: str) -> None:
    with pytest.raises(SpecError, match=rf"^{flag} must be {expected}, not '"):
        experiments(f"--{flag}={value}")


@pytest.mark.parametrize("flag", ["seed", "interval"])
def test_what_all_runs_share_takes_one_value(flag: str) -> None:
    with pytest.raises(SpecError, match=f"{flag} takes one value, not '1,2'"):
        experiments(f"--{flag} 1,2")


def test_every_option_of_an_experiment_has_a_flag_with_its_unit_in_the_help() -> None:
    help_text = all_help()
    for field in (option for option in OPTIONS if option.metadata["group"]):
        flag, unit = f"--{field.name.replace('_', '-')}", re.escape(field.metadata["unit"])
        assert re.search(rf"^  {flag} \[?{unit}\]?(\s|$)", help_text, re.MULTILINE), flag


def test_the_help_names_every_choice_and_every_default() -> None:
    words = " ".join(all_help().split())
    for name in (*STRATEGIES, *SCHEDULE_CHOICES, "auto", "docker"):
        assert re.search(rf"\b{name}\b", words.replace("- ", "-")), name  # folded at a hyphen
    for name in ("epochs", "train_size", "batch_size", "lr", "momentum", "seed", "workers"):
        assert f"(default: {getattr(Experiment(), name)})" in words


def test_the_five_examples_in_the_help_are_accepted() -> None:
    lines = re.findall(r"^  \./measure\.sh (.*?)(?:   .*)?$", short_help(), re.M)
    assert len(lines) == 5
    for line in lines:
        assert experiments(line)


def test_the_short_help_has_ten_options_and_every_preset_with_its_title() -> None:
    text = short_help()
    section = text.partition("most used options:")[2].partition("\n\n")[0]
    assert re.findall(r"^  --([a-z-]+) ", section, re.M) == [
        name.replace("_", "-") for name in MOST_USED
    ]
    assert len(MOST_USED) == 10
    for name in presets.names():
        found = re.search(
            rf"^  {name} +{re.escape(presets.title(name))}(\s+\[--quick\])?$", text, re.M
        )
        assert found is not None
        assert bool(found[1]) == presets.has_quick(name)
    assert all(presets.has_quick(name) for name in presets.names())


@pytest.mark.parametrize("flag", ["-h", "--help", "--help-all", "--version"])
def test_help_and_version_go_to_standard_output(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        make_parser().parse_args([flag])
    assert ended.value.code == 0
    stdout, stderr = capsys.readouterr()
    assert stderr == ""
    assert stdout.startswith("gradwire 0." if flag == "--version" else "usage: ./measure.sh")


def test_flags_are_not_abbreviated() -> None:
    """So that a new flag never changes what an old script means."""
    with pytest.raises(SystemExit) as refusal:
        experiments("--work 2")
    assert refusal.value.code == 2


def test_what_a_preset_brings_along_is_left_out_where_it_does_nothing() -> None:
    synthetic = "--preset vgg-parts --model synthetic:vgg16 --dataset none"
    assert {run.model for run in experiments(synthetic)} == {"synthetic:vgg16"}
    with pytest.raises(SpecError, match="lr does not apply to model synthetic:vgg16"):
        experiments(f"{synthetic} --lr 0.2")
