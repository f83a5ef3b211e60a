"""The compose document of a run: N unprivileged nodes on one switch, and nothing more."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.containers.compose_file import (
    NODE_FILE,
    SPARK_FILE,
    compose_document,
    path_in_node,
    project_name,
    recording_document,
    split_service,
)
from cluster.links.background_sender import SenderPlan
from cluster.links.helper import HelperPlan, PathProbe
from cluster.links.tc import CONGESTION_CONTROL
from cluster.namespaces import isolation
from cluster.spec.documents.codec import from_json
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.experiment import PROCESSES, Experiment

RUN = RunFolder(Path("/home/someone/runs/20260101-000000-abcd/001-allreduce-n4-s1"))
DATA = Path("/home/someone/.cache/gradwire/mnist")
PRIVILEGES = {
    *("privileged", "cap_add", "ports", "devices", "network_mode", "pid", "ipc", "userns_mode"),
    *("volumes_from", "build", "command", "entrypoint", "cgroup_parent"),
}
EXPERIMENTS = [
    Experiment(strategy="single", workers=1),
    Experiment(workers=4),
    Experiment(workers=12, strategy="pairwise", passes=2, schedule="grid", train_size=60_000),
]


def document(
    experiment: Experiment, run: RunFolder = RUN, delay_line: bool = False
) -> dict[str, Any]:
    given = {"image": "gradwire-worker:0123", "user": "1000:1000"}
    return compose_document(experiment, run, **given, data_folder=DATA, delay_line=delay_line)


def nodes(experiment: Experiment) -> dict[str, dict[str, Any]]:
    services: dict[str, dict[str, Any]] = document(experiment)["services"]
    return services


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, entry in value.items():
            yield str(key)
            yield from strings(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from strings(entry)
    elif isinstance(value, str):
        yield value


@pytest.fixture(params=EXPERIMENTS, ids=lambda experiment: experiment.label)
def experiment(request: pytest.FixtureRequest) -> Experiment:
    assert isinstance(request.param, Experiment)
    return request.param


def test_every_worker_is_a_service_and_there_is_no_other(experiment: Experiment) -> None:
    assert list(nodes(experiment)) == [f"node{rank}" for rank in range(experiment.workers)]


def test_every_node_extends_the_hardened_node(experiment: Experiment) -> None:
    written = yaml.safe_load(NODE_FILE.read_text())
    for node in nodes(experiment).values():
        assert node["extends"]["file"] == str(NODE_FILE)
        assert node["extends"]["service"] in written["services"]


def test_name_hostname_and_rank_are_the_same_everywhere(experiment: Experiment) -> None:
    for rank, (name, node) in enumerate(nodes(experiment).items()):
        assert name == node["hostname"] == f"node{rank}"
        assert node["environment"]["RANK"] == str(rank)
        assert node["environment"]["WORLD_SIZE"] == str(experiment.workers)


def test_nodes_differ_in_nothing_but_name_and_rank(experiment: Experiment) -> None:
    def stripped(node: dict[str, Any]) -> dict[str, Any]:
        environment = {k: v for k, v in node["environment"].items() if k != "RANK"}
        return {**node, "hostname": None, "environment": environment}

    first, *others = [stripped(node) for node in nodes(experiment).values()]
    assert all(other == first for other in others)


def test_no_node_is_privileged_or_reachable_from_outside(experiment: Experiment) -> None:
    for node in nodes(experiment).values():
        assert set(node) & PRIVILEGES == set()
        assert node["sysctls"] == CONGESTION_CONTROL
        assert node["user"] == "1000:1000"


def test_the_hardened_node_has_no_privilege() -> None:
    node = yaml.safe_load(NODE_FILE.read_text())["services"]["node"]
    assert set(node) & PRIVILEGES == set()
    assert node["cap_drop"] == ["ALL"]
    assert node["read_only"] is True
    assert "no-new-privileges:true" in node["security_opt"]
    assert node["user"].split(":")[0] != "0"
    assert node["pids_limit"] == PROCESSES
    assert node["ulimits"]["fsize"] == isolation.FILE_BYTES


def test_the_only_network_is_internal(experiment: Experiment) -> None:
    networks = document(experiment)["networks"]
    assert [network["internal"] for network in networks.values()] == [True]
    for node in nodes(experiment).values():
        assert node["networks"] == list(networks)


def test_nodes_mount_the_session_and_the_data_read_only(experiment: Experiment) -> None:
    for node in nodes(experiment).values():
        assert [volume["source"] for volume in node["volumes"]] == [str(RUN.path.parent), str(DATA)]
        assert all(volume["read_only"] for volume in node["volumes"])


def test_the_engine_adds_a_writable_folder_for_each_writer() -> None:
    experiment = Experiment(workers=2, launcher="spark", engine="docker")
    added = recording_document(experiment.event_writers, Path("/runs/.nodes"))["services"]
    sources = {name: service["volumes"][0]["source"] for name, service in added.items()}
    assert sources == {name: f"/runs/.nodes/{name}" for name in ("node0", "node1", "driver")}
    assert set(sources) <= set(nodes(experiment))
    for service in added.values():
        assert service["environment"]["GRADWIRE_NODE_FOLDER"] == service["volumes"][0]["target"]


def test_a_run_is_found_in_the_node_below_the_mounted_session(experiment: Experiment) -> None:
    assert path_in_node(RUN) == "/session/001-allreduce-n4-s1"
    for node in nodes(experiment).values():
        assert path_in_node(RUN) in node["environment"]["GRADWIRE_RUNS"]


def test_started_by_hand_it_repeats_its_run_and_records_nothing(experiment: Experiment) -> None:
    for node in nodes(experiment).values():
        environment = node["environment"]
        assert environment["GRADWIRE_RUNS"] == f"${{GRADWIRE_RUNS:-{path_in_node(RUN)}}}"
        assert environment["GRADWIRE_RECORD"] == "0"


def test_cpus_are_limited_only_by_the_option(experiment: Experiment) -> None:
    assert set(cores(experiment)) == {None}
    assert cores(dataclasses.replace(experiment, cpus=0.5)) == [0.5] * experiment.workers


def cores(experiment: Experiment) -> list[float | None]:
    """By node; None where there is no limit."""
    return [
        node["cpu_quota"] / node["cpu_period"] if "cpu_quota" in node else None
        for node in nodes(experiment).values()
    ]


def test_only_nodes_have_a_memory_limit() -> None:
    limit = ("mem_limit", "memswap_limit")
    assert all(set(limit) & set(node) == set() for node in nodes(SHAPED).values())
    for launcher in ("torch", "spark"):
        made = nodes(dataclasses.replace(SHAPED, total_memory="3g", launcher=launcher))
        limited = {
            name: [node[key] for key in limit] for name, node in made.items() if limit[0] in node
        }
        assert limited == {f"node{rank}": [2**30, 2**30] for rank in range(3)}
        assert len(made) > 3


def test_a_straggler_has_a_limit_of_its_own() -> None:
    assert cores(Experiment(workers=3, cpus=1, straggler="1:0.5")) == [1, 0.5, 1]
    assert cores(Experiment(workers=3, straggler="1:0.5")) == [None, 0.5, None]


SHAPED = Experiment(workers=3, bottleneck="1:20mbit,2:5mbit")


def test_every_shaped_node_has_a_helper_and_all_share_a_reference() -> None:
    assert list(nodes(SHAPED)) == ["node0", "node1", "node2", "reference", "link1", "link2"]
    assert nodes(SHAPED)["reference"]["command"][-1] == "2"
    assert list(nodes(Experiment(workers=2, link="1mbit")))[2:] == ["reference", "link0", "link1"]


def test_only_a_helper_may_change_the_network_and_only_that_of_its_node() -> None:
    for name, service in nodes(SHAPED).items():
        if name.startswith("link"):
            assert service["cap_add"] == ["NET_ADMIN"]
            assert service["network_mode"] == f"service:node{name[-1]}"
            assert "volumes" not in service
        else:
            assert "cap_add" not in service
            assert "network_mode" not in service
        assert service["extends"]["service"] == "node"  # which drops all capabilities
        assert "privileged" not in service


def test_no_worker_starts_before_the_links_are_verified() -> None:
    made = nodes(SHAPED)
    for shaped in ("node1", "node2"):
        assert made[shaped]["command"][:3] == ["python", "-m", "cluster.links.gate"]
    for helper in ("link1", "link2"):
        assert made["node0"]["depends_on"][helper] == {
            "condition": "service_completed_successfully"
        }


def test_the_helper_is_told_the_link_and_the_node() -> None:
    assert told(SHAPED, "link2") == HelperPlan("node2", "reference", 1, link="5mbit")


def told(experiment: Experiment, helper: str) -> HelperPlan:
    return from_json(HelperPlan, json.loads(nodes(experiment)[helper]["command"][-1]))


def test_the_first_nodes_of_two_sites_measure_the_path_between_them() -> None:
    run = Experiment(workers=5, sites="a:2,b:2,c:1", between="a-b:5mbit,b-c:9mbit", dilation=1)
    made = nodes(run)
    assert [name for name in made if name.startswith("link")] == [f"link{k}" for k in range(5)]
    assert "reference" not in made
    found = [told(run, f"link{rank}") for rank in range(5)]
    assert [plan.through_router for plan in found] == [
        *[("node2", "node3")] * 2,
        *[("node0", "node1", "node4")] * 2,
        ("node2", "node3"),
    ]
    assert [(plan.probes, plan.probed) for plan in found] == [
        ((PathProbe("a-b", "5mbit", "node2"),), 0),
        ((), 0),
        ((PathProbe("b-c", "9mbit", "node4"),), 1),
        ((), 0),
        ((), 1),
    ]
    assert made["router"]["cap_add"] == ["NET_ADMIN"]
    assert "devices" not in made["router"]
    delayed = document(run, delay_line=True)["services"]["router"]
    assert delayed["devices"] == ["/dev/net/tun"]
    assert delayed["cap_add"] == ["NET_ADMIN", "SYS_NICE"]
    assert made["router"]["sysctls"]["net.ipv4.ip_forward"] == "1"


def test_all_helpers_carry_their_session_and_their_owner() -> None:
    for service in nodes(SHAPED).values():
        assert service["labels"] == nodes(Experiment())["node0"]["labels"]


@pytest.mark.parametrize(
    ("service", "parts"),
    [("node12", ("node", 12)), ("link0", ("link", 0)), ("reference", ("reference", -1))],
)
def test_a_service_is_a_role_and_a_rank(service: str, parts: tuple[str, int]) -> None:
    assert split_service(service) == parts


def test_every_service_and_network_carries_its_session_and_its_owner(
    experiment: Experiment,
) -> None:
    made = document(experiment)
    for part in (*made["services"].values(), *made["networks"].values()):
        assert part["labels"]["gradwire.session"] == RUN.session
        assert part["labels"]["gradwire.owner"] == "${GRADWIRE_OWNER:-by-hand}"


def test_every_cluster_has_a_project_name_of_its_own() -> None:
    paths = [
        "20260101-000000-abcd/001-a",
        "20260101-000000-abcd/002-a",
        "20260101-000000-ffff/001-a",
    ]
    names = {document(Experiment(), RunFolder(Path("/runs") / path))["name"] for path in paths}
    assert len(names) == 3
    assert all(name.startswith(project_name("")) for name in names)


def test_a_document_is_the_same_each_time_and_survives_yaml(experiment: Experiment) -> None:
    made = document(experiment)
    assert made == document(experiment)
    assert yaml.safe_load(yaml.safe_dump(made, sort_keys=False)) == made


def test_a_dollar_in_a_path_is_escaped() -> None:
    """Compose reads $name as a variable, and $$ as a dollar."""
    run = RunFolder(Path("/home/cash$flow/runs/20260101-000000-abcd/001-allreduce-n4-s1"))
    sources = [
        volume["source"]
        for node in document(Experiment(), run)["services"].values()
        for volume in node["volumes"]
    ]
    assert "/home/cash$$flow/runs/20260101-000000-abcd" in sources


def test_compose_substitutes_only_variables_of_gradwire(experiment: Experiment) -> None:
    variables = {text for text in strings(document(experiment)) if "$" in text}
    assert all("GRADWIRE_" in text for text in variables)
    assert variables


# --- spark ---------------------------------------------------------------------------------------


def spark_document(**options: Any) -> dict[str, Any]:
    return document(Experiment(workers=3, launcher="spark", engine="docker", **options))


def test_a_spark_cluster_has_a_worker_on_every_node_and_auxiliary_services() -> None:
    services = spark_document()["services"]
    assert list(services) == ["node0", "node1", "node2", "master", "driver", "pages"]
    for name in ("node0", "node1", "node2"):
        assert "org.apache.spark.deploy.worker.Worker" in services[name]["command"]
        assert services[name]["hostname"] == name
    assert services["driver"]["command"][-1] == "workloads.launchers.spark_driver"


def test_only_the_proxy_of_the_web_pages_is_on_a_network_with_a_way_out() -> None:
    made = spark_document()
    assert made["networks"]["cluster"]["internal"] is True
    for name, service in made["services"].items():
        assert "ports" not in service, name
        assert "outside" not in service.get("networks", []), name
    file = yaml.safe_load(SPARK_FILE.read_text())
    outside = [n for n, service in file["services"].items() if "outside" in service["networks"]]
    assert outside == ["pages"]
    assert all(port.startswith("127.0.0.1:") for port in file["services"]["pages"]["ports"])


def test_the_memory_of_the_secret_is_that_of_the_cluster_by_hand() -> None:
    by_hand = yaml.safe_load(SPARK_FILE.read_text())
    assert spark_document()["volumes"] == by_hand["volumes"]


def test_a_slow_spark_worker_starts_after_its_link_is_verified() -> None:
    services = spark_document(bottleneck="1:20mbit")["services"]
    assert services["node1"]["command"][:3] == ["python", "-m", "cluster.links.gate"]
    assert services["node1"]["command"][3:] == services["node0"]["command"]
    assert "link1" in services["node0"]["depends_on"]


# --- GPUs ----------------------------------------------------------------------------------------

ON_GPUS = Experiment(workers=3, gpu=1, engine="docker")


def test_every_node_sees_all_gpus_and_computes_on_its_own() -> None:
    for rank in range(3):
        node = nodes(ON_GPUS)[f"node{rank}"]
        (device,) = node["deploy"]["resources"]["reservations"]["devices"]
        assert device == {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
        assert node["environment"]["CUDA_VISIBLE_DEVICES"] == str(rank)
    alone = nodes(Experiment(strategy="single", workers=1, gpu=4, engine="docker"))["node0"]
    assert alone["environment"]["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"


def test_nodes_with_gpus_share_memory_and_process_numbers_and_have_no_privilege() -> None:
    made = nodes(ON_GPUS)
    assert list(made) == ["node0", "node1", "node2", "machine"]
    assert made["machine"]["ipc"] == "shareable"
    assert made["machine"]["shm_size"] == "1gb"
    for name, service in made.items():
        assert not {"privileged", "cap_add", "ports", "devices", "volumes_from"} & set(service), (
            name
        )
        assert service.get("network_mode") in (None, "none")
        assert service["labels"] == made["node0"]["labels"]
        if name != "machine":
            assert service["pid"] == service["ipc"] == "service:machine"
            assert service["ulimits"]["memlock"] == -1
            assert service["environment"]["NCCL_HOSTID"] == "gradwire"


def test_a_generated_node_with_a_gpu_equals_that_of_compose_gpu_yml() -> None:
    written = yaml.safe_load((NODE_FILE.parent / "gpu.yml").read_text())
    by_hand, made = written["x-node"], nodes(ON_GPUS)["node0"]
    assert made["ulimits"] == by_hand["ulimits"]
    assert made["init"] == by_hand["init"]
    assert made["deploy"] == by_hand["deploy"]
    nccl = {k: v for k, v in made["environment"].items() if k.startswith("NCCL_")}
    assert nccl == {k: v for k, v in written["x-worker"].items() if k in nccl}


def test_virtual_workers_share_one_node_that_may_have_a_thread_for_each() -> None:
    experiment = Experiment(
        virtual=True, workers=1000, train_size=60_000, batch_size=8, link="1gbit"
    )
    found = nodes(experiment)
    assert list(found) == ["node0"]
    assert found["node0"]["pids_limit"] == PROCESSES + 1000
    assert found["node0"]["environment"]["WORLD_SIZE"] == "1"
    assert set(found["node0"]) & PRIVILEGES == set()


def test_background_traffic_has_a_program_beside_each_of_its_nodes() -> None:
    made = nodes(Experiment(workers=4, background="1-3:10mbit"))
    beside = {name: service for name, service in made.items() if name.startswith("background")}
    assert list(beside) == ["background1", "background3"]
    for rank in (1, 3):
        service = beside[f"background{rank}"]
        assert service["network_mode"] == f"service:node{rank}"
        assert not PRIVILEGES & service.keys() - {"network_mode", "command"}
        plan = from_json(SenderPlan, json.loads(service["command"][-1]))
        assert (plan.node, plan.flows, plan.addresses[3]) == (rank, "1-3:10mbit", "node3")
