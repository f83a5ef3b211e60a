"""A run -> the Compose document that starts its cluster. Pure.

Every node extends the hardened one in compose/node.yml. Started by hand, the file repeats its run
and prints results; nodes can write nothing. The engine adds a folder for each node, in which it
records events, and nodes wait for each run of GRADWIRE_RUNS to be released.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster import PROJECT
from cluster.links import background_sender, router
from cluster.links.background_sender import SenderPlan
from cluster.links.delay_line import FILE
from cluster.links.helper import HelperPlan, PathProbe
from cluster.links.router_service import RouterPlan
from cluster.links.tc import CONGESTION_CONTROL, tcp_settings
from cluster.spec import clock
from cluster.spec.dilation import cpu_quota
from cluster.spec.documents.node_files import NODE_FOLDER
from cluster.spec.documents.records import COUNTED_VARIABLE
from cluster.spec.documents.run_folder import RunFolder, node_name
from cluster.spec.experiment import Experiment
from cluster.spec.links import Link
from cluster.spec.program import ISOLATED
from cluster.spec.sites import Pair, path_name, write_between

Service = dict[str, Any]
"""A service of a Compose document."""

SESSION = "/session"
OWN_FOLDER = "/node"
REFERENCE = "reference"
BACKGROUND = "background"
"""The service of a node's background traffic, with the node's rank: background2."""
COUNTED = "eth0"
"""A container's interface to the other nodes."""
HELPER_CAPABILITIES = ("NET_ADMIN",)
OWNER_LABEL = "gradwire.owner"
SESSION_LABEL = "gradwire.session"
COMPOSE = PROJECT / "compose"
NODE_FILE = COMPOSE / "node.yml"
SPARK_FILE = COMPOSE / "spark.yml"
WORKER = ["python", "-m", "workloads.worker"]
SPARK_WORKER = [
    *("spark-class", "org.apache.spark.deploy.worker.Worker", "spark://master:7077"),
    *("--cores", "1", "--memory", "1g", "--work-dir", "/tmp/work"),
]
BUILD_SECRETS = {"ca": {"file": "/dev/null"}}
"""compose/spark.yml's services name this secret for building their image, which is built before."""
SECRET = {"driver_opts": {"type": "tmpfs", "device": "tmpfs", "o": "mode=1777,size=64k"}}
"""The memory in which nodes of compose/spark.yml find the secret of their cluster."""
MACHINE = "machine"
"""The service whose memory and process numbers nodes with GPUs share, as in compose/gpu.yml."""
SHARED_MEMORY = "1gb"
GPUS = {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
"""All GPUs for every node: NCCL copies between GPUs directly only if a process sees both."""
NCCL = {"NCCL_HOSTID": "gradwire", "NCCL_CUMEM_ENABLE": "0", "NCCL_CUMEM_HOST_ENABLE": "0"}
SPARK_DRIVER = ["python", "-m", "workloads.launchers.spark_driver"]


def project_name(cluster: str) -> str:
    return f"gradwire-{cluster}"


def compose_document(
    experiment: Experiment,
    run: RunFolder,
    *,
    image: str,
    user: str,
    data_folder: Path,
    delay_line: bool = False,
) -> Service:
    """With a `delay_line` paths between sites are delayed in user space."""
    with_spark = experiment.launcher == "spark"
    node = {
        "image": image,
        "user": user,
        "labels": _labels(run),
        **_reached(experiment),
        "sysctls": tcp_settings(experiment.all_shaped),
        "environment": {
            "GRADWIRE_RUNS": f"${{GRADWIRE_RUNS:-{path_in_node(run)}}}",
            "GRADWIRE_RECORD": "0",
            clock.VARIABLE: f"${{{clock.VARIABLE}:-}}",
            **({} if experiment.network == ISOLATED else {COUNTED_VARIABLE: COUNTED}),
        },
        "volumes": [
            _mounted(run.path.parent, SESSION, read_only=True),
            _mounted(data_folder, "/data", read_only=True),
            *(_mounted(Path(own), own, read_only=True) for own in experiment.user_folders),
        ],
    }
    make = _spark_worker if with_spark else _node
    return {
        "name": project_name(f"{run.session}-{run.name[:3]}"),
        "services": {
            **{
                node_name(rank): _limited(make(rank, experiment, node), rank, experiment)
                for rank in range(experiment.started_nodes)
            },
            **(_machine(node) if experiment.gpu else {}),
            **(_spark_auxiliary_services(node) if with_spark else {}),
            **_link_helpers(experiment, run, image, delay_line),
            **_background(experiment, run, image),
        },
        "networks": {
            "cluster": {"internal": True, "labels": _labels(run)},
            **({"outside": {"labels": _labels(run)}} if with_spark else {}),
        },
        **({"volumes": {"secret": SECRET}, "secrets": BUILD_SECRETS} if with_spark else {}),
    }


def _reached(experiment: Experiment) -> Service:
    """The way out is connected when the node is up (cluster.py): a network that is not internal
    would become eth0."""
    if experiment.network == ISOLATED:
        return {"networks": ["cluster"]}
    return {"networks": ["cluster"], "extra_hosts": ["host.docker.internal:host-gateway"]}


def recording_document(writers: Sequence[str], node_folders: Path) -> Service:
    """What the engine adds to a cluster's document: each writer's own folder, to write to."""
    return {
        "services": {
            name: {
                "environment": {"GRADWIRE_RECORD": "1", NODE_FOLDER: OWN_FOLDER},
                "volumes": [_mounted(node_folders / name, OWN_FOLDER)],
            }
            for name in writers
        }
    }


def _mounted(folder: Path, target: str, *, read_only: bool = False) -> Service:
    target = target.replace("$", "$$")
    return {"type": "bind", "source": _path(folder), "target": target, "read_only": read_only}


def path_in_node(run: RunFolder) -> str:
    return f"{SESSION}/{run.name}"


def _node(rank: int, experiment: Experiment, node: Service) -> Service:
    rank_and_size = {"RANK": str(rank), "WORLD_SIZE": str(experiment.started_nodes)}
    return {
        "extends": {"file": _path(NODE_FILE), "service": "node"},
        "hostname": node_name(rank),
        **({"pids_limit": experiment.processes_per_node} if experiment.virtual else {}),
        **node,
        "environment": {**rank_and_size, **node["environment"]},
    }


def _spark_worker(rank: int, experiment: Experiment, node: Service) -> Service:
    return {
        "extends": {"file": _path(SPARK_FILE), "service": "worker"},
        "scale": 1,
        "hostname": node_name(rank),
        **node,
        "command": SPARK_WORKER,
        "depends_on": {"master": {"condition": "service_started"}},
    }


def _spark_auxiliary_services(node: Service) -> Service:
    """Spark's master, the driver, which submits the runs, and the proxy of their web pages."""
    after_master = {"master": {"condition": "service_started"}}
    plain = {name: node[name] for name in ("image", "user", "labels")}

    def extended(service: str) -> Service:
        return {"extends": {"file": _path(SPARK_FILE), "service": service}}

    return {
        "master": {**extended("master"), **plain, "sysctls": node["sysctls"]},
        "driver": {
            **extended("driver"),
            **node,
            "command": SPARK_DRIVER,
            "depends_on": after_master,
        },
        "pages": {**extended("pages"), **plain, "depends_on": after_master},
    }


def _limited(node: Service, rank: int, experiment: Experiment) -> Service:
    """The node with its limits of CPU and memory, GPUs, and a start after links are verified."""
    if rank in experiment.host_limits:
        quota_us, period_us = cpu_quota(experiment.host_limits[rank])
        node |= {"cpu_quota": quota_us, "cpu_period": period_us}
    if experiment.memory_per_node is not None:
        # memswap_limit is memory plus swap: no swap.
        node |= dict.fromkeys(("mem_limit", "memswap_limit"), experiment.memory_per_node)
    if experiment.gpu:
        node = _with_gpus(node, rank, experiment)
    helped = helped_ranks(experiment.shaped_links, experiment.site_members, experiment.shaped_paths)
    if rank in helped:
        command = node.get("command", WORKER)
        node["command"] = ["python", "-m", "cluster.links.gate", *command]
    elif helped:
        helpers = {
            f"link{other}": {"condition": "service_completed_successfully"} for other in helped
        }
        node["depends_on"] = node.get("depends_on", {}) | helpers
    return node


def _with_gpus(node: Service, rank: int, experiment: Experiment) -> Service:
    """The node with one GPU of its own, or all for a single rank; compose/gpu.yml says why."""
    own = [rank] if experiment.gpu == 1 else list(range(experiment.gpu))
    visible = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, own)), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return {
        **node,
        "init": False,
        "pid": f"service:{MACHINE}",
        "ipc": f"service:{MACHINE}",
        "ulimits": {"memlock": -1, "stack": 64 * 2**20},
        "tmpfs": ["/tmp:mode=1777"],
        "deploy": {"resources": {"reservations": {"devices": [GPUS]}}},
        "environment": {**node["environment"], **NCCL, **visible},
    }


