"""compose/gpu.yml's first step: environment variables -> a run folder that is ready, and its data.

The variables are described in compose/gpu.yml, which also sets

    PROFILE         ddp, data-parallel, horovod or multi-host
    UNLESS_PLANNED  yes: keep what another profile has planned for this `up`
    BACKEND         nccl: on GPUs; gloo: the same on CPUs
"""

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
from cluster.session import prepare_folder
from cluster.spec.catalogue import files_of
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.errors import SpecError, one_of
from cluster.spec.exchange.strategies import STRATEGIES
from cluster.spec.experiment import Experiment

PROFILES = ("ddp", "data-parallel", "horovod", "multi-host")
OPTIONS = ("strategy", "passes", "workload", "epochs", "batch_size")
ELSEWHERE = {
    **{option: f"set {option.upper()}" for option in OPTIONS},
    "workers": "set GPUS, or WORLD_SIZE of multi-host",
    "gpu": "set GPUS",
    "launcher": "choose the profile ddp or horovod",
    "engine": "leave it out",
}
"""Options of a run that FLAGS cannot have -> what to set instead."""
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
    if names := files_of(experiment.model, experiment.dataset):
        fetched = subprocess.run([sys.executable, "-m", "workloads.data", "fetch", *names])
        if fetched.returncode != 0:
            return fetched.returncode
    prepare(session, experiment, plan)
    run = f"{session.name}/{plan.run}"
    print(f"plan: profile {plan.profile}, run {run}, back end {experiment.backend}")
    return 0


def make_plan(given: Mapping[str, str]) -> tuple[Experiment, Plan]:
    """SpecError for what cannot be done, as ./measure.sh reports it."""
    profile = given.get("PROFILE", "")
    one_of("profile", profile, PROFILES)
    on_gpu = _choice("backend", given.get("BACKEND") or "nccl", BACKENDS)
    _choice("over_network", given.get("OVER_NETWORK") or "no", YES_NO)
    place = _place(profile, given)
    flags = _flags(profile, given)
    strategy = given.get("STRATEGY") or ""
    has_server = strategy in STRATEGIES and STRATEGIES[strategy].has_server
    flags += ["--workers", str(place.workers - has_server)]
    flags += ["--gpu", str(place.gpus_per_process if on_gpu else 0)]
    experiments = make_experiments(make_parser().parse_args(flags), choose_model)
    if len(experiments) != 1:
        raise SpecError(
            f"one run at a time, and this makes {len(experiments)}: ./measure.sh --gpu makes sweeps"
        )
    refuse_limits(experiments[0], "take ./measure.sh --gpu")
    (experiment,) = settle(experiments, "docker", print)
    label = experiment.label
    name = label if label.startswith(profile) else f"{profile}-{label}"
    ids = _gpu_ids(given.get("GPU_IDS", ""), place.gpus_here) if on_gpu else ()
    run = f"001-{name}-s{experiment.seed}"
    return experiment, Plan(profile, run, ids, place.first_rank, place.nodes_here)


@dataclasses.dataclass(frozen=True)
class Place:
    """How many nodes and GPUs a run has, and which of them are on this host."""

    workers: int
    gpus_here: int
    nodes_here: int
    gpus_per_process: int = 1
    first_rank: int = 0


def _place(profile: str, given: Mapping[str, str]) -> Place:
    gpus = _number("gpus", given.get("GPUS") or "2")
    if profile == "data-parallel":
        return Place(workers=1, gpus_here=gpus, nodes_here=1, gpus_per_process=gpus)
    if profile != "multi-host":
        return Place(workers=gpus, gpus_here=gpus, nodes_here=gpus)
    workers = _number("world_size", given.get("WORLD_SIZE") or "2")
    rank = _number("rank", given.get("RANK") or "0", 0)
    if rank >= workers:
        raise SpecError(f"rank {rank} is none of 0 to {workers - 1}: world_size is {workers}")
    return Place(workers=workers, gpus_here=1, nodes_here=1, first_rank=rank)


def _flags(profile: str, given: Mapping[str, str]) -> list[str]:
    """The flags of ./measure.sh that the variables stand for."""
    flags = _other_flags(given.get("FLAGS", ""))
    for option in OPTIONS:
        if value := given.get(option.upper()):
            flags += ["--" + option.replace("_", "-"), value]
    own = {"data-parallel": ["--strategy", "single"], "horovod": ["--launcher", "horovod"]}
    return flags + own.get(profile, [])


def prepare(session: Path, experiment: Experiment, plan: Plan) -> RunFolder:
    """Everything a node needs, the plan last: who finds it may begin."""
    command = ["docker", "compose", "-f", "compose/gpu.yml", "--profile", plan.profile, "up"]
    about = environment.describe(command, {"name": "docker"})
    run = prepare_folder(session / plan.run, about, experiment)
    write_plan(session, plan)
    return run


def choose_model(workload: str, models: Sequence[str]) -> str:
    """The first of the models whose pretrained weights can be had here; says why."""
    command = [sys.executable, "-m", "workloads.models.pretrained", *models]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def _other_flags(text: str) -> list[str]:
    """FLAGS as words; what would be overridden or ignored is refused."""
    try:
        flags = shlex.split(text)
    except ValueError as error:
        raise SpecError(f"flags {text!r} cannot be read: {error}") from None
    if any(flag.startswith(("-h", "--help", "--version")) for flag in flags):
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
    one_of(name, text, choices)
    return choices[text]


if __name__ == "__main__":
    sys.exit(main())
