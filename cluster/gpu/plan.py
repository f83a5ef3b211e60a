"""compose/gpu.yml's first step: the environment -> a run folder that is ready to be carried out, and its data.

PROFILE       ddp, data-parallel, horovod or multi-host
UNLESS_PLANNED  yes: leave it at what another profile has planned for this `up`
BACKEND       nccl: on GPUs; gloo: the same on CPUs
GPUS          nodes, one for each GPU; with data-parallel the GPUs of the one process; with multi-host always 1
GPU_IDS       which GPUs, as nvidia-smi numbers them (default: 0 to GPUS-1)
STRATEGY, PASSES, WORKLOAD, EPOCHS, BATCH_SIZE    as the flags of ./measure.sh; empty is the default
FLAGS         any other options of a run, as the flags of ./measure.sh; what stands above is refused there
OVER_NETWORK  yes or no: how NCCL takes the nodes (gpu_node.py); only looked at here
RANK, WORLD_SIZE    with multi-host: this host's node, and how many there are
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster import environment
from cluster.engine import refuse_limits
from cluster.flags import make_parser
from cluster.gpu.session import RUNS, Plan, current_session, read_plan, write_plan
from cluster.plan import YES_NO, make_experiments, settle
from cluster.spec.catalogue import files_of
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment
from cluster.spec.run_folder import RunFolder, write_json
from cluster.spec.strategies import STRATEGIES

PROFILES = ("ddp", "data-parallel", "horovod", "multi-host")
OPTIONS = ("strategy", "passes", "workload", "epochs", "batch_size")
ELSEWHERE = {
    **{option: f"set {option.upper()}" for option in OPTIONS},
    "workers": "set GPUS, or WORLD_SIZE of multi-host",
    "gpu": "set GPUS",
    "launcher": "choose the profile ddp or horovod",
    "engine": "leave it out",
}
"""Options of a run that FLAGS cannot have -> what says it instead."""
BACKENDS = {"nccl": True, "gloo": False}


def main() -> int:
    session = current_session(RUNS)
    given = os.environ
    if given.get("UNLESS_PLANNED") == "yes" and (already := read_plan(session)) is not None:
        print(f"plan: profile {already.profile} is planned")
        return 0
    try:
        experiment, plan = make_plan(given)
    except SpecError as error:
        print(f"plan: {error}", file=sys.stderr)
        return 2
    for name in files_of(experiment.model, experiment.dataset):
        fetched = subprocess.run([sys.executable, "-m", "workloads.data", "fetch", name])
        if fetched.returncode != 0:
            return fetched.returncode
    prepare(session, experiment, plan)
    print(
        f"plan: profile {plan.profile}, run {session.name}/{plan.run}, back end {experiment.backend}"
    )
    return 0


def make_plan(given: Mapping[str, str]) -> tuple[Experiment, Plan]:
    """SpecError for what cannot be done, in the words of ./measure.sh."""
    profile = given.get("PROFILE", "")
    if profile not in PROFILES:
        raise SpecError(f"unknown profile {profile!r}; there is: {', '.join(PROFILES)}")
    on_gpu = _choice("backend", given.get("BACKEND") or "nccl", BACKENDS)
    gpus = _number("gpus", given.get("GPUS") or "2")
    _choice("over_network", given.get("OVER_NETWORK") or "no", YES_NO)
    flags = _other_flags(given.get("FLAGS", ""))
    for option in OPTIONS:
        if value := given.get(option.upper()):
            flags += ["--" + option.replace("_", "-"), value]
    workers, devices = gpus, 1
    first_rank, nodes_here = 0, gpus
    if profile == "data-parallel":
        flags += ["--strategy", "single"]
        workers, devices, nodes_here = 1, gpus, 1
    elif profile == "horovod":
        flags += ["--launcher", "horovod"]
    elif profile == "multi-host":
        workers = _number("world_size", given.get("WORLD_SIZE") or "2")
        first_rank, nodes_here, gpus = _number("rank", given.get("RANK") or "0", 0), 1, 1
        if first_rank >= workers:
            raise SpecError(
                f"rank {first_rank} is none of 0 to {workers - 1}: world_size is {workers}"
            )
    strategy = given.get("STRATEGY") or ""
    if strategy in STRATEGIES and STRATEGIES[strategy].has_server:
        workers -= 1
    flags += ["--workers", str(workers), "--gpu", str(devices if on_gpu else 0)]
    experiments = make_experiments(make_parser().parse_args(flags), choose_model)
    if len(experiments) != 1:
        raise SpecError(
            f"one run at a time, and this makes {len(experiments)}: ./measure.sh --gpu makes sweeps"
        )
    refuse_limits(experiments[0], "take ./measure.sh --gpu")
    (experiment,) = settle(experiments, "docker", print)
    ids = _gpu_ids(given.get("GPU_IDS", ""), gpus) if on_gpu else ()
    label = (
        experiment.label
        if experiment.label.startswith(profile)
        else f"{profile}-{experiment.label}"
    )
    name = f"001-{label}-s{experiment.seed}"
    return experiment, Plan(profile, name, ids, first_rank, nodes_here)


def prepare(session: Path, experiment: Experiment, plan: Plan) -> RunFolder:
    """Everything a node needs, the plan last: who finds it may begin."""
    run = RunFolder(session / plan.run).create()
    command = ["docker", "compose", "-f", "compose/gpu.yml", "--profile", plan.profile, "up"]
    write_json(run.environment, environment.describe(command, {"name": "docker"}))
    write_json(run.spec, experiment.to_json())
    write_plan(session, plan)
    return run


def choose_model(workload: str, models: Sequence[str]) -> str:
    """The first of the models whose pretrained weights can be had here; says why."""
    command = [sys.executable, "-m", "workloads.models.pretrained", *models]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def _other_flags(text: str) -> list[str]:
    """FLAGS, of which nothing is overridden or ignored in silence."""
    try:
        flags = shlex.split(text)
    except ValueError as error:
        raise SpecError(f"flags {text!r} cannot be read: {error}") from None
    if any(flag.startswith(("-h", "--help")) for flag in flags):
        raise SpecError("flags: no help here; see ./measure.sh --help")
    parser = make_parser()
    unsaid: list[str] = []  # a list, since some flags append to what is there
    blank = dict.fromkeys(vars(parser.parse_args([])), unsaid)
    said = vars(parser.parse_args(flags, argparse.Namespace(**blank)))
    options = {field.name for field in dataclasses.fields(Experiment)} | {"global_batch_size"}
    for name in (name for name, value in said.items() if value is not unsaid):
        if name in ELSEWHERE or name not in options:
            instead = ELSEWHERE.get(name, "that is for ./measure.sh itself, leave it out")
            raise SpecError(f"flags: --{name.replace('_', '-')} does not go here: {instead}")
    return flags


def _gpu_ids(text: str, gpus: int) -> tuple[int, ...]:
    ids = tuple(_number("gpu_ids", part, 0) for part in text.split(",")) if text else range(gpus)
    if len(ids) < gpus or len(set(ids)) < len(ids):
        raise SpecError(f"gpu_ids {text!r} must name {gpus} different GPUs, one for each node")
    return tuple(ids[:gpus])


def _number(name: str, text: str, least: int = 1) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10) or int(digits) < least:
        raise SpecError(f"{name} must be a whole number from {least} on, not {text!r}")
    return int(digits)


def _choice(name: str, text: str, choices: Mapping[str, bool]) -> bool:
    if text not in choices:
        raise SpecError(f"unknown {name} {text!r}; there is: {', '.join(choices)}")
    return choices[text]


if __name__ == "__main__":
    sys.exit(main())