def _machine(node: Service) -> Service:
    return {
        MACHINE: {
            "extends": {"file": _path(NODE_FILE), "service": "node"},
            **{name: node[name] for name in ("image", "user", "labels")},
            "ipc": "shareable",
            "shm_size": SHARED_MEMORY,
            "network_mode": "none",
            "command": ["python", "-m", "cluster.gpu.namespace_holder"],
        }
    }


def helped_ranks(
    links: Mapping[int, Link], sites: Mapping[str, Sequence[int]], paths: Mapping[Pair, Link]
) -> list[int]:
    """Nodes with a link helper: their link is shaped, or a path to another site."""
    routed = {rank for pair in paths for site in pair for rank in sites[site]}
    return sorted({*links, *routed})


def _link_helpers(experiment: Experiment, run: RunFolder, image: str, delay_line: bool) -> Service:
    """A short-lived helper for each of these nodes, the reference of their rate probes, the router.

    A helper shares its node's network namespace; it and the router are the only ones with
    NET_ADMIN. The worker waits at its gate until all is verified; workers of other nodes start
    after the helpers.
    """
    links, sites, paths = (
        experiment.shaped_links,
        experiment.site_members,
        experiment.shaped_paths,
    )
    common = {
        "extends": {"file": _path(NODE_FILE), "service": "node"},
        "image": image,
        "labels": _labels(run),
    }
    privileged = {**common, "user": "0:0", "cap_add": list(HELPER_CAPABILITIES)}
    services: Service = {}
    if links:
        measured = ["python", "-m", "cluster.links.rate_probe", str(len(links))]
        services[REFERENCE] = {**common, "command": measured, "networks": ["cluster"]}
    if paths:
        names = {site: tuple(map(node_name, ranks)) for site, ranks in sites.items()}
        plan = RouterPlan(names, write_between(paths), experiment.slowdown, delay_line)
        services[router.NAME] = {
            **privileged,
            "networks": ["cluster"],
            "sysctls": {**CONGESTION_CONTROL, **router.SETTINGS},
            **(_of_delay_line() if delay_line else {}),
            "command": ["python", "-m", "cluster.links.router_service", plan.text()],
        }
    started = {name: {"condition": "service_started"} for name in services}
    for rank in helped_ranks(links, sites, paths):
        services[f"link{rank}"] = {
            **privileged,
            "network_mode": f"service:{node_name(rank)}",
            "depends_on": started,
            "command": ["python", "-m", "cluster.links.helper", _helper_plan(rank, experiment)],
        }
    return services


