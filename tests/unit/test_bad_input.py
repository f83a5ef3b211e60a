"""A person's mistake: one line on standard error, exit code 2, and nothing is made.

Through the real command line; in a process of its own where the machine has to be another one.
"""

import re
import socket
from pathlib import Path

import pytest

from cluster import measure
from cluster.engine import ClusterPlan, EngineError
from cluster.existing import cluster as hosts_cluster
from cluster.existing import launchers as host_launchers
from cluster.spec import catalogue, synthetic
from cluster.spec.catalogue import MODELS, WORKLOADS
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.exchange.strategies import STRATEGIES
from cluster.spec.hosts import HostOptions
from cluster.spec.options import OPTIMIZERS
from cluster.spec.schedules.consensus import SCHEDULE_CHOICES
from tests.refusals import contents, refusal

pytestmark = pytest.mark.usefixtures("empty_folder")
DIGITS = "9" * 400
NUMBERS = ",".join(map(str, range(1, 256)))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--workers", "0"], "workers must be between 1 and 4,096, not 0"),
        (["--workers", "-1"], "workers must be between 1 and 4,096, not -1"),
        (["--workers", "257"], "use --virtual 257"),
        (["--workers", "1000000"], "workers must be between 1 and 4,096, not 1,000,000"),
        (["--workers", DIGITS], "workers must be between 1 and 4,096, not 9"),
        (["--workers", "2,0"], "workers must be between 1 and 4,096, not 0"),
        (["--workers", "two"], "workers must be a whole number, not 'two'"),
        (["--workers", "2.5"], "workers must be a whole number, not '2.5'"),
        (["--workers", ""], "workers must be a whole number, not ''"),
        (["--workers", "2\n3"], "workers must be a whole number, not '2\\n3'"),
        (["--passes", "0"], "passes must be between 1 and 4,096, not 0"),
        (["--passes", "-2"], "passes must be between 1 and 4,096, not -2"),
        (["--passes", "many"], "passes must be a whole number, not 'many'"),
        (["--passes", "2", "--strategy", "allreduce"], "passes does not apply to strategy"),
        (["--passes", "2", "--schedule", "exponential"], "passes must be 1, not 2"),
        (["--strategy", "single", "--workers", "2"], "single has one worker, not 2"),
        (["--epochs", "0"], "epochs must be between 1 and"),
        (["--lr", "nan"], "lr must be between"),
        (["--lr", "fast"], "lr must be a number, not 'fast'"),
        (["--momentum", "1"], "momentum must be at least 0 and below 1, not 1"),
        (["--interval", "0"], "interval must be between"),
        (["--cpus", "0"], "cpus must be between"),
        (["--repeat", "0"], "--repeat must be between 1 and 999, not 0"),
        (["--link", "0mbit"], "link '0mbit': rate must be between 100kbit and 10gbit, not 0mbit"),
        (["--link", "20mbps"], "mbps is bytes a second; write mbit"),
        (["--link", "20mbit/-5ms"], "delay must be between 0 and 10s, not -5ms"),
        (["--link", "20mbit/5ms/101%"], "loss must be at least 0% and below 100%, not 101%"),
        (["--link", ""], "link ''"),
        (["--bottleneck", "4:20mbit"], "there is no node 4, the 4 nodes are 0 to 3"),
        (["--bottleneck", "2:20mbit,2:5mbit"], "node 2 is named twice"),
        (["--bottleneck", "20mbit"], "'20mbit' is not RANK:LINK"),
        (["--bottleneck", "2:0mbit"], "rate must be between"),
        (["--sites", "a:3,b:3"], "--sites 'a:3,b:3' have 6 nodes, and there are 4"),
        (["--sites", "a:3"], "there must be 2 to 8 sites, not 1"),
        (["--sites", "a,b"], "'a' is not NAME:NODES[,...], such as a:3,b:3"),
        (["--sites", "a:0,b:4"], "'a:0' is not NAME:NODES"),
        (["--sites", "a-b:2,c:2"], "'a-b' is no name of a site"),
        (["--sites", "no.toml"], "sites no.toml cannot be read: No such file"),
        (["--link-trace", "1:no.csv"], "link-trace no.csv cannot be read: No such file"),
        (["--link-trace", "1:0s=5mbit"], "--link-trace: node 1 has no rate that could change"),
        (
            ["--link", "9mbit", "--link-trace", "7:0s=5mbit"],
            "there is no node 7, the 4 nodes are 0 to 3",
        ),
        (["--link", "9mbit", "--link-trace", "1:5s=5mbit/1s=9mbit"], "goes backwards: after 5 s"),
        (["--link", "9mbit", "--link-trace", "1"], "is not NODE:FILE"),
        (["--between", "a-b:5mbit"], "--between is of sites: use it with --sites"),
        (["--inside", "a:5mbit"], "--inside is of sites"),
        (["--sites", "a:2,b:2", "--between", "a-c:5mbit"], "no site 'c', the sites are a, b"),
        (["--sites", "a:2,b:2", "--between", "a-a:5mbit"], "is one site: use --inside a:5mbit"),
        (["--sites", "a:2,b:2", "--between", "a-b:5mbit,b-a:5mbit"], "a-b is named twice"),
        (["--sites", "a:2,b:2", "--between", "ab:5mbit"], "'ab:5mbit' is not SITE-SITE:LINK"),
        (["--sites", "a:2,b:2", "--between", "a-b:5mbps"], "write mbit"),
        (["--sites", "a:2,b:2", "--inside", "c:5mbit"], "there is no site 'c'"),
        (["--sites", "a:2,b:2", "--inside", "a:5mbit,a:5mbit"], "site a is named twice"),
        (["--sites", "a:1,b:1", "--workers", "1", "--strategy", "single"], "sites does not apply"),
        (["--straggler", "4:0.5"], "there is no node 4"),
        (["--straggler", "1:0.5,1:0.2"], "node 1 is named twice"),
        (["--straggler", "1:0"], "cores must be between"),
        (["--engine", "netns", "--straggler", "1:1000"], "1000 CPU cores for a node are more than"),
        (["--engine", "netns", "--cpus", "1000"], "1000 CPU cores for a node are more than"),
        (
            ["--total-memory", "6gb"],
            "--total-memory '6gb': write MiB or GiB, such as 900m, 6g or 1.5g; did you mean 6g?",
        ),
        (["--total-memory", ""], "--total-memory ''"),
        (["--total-memory", "900m"], "is 225m for each of 4 nodes, and a worker of launcher torch"),
        (["--engine", "netns", "--total-memory", "999999g"], "is more than this machine's"),
        (["--seed", "1,2"], "seed takes one value, not '1,2'"),
        (["--train-size", "60001"], "--train-size 60,001 is more than the 60,000 training samples"),
        (["--batch-size", "1501"], "--batch-size 1501 is larger than a worker's shard"),
        (["--workers", "256", "--batch-size", "64"], "6000 over 256 workers is 23 samples"),
        (["--test-size", "10001"], "--test-size must be between 1 and 10,000, not 10,001"),
        (
            ["--model", "vgg11", "--dataset", "mnist"],
            "it takes images of 3 x 32 x 32, not images of",
        ),
        (["--model", "mnist-cnn", "--dataset", "rte"], "use --dataset mnist or fashion-mnist"),
        (["--model", "synthetic:4M", "--dataset", "mnist"], "does not fit dataset mnist"),
        (["--model", "bert-minilm", "--augment", "--train-size", "2000"], "augment is for images"),
        (
            ["--partition", "dirichlet:0"],
            "partition 'dirichlet:0': ALPHA must be above 0 and at most 1,000,000, not 0",
        ),
        (["--partition", "dirichlet:-1"], "ALPHA must be above 0 and at most 1,000,000, not -1"),
        (["--partition", "dirichlet:1e308"], "at most 1,000,000, not 1e308"),
        (["--partition", "by-hand"], "there is: iid, label, dirichlet:ALPHA"),
        (
            ["--partition", "label", "--model", "synthetic:4M"],
            "partition does not apply to model synthetic:4M, which learns nothing",
        ),
        (["--lr", "0.05", "--model", "synthetic:4M"], "lr does not apply to model synthetic:4M"),
        (["--test-size", "1", "--model", "synthetic:4M"], "--test-size does not apply to model"),
        (
            ["--optimizer", "adamw", "--momentum", "0.5"],
            "momentum does not apply to optimizer adam",
        ),
        (
            ["--buffers", "broadcast"],
            "buffers does not apply to model mnist-cnn, which has no buff",
        ),
        (["--epochs", "1", "--shuffle", "fixed"], "shuffle fixed shows from the second epoch on"),
        (["--warmup-epochs", "3", "--epochs", "2"], "more than the 2 epochs of a run"),
        (["--warmup-epochs", "0.01"], "a warm-up takes 2; use --warmup-epochs 0.0869565 or more"),
        (["--strategy", "single", "--link", "5mbit"], "link does not apply to strategy single"),
        (
            ["--global-batch-size", "64", "--lr-rule", "linear"],
            "--lr-rule linear does not go with --global-batch-size",
        ),
        (["--prepare", "new", "--json"], "json does not go with --prepare, which trains nothing"),
        (["--global-batch-size", "3"], "--global-batch-size 3 is not enough for 4 workers"),
        (["--global-batch-size", "64", "--batch-size", "8"], "for all together: give one"),
        (["--weight-decay", "-1"], "--weight-decay must be between"),
        (["--model", "bert-minilm", "--train-size", "2491"], "2,490 training samples of rte"),
        (["--workers", "0", "--global-batch-size", "0"], "--workers must be between 1 and 4,096"),
        (["--global-batch-size", "0"], "--global-batch-size must be between 1 and"),
        (["--train-size", "200K"], "whole number, not '200K'; did you mean 200000?"),
        (["--model", "synthetic:200K"], "did you mean 200k?"),
        (["--model", f"synthetic:{DIGITS}"], "size must be a number of bytes"),
        (["--link", "20Mbit"], "did you mean 20mbit?"),
        (["--workers", NUMBERS, "--epochs", NUMBERS], "that makes 65,025 runs; a session has at"),
        (["--compress", "topk:1.5"], "--compress: topk keeps a share of the numbers, above 0 and"),
        (["--compress", "randk:-1"], "such as randk:0.01, not 'randk:-1'"),
        (["--compress", "powersgd:2000"], "takes the rank of its matrices, 1 to 1024, such as"),
        (["--compress", "int7"], "--compress: unknown codec 'int7'; there is: none, fp16"),
        (["--compress", "2bit", "--error-feedback", "2"], "--error-feedback must be between 0"),
        (["--outer", "nesterov:0.7:0.9"], "--outer nesterov:0.7:0.9 does not apply to strategy"),
        (["--strategy", "local-sgd", "--outer", "sgd:0"], "--outer: LR must be above 0 and up to"),
        (["--strategy", "pairwise", "--compress", "2bit"], "whose partners change every round"),
        (["--strategy", "ring", "--compress", "sign"], "these codes cannot be added up; use all"),
        (["--strategy", "quorum", "--compress", "int8"], "--compress does not apply to strategy"),
        (["--strategy", "quorum", "--quorum", "5"], "--quorum 5 is more than the 4 workers"),
        (["--strategy", "hierarchical"], "say which workers are in which, such as --sites a:2,b:2"),
        (["--dry-run", "--live"], "--dry-run starts none: leave out one"),
        (["--quick"], "quick is a preset's shorter variant: it goes with --preset"),
    ],
)
def test_a_mistake_is_one_line_with_the_field_and_what_was_given(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in refusal(arguments, capsys)


@pytest.mark.parametrize(
    ("arguments", "choices"),
    [
        (["--strategy", "gossip"], tuple(STRATEGIES)),
        (["--strategy", ""], tuple(STRATEGIES)),
        (["--schedule", "gossip", "--passes", "1"], SCHEDULE_CHOICES),
        (["--workload", "vgg19"], tuple(WORKLOADS)),
        (["--model", "vgg19"], (*MODELS, synthetic.FORM, synthetic.PROFILE_FORM)),
        (["--dataset", "imagenet"], tuple(catalogue.DATASETS)),
        (["--optimizer", "adam"], tuple(OPTIMIZERS)),
        (["--engine", "gossip"], ("auto", "docker", "netns")),
        (["--engine", "docker,netns"], ("auto", "docker", "netns")),
    ],
)
def test_an_unknown_name_lists_what_exists(
    arguments: list[str], choices: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal(arguments, capsys)
    assert f"unknown {arguments[0].removeprefix('--')} '{arguments[1]}'; there is: " in line
    assert ", ".join(choices) in line


def test_passes_with_a_strategy_that_has_none_says_which_has(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = refusal(["--passes", "1", "--strategy", "allreduce"], capsys)
    assert line.endswith("passes does not apply to strategy allreduce; it applies to: pairwise")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--spark-master", "http://host:7077"], "is no cluster; give spark://HOST:7077"),
        (["--spark-master", "local-cluster[2,1]"], "is no cluster; give spark://HOST:7077"),
        (["--spark-master", "yarn", "--engine", "netns"], "leave out --engine netns"),
        (["--spark-master", "yarn", "--link", "20mbit"], "link does not apply to nodes"),
        (
            ["--spark-master", "yarn", *["--sites", "a:2,b:2", "--inside", "a:5mbit"]],
            "sites does not apply",
        ),
        (["--spark-master", "yarn", "--straggler", "1:0.5"], "straggler does not apply to nodes"),
        (["--spark-master", "yarn", "--strategy", "ring"], "launcher spark has no ring"),
        (["--engine", "netns"], "launcher spark needs containers: use --engine docker"),
    ],
)
def test_what_spark_cannot_do_is_refused(
    flags: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in refusal(["--launcher", "spark", *flags], capsys)


def test_why_a_driver_did_not_come_up_is_what_java_said_first() -> None:
    said = "either HADOOP_CONF_DIR or YARN_CONF_DIR must be set in the environment."
    log = (
        f'Exception in thread "main" org.apache.spark.SparkException: {said}\n'
        "\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)\n"
        "pyspark.errors.exceptions.base.PySparkRuntimeError: [JAVA_GATEWAY_EXITED] Java gateway"
        " exited.\n"
    )
    assert host_launchers.java_cause(log) == said
    assert host_launchers.java_cause("one\ntwo\n") == "two"
    assert host_launchers.java_cause("") == "no output"


def test_a_driver_that_says_nothing_is_given_up_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunFolder(tmp_path / "run").create()
    plan = ClusterPlan(
        name="x",
        nodes=1,
        auxiliary_services=(),
        cpus={},
        memory_bytes=None,
        links={},
        runs=(run,),
        data_folder=tmp_path,
        writers=(),
        node_folders=tmp_path,
    )
    monkeypatch.setattr(hosts_cluster, "START_TIMEOUT_S", 0.2)
    monkeypatch.setattr(hosts_cluster, "STOP_TIMEOUT_S", 0.2)
    mark = tmp_path / "ended"
    monkeypatch.setattr(hosts_cluster, "DRIVER", ("sh", "-c", f"cat; touch {mark}; sleep 60"))
    cluster = hosts_cluster.HostsCluster(plan, "slurm", HostOptions(patience_s=0), print)
    with pytest.raises(EngineError, match=r"did not come up: no answer within 0\.2 s"), cluster:
        pass
    assert mark.exists()  # it was told, before it was killed


def test_a_master_without_its_launcher_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(["--spark-master", "yarn"], capsys)
    assert line.endswith("--spark-master needs --launcher spark, not torch")


def test_a_master_that_does_not_answer_is_told_with_how_it_was_tried(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_launchers, "PAUSE_S", 0.1)
    with socket.socket() as taken:  # by one that does not listen, so that nobody else will
        taken.bind(("127.0.0.1", 0))
        url = f"spark://127.0.0.1:{taken.getsockname()[1]}"
        line = refusal(["--launcher", "spark", "--spark-master", url], capsys)
    said = rf"no master answers at {url}: 3 connections tried within \d+ s \(Connection refused\)"
    assert re.search(said, line)


def test_quiet_and_json_do_not_swallow_a_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    assert "workers" in refusal(["--workers", "0", "--quiet", "--json"], capsys)


MISTYPED = [["--wrokers", "2"], ["--workers"], ["2"], ["--quiet=yes"]]


@pytest.mark.parametrize("arguments", MISTYPED, ids=" ".join)
def test_a_mistyped_flag_is_named_with_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        measure.main(arguments)
    stdout, stderr = capsys.readouterr()
    assert stop.value.code == 2
    assert stdout == ""
    assert arguments[0].split("=")[0] in stderr.splitlines()[-1]
    assert contents(Path.cwd()) == []


def test_a_mistyped_flag_is_one_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        measure.main(["--wrokers", "2"])
    assert len(capsys.readouterr().err.splitlines()) == 1
