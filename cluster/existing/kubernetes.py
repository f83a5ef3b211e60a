"""A run on a Kubernetes cluster, as manifests to apply. Pure.

An Indexed Job starts one worker on each of N nodes; a headless service names the first, where they
meet. A claimed volume collects what they write, and a pod on it hands that out. The variant is a
TrainJob of Kubeflow, for clusters with its trainer.
"""

import re
import shlex
from typing import Any

from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.experiment import Experiment

Manifest = dict[str, Any]
PORT = 29500
RESULTS, DATA, PYTHON = "/results", "/data", "python"
USER = 1000
"""Of docker/Dockerfile's images."""
VOLUME_SIZE = "1Gi"


def name_of(run: RunFolder) -> str:
    """A DNS label; with what follows it at most 63 characters."""
    return f"gradwire-{re.sub('[^a-z0-9]+', '-', run.name.lower()).strip('-')[:40].strip('-')}"


def manifests(
    experiment: Experiment, run: RunFolder, image: str, sets: list[str]
) -> list[Manifest]:
    """In the order in which to apply them; all are removed together."""
    return [
        *_shared(run),
        _service(run),
        _job(experiment, run, image, sets),
        _collector(run, image),
    ]


def train_job(
    experiment: Experiment, run: RunFolder, image: str, sets: list[str]
) -> list[Manifest]:
    """The same by Kubeflow's trainer, whose torch runtime sets torchrun's variables."""
    name = name_of(run)
    worker = f"{PYTHON} -m torch.distributed.run -m workloads.worker"
    patch = {
        "name": "node",
        "template": {
            "spec": {
                "template": {
                    "spec": {
                        "affinity": _one_on_a_node(name),
                        "volumes": _volumes(run),
                        "containers": [{"name": "node", "volumeMounts": _mounts()}],
                    },
                    "metadata": {"labels": _labels(name)},
                }
            }
        },
    }
    job = _manifest("trainer.kubeflow.org/v1alpha1", "TrainJob", name) | {
        "spec": {
            "runtimeRef": {"name": "torch-distributed"},
            "trainer": {
                "image": image,
                "numNodes": experiment.nodes,
                "numProcPerNode": 1,
                "command": ["sh", "-c", _fetch_and(worker, sets)],
                "env": _environment(),
            },
            "runtimePatches": [
                {
                    "manager": "gradwire.org/prepare",
                    "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [patch]}}},
                }
            ],
        }
    }
    return [*_shared(run), job, _collector(run, image)]


def _shared(run: RunFolder) -> list[Manifest]:
    """The run's spec, and the volume of its results."""
    name = name_of(run)
    claim = _manifest("v1", "PersistentVolumeClaim", name) | {
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": VOLUME_SIZE}},
        }
    }
    spec = _manifest("v1", "ConfigMap", name) | {"data": {"spec.json": run.spec.read_text()}}
    return [spec, claim]


def _service(run: RunFolder) -> Manifest:
    name = name_of(run)
    return _manifest("v1", "Service", name) | {
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": _labels(name),
            "ports": [{"name": "rendezvous", "port": PORT}],
        }
    }


def _job(experiment: Experiment, run: RunFolder, image: str, sets: list[str]) -> Manifest:
    name = name_of(run)
    worker = f"RANK=$JOB_COMPLETION_INDEX {PYTHON} -m workloads.worker"
    environment = {
        "WORLD_SIZE": str(experiment.nodes),
        "MASTER_ADDR": f"{name}-0.{name}",  # of the pod with index 0, by the headless service
        "MASTER_PORT": str(PORT),
    }
    container = {
        **_container("worker", image, ["sh", "-c", _fetch_and(worker, sets)]),
        "env": _environment(**environment),
        "volumeMounts": _mounts(),
    }
    pod = {
        "subdomain": name,
        "restartPolicy": "Never",
        "affinity": _one_on_a_node(name),
        "securityContext": _pod_security(),
        "containers": [container],
        "volumes": _volumes(run),
    }
    return _manifest("batch/v1", "Job", name) | {
        "spec": {
            "completionMode": "Indexed",
            "completions": experiment.nodes,
            "parallelism": experiment.nodes,
            "backoffLimit": 0,
            "template": {"metadata": {"labels": _labels(name)}, "spec": pod},
        }
    }


def _collector(run: RunFolder, image: str) -> Manifest:
    """Stays while the results are copied out of the volume."""
    name = name_of(run)
    container = _container("collect", image, ["sleep", "infinity"])
    container["volumeMounts"] = [mount for mount in _mounts() if mount["mountPath"] == RESULTS]
    return _manifest("v1", "Pod", f"{name}-collect") | {
        "spec": {
            "restartPolicy": "Never",
            "securityContext": _pod_security(),
            "containers": [container],
            "volumes": [volume for volume in _volumes(run) if volume["name"] == "results"],
        }
    }


def _manifest(version: str, kind: str, name: str) -> Manifest:
    label = name.removesuffix("-collect")
    about = {"name": name, "labels": {"app.kubernetes.io/part-of": label}}
    return {"apiVersion": version, "kind": kind, "metadata": about}


def _labels(name: str) -> dict[str, str]:
    """Of the pods that train, by which the service finds them."""
    return {"app.kubernetes.io/part-of": name, "app.kubernetes.io/component": "worker"}


def _container(name: str, image: str, command: list[str]) -> Manifest:
    return {
        "name": name,
        "image": image,
        "command": command,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _pod_security() -> Manifest:
    return {"runAsNonRoot": True, "runAsUser": USER, "fsGroup": USER}


def _fetch_and(worker: str, sets: list[str]) -> str:
    fetch = [PYTHON, "-m", "workloads.data", "fetch", *sets, "--data-dir", DATA]
    return f"{shlex.join(fetch)} && exec env {worker}" if sets else f"exec env {worker}"


def _environment(**more: str) -> list[dict[str, str]]:
    own = {
        "GRADWIRE_RUNS": RESULTS,
        "GRADWIRE_RECORD": "unattended",
        "GRADWIRE_DATA": DATA,
        "OMP_NUM_THREADS": "1",
        **more,
    }
    return [{"name": name, "value": value} for name, value in own.items()]


def _one_on_a_node(name: str) -> Manifest:
    """Two workers on a machine would share its cores and its network card."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": _labels(name)},
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _mounts() -> list[Manifest]:
    return [
        {"name": "results", "mountPath": RESULTS},
        {"name": "spec", "mountPath": f"{RESULTS}/spec.json", "subPath": "spec.json"},
        {"name": "data", "mountPath": DATA},
    ]


def _volumes(run: RunFolder) -> list[Manifest]:
    name = name_of(run)
    return [
        {"name": "results", "persistentVolumeClaim": {"claimName": name}},
        {"name": "spec", "configMap": {"name": name}},
        {"name": "data", "emptyDir": {}},
    ]