def _of_delay_line() -> Service:
    """Its device, and leave to be woken in time."""
    return {"devices": [str(FILE)], "cap_add": [*HELPER_CAPABILITIES, "SYS_NICE"]}


def _background(experiment: Experiment, run: RunFolder, image: str) -> Service:
    """A program beside the worker of each node that sends or takes background traffic; started by
    hand, it sends at once."""
    flows = experiment.background_flows
    names = tuple(map(node_name, range(experiment.started_nodes)))
    return {
        f"{BACKGROUND}{rank}": {
            "extends": {"file": _path(NODE_FILE), "service": "node"},
            "image": image,
            "labels": _labels(run),
            "network_mode": f"service:{node_name(rank)}",
            "environment": {
                background_sender.AT_ONCE: f"${{{background_sender.AT_ONCE}:-now}}",
            },
            "depends_on": {node_name(rank): {"condition": "service_started"}},
            "command": [
                *("python", "-m", "cluster.links.background_sender"),
                SenderPlan(rank, str(experiment.background), names, experiment.slowdown).text(),
            ],
        }
        for rank in background_sender.involved(flows)
    }


def _helper_plan(rank: int, experiment: Experiment) -> str:
    """What a node's helper does; the first nodes of two sites measure the path between them."""
    members, site = experiment.site_members, experiment.site_of(rank)
    first = site is not None and members[site][0] == rank
    paths = experiment.paths if first else {}
    others = router.reached_by_router(experiment.paths, site) if site is not None else []
    link = experiment.links.get(rank)
    return HelperPlan(
        node=node_name(rank),
        reference=REFERENCE,
        dilation=experiment.slowdown,
        link=None if link is None else str(link),
        through_router=tuple(node_name(r) for other in others for r in members[other]),
        probes=tuple(
            PathProbe(path_name(pair), str(path), node_name(members[pair[1]][0]))
            for pair, path in paths.items()
            if pair[0] == site
        ),
        probed=sum(pair[1] == site for pair in paths),
    ).text()


def split_service(name: str) -> tuple[str, int]:
    """node2 -> node, 2; a name without a number has rank -1."""
    role = name.rstrip("0123456789")
    return role, int(name[len(role) :] or -1)


def _path(path: Path) -> str:
    """A path with $ escaped: Compose takes a single one for the start of a variable."""
    return str(path).replace("$", "$$")


def _labels(run: RunFolder) -> dict[str, str]:
    return {SESSION_LABEL: run.session, OWNER_LABEL: "${GRADWIRE_OWNER:-by-hand}"}
