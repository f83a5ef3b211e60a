"""Manifests of --prepare --for kubernetes, held to the API's own schema."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubeflow_trainer_api.models.trainer_v1alpha1_train_job import TrainerV1alpha1TrainJob
from kubernetes import client
from pydantic import ValidationError

from tests.measuring import COMMAND, PROJECT

IMAGE = "registry.example/gradwire-worker:1"
KINDS = {
    "ConfigMap": "V1ConfigMap",
    "PersistentVolumeClaim": "V1PersistentVolumeClaim",
    "Service": "V1Service",
    "Job": "V1Job",
    "Pod": "V1Pod",
}


def problems(kind: str, manifest: dict[str, Any]) -> list[str]:
    """What is not of the API's type: unknown keys, wrong types, missing ones."""
    try:
        getattr(client, kind).model_validate(manifest, strict=True)
    except ValidationError as error:
        places = (".".join(map(str, found["loc"])) for found in error.errors())
        return sorted(places)
    return []


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kubernetes") / "My_run.1"
    flags = ["--workers", "3", "--strategy", "pairwise", "--prepare", str(folder)]
    command = [*COMMAND, *flags, "--for", "kubernetes", "--image", IMAGE]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"kubectl apply -f {folder}/kubernetes.yaml" in done.stdout
    return folder


def documents(folder: Path, name: str) -> dict[str, dict[str, Any]]:
    return {d["kind"]: d for d in yaml.safe_load_all((folder / name).read_text())}


def test_every_manifest_has_the_types_of_the_api(prepared: Path) -> None:
    found = documents(prepared, "kubernetes.yaml")
    assert set(found) == set(KINDS)
    for kind, manifest in found.items():
        assert problems(KINDS[kind], manifest) == []


def test_the_check_finds_what_is_wrong(prepared: Path) -> None:
    """Else the test above could not fail."""
    job = documents(prepared, "kubernetes.yaml")["Job"]
    pod = job["spec"]["template"]["spec"]
    pod["containers"][0]["volumeMount"] = []
    job["spec"]["completions"] = "3"
    del pod["containers"][0]["name"]
    container = "spec.template.spec.containers.0"
    assert problems("V1Job", job) == [
        "spec.completions",
        f"{container}.name",
        f"{container}.volumeMount",
    ]


def test_the_train_job_is_one_of_kubeflows_trainer(prepared: Path) -> None:
    manifest = documents(prepared, "trainjob.yaml")["TrainJob"]
    parsed = TrainerV1alpha1TrainJob.from_dict(manifest)
    assert parsed is not None
    assert parsed.to_dict() == manifest  # nothing was unknown to it
    assert manifest["spec"]["trainer"]["numNodes"] == 3


def test_the_pods_find_the_first_one_and_the_run(prepared: Path) -> None:
    """A pod of an Indexed Job is called JOB-INDEX, below the headless service of its subdomain."""
    found = documents(prepared, "kubernetes.yaml")
    job, service = found["Job"]["spec"], found["Service"]
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    name = found["Job"]["metadata"]["name"]
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?", name)
    assert environment["MASTER_ADDR"] == f"{name}-0.{service['metadata']['name']}"
    assert pod["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"].items() <= job["template"]["metadata"]["labels"].items()
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 3, 3)
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["spec"]["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]
    claim = volumes["results"]["persistentVolumeClaim"]["claimName"]
    assert claim == found["PersistentVolumeClaim"]["metadata"]["name"]
    assert found["ConfigMap"]["data"]["spec.json"] == (prepared / "spec.json").read_text()


def test_a_pods_command_trains_with_what_is_mounted(prepared: Path, tmp_path: Path) -> None:
    """The container's own shell line, on this machine, with its variables."""
    folder = prepared.parent / "one"
    flags = ["--workers", "1", "--strategy", "single", "--model", "synthetic:4k", "--epochs", "1"]
    flags += ["--prepare", str(folder), "--for", "kubernetes", "--image", IMAGE]
    subprocess.run([*COMMAND, *flags], cwd=PROJECT, check=True, capture_output=True)
    job = documents(folder, "kubernetes.yaml")["Job"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    assert environment["GRADWIRE_RUNS"] == "/results"
    done = subprocess.run(
        container["command"],
        cwd=PROJECT,
        env={
            **environment,
            "GRADWIRE_RUNS": str(folder),
            "JOB_COMPLETION_INDEX": "0",
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert '"event":"end"' in (folder / "events" / "node0.jsonl").read_text()
