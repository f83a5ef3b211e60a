"""compose/gpu.yml as Compose itself reads it, profile by profile: GPUs for who computes, and no privileges."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cluster.gpu.plan import PROFILES
from tests.measuring import PROJECT

FILE = PROJECT / "compose" / "gpu.yml"
ON_CPU = PROJECT / "tests" / "docker" / "gpu-on-cpu.yml"
NODES = {
    "ddp": "node",
    "data-parallel": "data-parallel",
    "horovod": "horovod",
    "multi-host": "multi-host",
}
ATTENDANTS = {"session", "plan", "collector", "report"}
OURS = (
    "GPUS",
    "GPU_IDS",
    "WORKLOAD",
    "STRATEGY",
    "PASSES",
    "EPOCHS",
    "BATCH_SIZE",
    "FLAGS",
    "RANK",
    "NETWORK",
)


def has_compose() -> bool:
    version = ["docker", "compose", "version"]
    return (
        shutil.which("docker") is not None
        and not subprocess.run(version, capture_output=True).returncode
    )


pytestmark = pytest.mark.skipif(
    os.environ.get("GRADWIRE_REQUIRE_DOCKER") != "1" and not has_compose(),
    reason="no docker compose here, which reads Compose files",
)


@functools.cache
def document(*profiles: str, files: tuple[Path, ...] = (FILE,), **variables: str) -> dict[str, Any]:
    """As `docker compose config` has it; no engine is asked."""
    command = ["docker", "compose"]
    command += [part for file in files for part in ("--file", str(file))]
    command += [part for profile in profiles for part in ("--profile", profile)]
    plain = {k: v for k, v in os.environ.items() if k not in OURS and not k.startswith("GRADWIRE_")}
    answer = subprocess.run(
        [*command, "--env-file", "/dev/null", "config", "--format", "json"],
        env={**plain, **variables},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    parsed: dict[str, Any] = json.loads(answer.stdout)
    return parsed


def services(*profiles: str, **variables: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = document(*profiles, **variables)["services"]
    return found


def devices(service: dict[str, Any]) -> list[dict[str, Any]]:
    reservations = service.get("deploy", {}).get("resources", {}).get("reservations", {})
    found: list[dict[str, Any]] = reservations.get("devices", [])
    return found


@pytest.fixture(params=PROFILES)
def profile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_as_typed_it_is_ddp_with_a_node_for_each_gpu() -> None:
    assert set(services()) == {*ATTENDANTS, "node"}
    assert set(services("ddp")) - set(services()) == {"plan-ddp"}
    assert services()["node"]["deploy"]["replicas"] == 2
    assert services(GPUS="4")["node"]["deploy"]["replicas"] == 4
    environment = services()["plan"]["environment"]
    assert environment["PROFILE"] == services("ddp")["plan-ddp"]["environment"]["PROFILE"] == "ddp"
    assert environment["STRATEGY"] == "ddp"


def test_a_profile_adds_its_plan_and_its_nodes(profile: str) -> None:
    assert set(services(profile)) == {*ATTENDANTS, "node", f"plan-{profile}", NODES[profile]}
    own = services(profile)[NODES[profile]]["environment"]["PROFILE"]
    assert own == services(profile)[f"plan-{profile}"]["environment"]["PROFILE"] == profile


def test_the_plan_that_goes_without_saying_comes_after_a_profiles_own(profile: str) -> None:
    after = services(profile)["plan"]["depends_on"]
    assert after[f"plan-{profile}"]["condition"] == "service_completed_successfully"
    assert services(profile)["plan"]["environment"]["UNLESS_PLANNED"] == "yes"


def test_who_computes_sees_all_gpus_and_the_collector_may_look_at_them(profile: str) -> None:
    """All: NCCL goes from GPU to GPU directly only where a process sees both."""
    for name, service in services(profile).items():
        computes = name in NODES.values()
        wanted = ["gpu"] if computes else ["gpu", "utility"] if name == "collector" else None
        found = [(one["driver"], one["count"], one["capabilities"]) for one in devices(service)]
        assert found == ([("nvidia", -1, wanted)] if wanted else []), name


def test_every_plan_asks_for_nccl_and_nobody_else_says_so(profile: str) -> None:
    for name, service in services(profile).items():
        backend = service.get("environment", {}).get("BACKEND")
        assert backend == ("nccl" if name.startswith("plan") else None), name


def test_nodes_have_what_nccl_needs(profile: str) -> None:
    made = services(profile)
    node = made[NODES[profile]]
    assert node["ulimits"] == {"memlock": -1, "stack": 64 * 2**20}
    assert node["ipc"] == node["pid"] == "service:collector"
    assert made["collector"]["ipc"] == "shareable"
    assert int(made["collector"]["shm_size"]) == 2**30
    assert node["environment"]["NCCL_HOSTID"] == (
        "gradwire-0" if profile == "multi-host" else "gradwire"
    )


def test_nobody_is_privileged_has_the_hosts_network_or_the_engines_socket(profile: str) -> None:
    for name, service in services(profile).items():
        assert not service.get("privileged"), name
        assert service.get("network_mode") in (None, "none"), name
        assert service.get("pid") in (None, "service:collector"), name
        assert service["cap_drop"] == ["ALL"], name
        assert service.get("cap_add", []) == (
            ["CHOWN", "DAC_OVERRIDE"] if name == "session" else []
        )
        assert service["read_only"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert (service["user"] == "0:0") == (name == "session"), name
        assert not {"ports", "devices", "volumes_from"} & set(service), name
        for volume in service["volumes"]:
            assert "docker.sock" not in volume["source"], name
            assert volume["target"] in ("/runs", "/data"), name


def test_nodes_write_run_folders_and_only_read_data(profile: str) -> None:
    mounts = {v["target"]: v for v in services(profile)[NODES[profile]]["volumes"]}
    assert set(mounts) == {"/runs", "/data"}
    assert mounts["/data"].get("read_only") is True
    assert not mounts["/runs"].get("read_only")
    assert mounts["/runs"]["source"] == str(PROJECT / "runs")


def test_nodes_of_one_host_reach_each_other_and_nothing_else() -> None:
    for profile in ("ddp", "data-parallel", "horovod"):
        made = document(profile)
        assert list(made["services"][NODES[profile]]["networks"]) == ["cluster"]
        assert made["networks"]["cluster"]["internal"] is True


def test_another_base_of_the_nodes_image_is_handed_to_its_build() -> None:
    for profile, given in (("ddp", {"GPU_BASE"}), ("horovod", {"GPU_BASE", "GPU_DEVEL_BASE"})):
        made = services(profile, GPU_BASE="one", GPU_DEVEL_BASE="two")[NODES[profile]]["build"]
        assert {k: v for k, v in made["args"].items() if v is not None} == {
            name: "one" if name == "GPU_BASE" else "two" for name in given
        }


def test_hosts_meet_on_a_network_that_somebody_made_before() -> None:
    made = document("multi-host", RANK="3", NETWORK="lab")
    assert made["networks"]["hosts"]["name"] == "lab"
    assert made["networks"]["hosts"]["external"] is True
    assert list(made["services"]["multi-host"]["networks"]) == ["hosts"]
    assert made["services"]["multi-host"]["environment"]["RANK"] == "3"


def test_on_cpus_it_differs_in_devices_back_end_and_the_nodes_image(profile: str) -> None:
    made = document(profile)["services"]
    on_cpu = document(profile, files=(FILE, ON_CPU))["services"]
    assert set(made) == set(on_cpu)
    for name, service in made.items():
        other = on_cpu[name]
        assert devices(other) == []
        computes = name in NODES.values()
        differing = {key for key in {*service, *other} if service.get(key) != other.get(key)}
        allowed = {"deploy", "image", "build", "ulimits"} if computes else {"deploy", "environment"}
        assert differing <= allowed, (name, differing)
        if "environment" in differing:
            assert other["environment"] == service["environment"] | {"BACKEND": "gloo"}
