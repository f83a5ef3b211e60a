"""compose/gpu.yml as Compose reads it, by profile: GPUs for nodes, and no privileges."""

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
AUXILIARY = {"session", "plan", "collector", "report"}
VARIABLES = (
    *("GPUS", "GPU_IDS", "WORKLOAD", "STRATEGY", "PASSES", "EPOCHS", "BATCH_SIZE", "FLAGS"),
    *("RANK", "NETWORK", "SSL_CERT_FILE", "PIP_FIND_LINKS"),
)
"""Variables of the environment that compose/gpu.yml reads, beside GRADWIRE_*."""


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
    plain = {
        k: v for k, v in os.environ.items() if k not in VARIABLES and not k.startswith("GRADWIRE_")
    }
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
    assert set(services()) == {*AUXILIARY, "node"}
    assert set(services("ddp")) - set(services()) == {"plan-ddp"}
    assert services()["node"]["deploy"]["replicas"] == 2
    assert services(GPUS="4")["node"]["deploy"]["replicas"] == 4
    environment = services()["plan"]["environment"]
    assert environment["PROFILE"] == services("ddp")["plan-ddp"]["environment"]["PROFILE"] == "ddp"
    assert environment["STRATEGY"] == "ddp"


def test_a_profile_adds_its_plan_and_its_nodes(profile: str) -> None:
    assert set(services(profile)) == {*AUXILIARY, "node", f"plan-{profile}", NODES[profile]}
    own = services(profile)[NODES[profile]]["environment"]["PROFILE"]
    assert own == services(profile)[f"plan-{profile}"]["environment"]["PROFILE"] == profile


def test_the_default_plan_runs_after_a_profiles_own(profile: str) -> None:
    after = services(profile)["plan"]["depends_on"]
    assert after[f"plan-{profile}"]["condition"] == "service_completed_successfully"
    assert services(profile)["plan"]["environment"]["UNLESS_PLANNED"] == "yes"


def test_nodes_see_all_gpus_and_the_collector_may_read_them(profile: str) -> None:
    for name, service in services(profile).items():
        computes = name in NODES.values()
        wanted = ["gpu"] if computes else ["gpu", "utility"] if name == "collector" else None
        found = [(d["driver"], d["count"], d["capabilities"]) for d in devices(service)]
        assert found == ([("nvidia", -1, wanted)] if wanted else []), name


def test_only_plans_have_a_back_end_which_is_nccl(profile: str) -> None:
    for name, service in services(profile).items():
        backend = service.get("environment", {}).get("BACKEND")
        assert backend == ("nccl" if name.startswith("plan") else None), name


def test_nodes_have_what_nccl_needs(profile: str) -> None:
    made = services(profile)
    node = made[NODES[profile]]
    assert node["ulimits"].items() >= {"memlock": -1, "stack": 64 * 2**20}.items()
    assert node["ipc"] == node["pid"] == "service:collector"
    assert made["collector"]["ipc"] == "shareable"
    assert int(made["collector"]["shm_size"]) == 2**30
    assert node["environment"]["NCCL_HOSTID"] == (
        "gradwire-0" if profile == "multi-host" else "gradwire"
    )


def test_no_service_is_privileged_or_has_the_hosts_network_or_the_engines_socket(
    profile: str,
) -> None:
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


def test_the_build_of_the_nodes_image_takes_another_base() -> None:
    for profile, given in (("ddp", {"GPU_BASE"}), ("horovod", {"GPU_BASE", "GPU_DEVEL_BASE"})):
        made = services(profile, GPU_BASE="base", GPU_DEVEL_BASE="devel")[NODES[profile]]["build"]
        assert {k: v for k, v in made["args"].items() if v is not None} == {
            name: "base" if name == "GPU_BASE" else "devel" for name in given
        }


def test_hosts_use_an_existing_network() -> None:
    made = document("multi-host", RANK="3", NETWORK="lab")
    assert made["networks"]["hosts"]["name"] == "lab"
    assert made["networks"]["hosts"]["external"] is True
    assert list(made["services"]["multi-host"]["networks"]) == ["hosts"]
    assert made["services"]["multi-host"]["environment"]["RANK"] == "3"


def test_on_cpus_only_devices_back_end_and_the_nodes_image_differ(profile: str) -> None:
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


COMPOSE_FILES = [PROJECT / "compose" / f"{name}.yml" for name in ("cluster", "spark", "gpu")]


@pytest.mark.parametrize("file", COMPOSE_FILES, ids=lambda file: file.stem)
def test_every_build_takes_the_hosts_ca_bundle_and_wheels(file: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "ca.crt"
    bundle.write_text("certificates")
    given = {"SSL_CERT_FILE": str(bundle), "PIP_FIND_LINKS": str(tmp_path)}
    made, plain = document(files=(file,), **given), document(files=(file,))
    assert made["secrets"]["ca"]["file"] == str(bundle)
    assert plain["secrets"]["ca"]["file"] == "/dev/null"
    for service, default in zip(made["services"].values(), plain["services"].values(), strict=True):
        assert [secret["source"] for secret in service["build"]["secrets"]] == ["ca"]
        assert service["build"]["additional_contexts"] == {"wheels": str(tmp_path)}
        wheels = Path(default["build"]["additional_contexts"]["wheels"])
        assert wheels.resolve() == PROJECT / "docker" / "wheels"


def test_services_that_fetch_data_trust_the_hosts_ca_bundle(tmp_path: Path) -> None:
    fetching = [(COMPOSE_FILES[0], "data"), (FILE, "plan")]
    for file, name in fetching:
        for variables, path in (
            ({"SSL_CERT_FILE": str(tmp_path / "ca")}, "/run/secrets/ca"),
            ({}, ""),
        ):
            service = document(files=(file,), **variables)["services"][name]
            assert service["environment"]["SSL_CERT_FILE"] == path
            assert [secret["source"] for secret in service["secrets"]] == ["ca"]
