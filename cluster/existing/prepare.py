"""--prepare: write a run's folder and what starts it on hosts that need nothing of this machine.

Each worker then writes its events on its own; `python3 -m analysis.summary` makes the summary when
they are together.
"""

import argparse
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

from cluster import PROJECT
from cluster.engine import refuse_limits
from cluster.environment import describe
from cluster.existing import kubernetes, torchrun
from cluster.existing.options import read_options
from cluster.plan import settle
from cluster.session import prepare_folder
from cluster.spec.catalogue import files_of
from cluster.spec.documents.environment import Environment
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.documents.session_plan import run_names
from cluster.spec.errors import SpecError, one_of
from cluster.spec.experiment import EXISTING, Experiment
from cluster.spec.hosts import HostOptions
from cluster.spec.slurm_job import check_image, job_script, python_command

TARGETS = ("torchrun", "kubernetes")
"""What --for takes; --launcher slurm says its own."""
JOB, MANIFESTS, TRAIN_JOB = "job.sbatch", "kubernetes.yaml", "trainjob.yaml"


def prepare_hosts(
    args: argparse.Namespace,
    command: list[str],
    experiments: list[Experiment],
    say: Callable[[str], None],
) -> int:
    """Write the folder, and print what to do with it."""
    for flag in ("engine", "spark_master", "data_dir", "ray_address", "patience"):
        if getattr(args, flag) is not None:
            raise SpecError(f"{flag} does not go with --prepare: the hosts are yours; leave it out")
    for flag in ("json", "no_report", "dry_run"):
        if getattr(args, flag):
            raise SpecError(
                f"{flag} does not go with --prepare, which trains nothing; leave it out"
            )
    check(experiments, args.prepare)
    by_slurm = experiments[0].launcher == "slurm"
    target = _target(args, by_slurm)
    options = read_options(args, experiments, also=("image",) if target == "kubernetes" else ())
    if options is not None and options.image is not None:
        check_image(options.image)
    if len(experiments) > 1 and not by_slurm:
        raise SpecError(f"prepare takes one run, and this makes {len(experiments)}")
    settled = settle(experiments, EXISTING, say)
    runs = prepare(settled, args.prepare, describe(command, {"name": EXISTING}))
    if by_slurm:
        print(_write_job(settled, runs, args.prepare.resolve(), options or HostOptions()))
    elif target == "kubernetes":
        print(_write_manifests(settled[0], runs[0], args.image))
    else:
        print(torchrun.instructions(settled[0], runs[0]))
    return 0


def _target(args: argparse.Namespace, by_slurm: bool) -> str:
    given = getattr(args, "for")
    if given is not None:
        one_of("for", given, TARGETS)
        if by_slurm:
            raise SpecError("for does not go with --launcher slurm, which has its own batch script")
    if given == "kubernetes" and args.image is None:
        raise SpecError(
            "image is missing: name the workers' image in your registry, made by"
            " docker/build_image.sh worker (docs/several-hosts.md)"
        )
    return str(given or TARGETS[0])


def check(experiments: Sequence[Experiment], folder: Path) -> None:
    """SpecError where hosts cannot do it by themselves."""
    launchers = {experiment.launcher for experiment in experiments}
    if len(launchers) > 1:
        raise SpecError(f"prepare takes one launcher, not {' and '.join(sorted(launchers))}")
    for experiment in experiments:
        if experiment.program is not None:
            raise SpecError(
                "prepare is for gradwire's own training: start your program by torchrun"
            )
        if experiment.launcher not in ("torch", "slurm"):
            raise SpecError(
                "prepare is for torchrun and Kubernetes, that is --launcher torch, or for"
                f" --launcher slurm, not {experiment.launcher}"
            )
        if experiment.virtual:
            raise SpecError(
                "virtual does not go with --prepare: virtual workers need no hosts; leave out one"
            )
        if experiment.gpu:
            raise SpecError(
                "gpu does not go with --prepare, whose Python has torch for the CPU alone: for GPUs"
                " of several hosts use compose/gpu.yml's profile multi-host (docs/gpu.md)"
            )
        refuse_limits(experiment, "leave out --prepare for nodes on this machine")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise SpecError(f"prepare {folder}: that is there already; name a new folder")


def prepare(
    experiments: Sequence[Experiment], folder: Path, environment: Environment
) -> list[RunFolder]:
    """The folder itself for one run; one below it for each of several."""
    folder = folder.resolve()
    names = run_names(experiments)
    places = [folder / name for name in names] if len(names) > 1 else [folder]
    try:
        return [
            prepare_folder(place, environment, experiment)
            for place, experiment in zip(places, experiments, strict=True)
        ]
    except OSError as error:
        raise SpecError(f"prepare {folder} cannot be written: {error.strerror}") from error


def _write_job(
    experiments: Sequence[Experiment], runs: Sequence[RunFolder], folder: Path, options: HostOptions
) -> str:
    """The batch script of all runs, and how to submit it."""
    worker = python_command(options, ["-m", "workloads.worker"], before="RANK=$SLURM_PROCID")
    lines = [
        f"cd {shlex.quote(str(PROJECT))}",
        f"export GRADWIRE_RECORD=unattended MASTER_PORT={torchrun.PORT} OMP_NUM_THREADS=1",
        'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        "export MASTER_ADDR",
    ]
    for experiment, run in zip(experiments, runs, strict=True):
        place = shlex.quote(str(run.path))
        lines += [
            f"export GRADWIRE_RUNS={place} WORLD_SIZE={experiment.nodes}",
            f"srun --nodes={experiment.nodes} --ntasks={experiment.nodes} {worker}",
            f"{torchrun.python()} -m analysis.summary {place}",
        ]
    hosts = max(experiment.nodes for experiment in experiments)
    script = folder / JOB
    script.write_text(job_script(options, hosts, lines, folder / "slurm.log"))
    sets = sorted({name for e in experiments for name in files_of(e.model, e.dataset)})
    fetch = [f"    {torchrun.python()} -m workloads.data fetch {' '.join(sets)}"] if sets else []
    return "\n".join(
        [
            f"{script} is ready for {hosts} hosts of a Slurm cluster, which share this folder, this"
            " project and the data:",
            *fetch,
            f"    sbatch {shlex.quote(str(script))}",
            f"Its output is {folder / 'slurm.log'}; the summaries are made at the end.",
        ]
    )


def _write_manifests(experiment: Experiment, run: RunFolder, image: str) -> str:
    """The manifests, and how to apply them and collect the results."""
    sets = files_of(experiment.model, experiment.dataset)
    for file, documents in (
        (MANIFESTS, kubernetes.manifests(experiment, run, image, list(sets))),
        (TRAIN_JOB, kubernetes.train_job(experiment, run, image, list(sets))),
    ):
        (run.path / file).write_text(yaml.safe_dump_all(documents, sort_keys=False))
    name, place = kubernetes.name_of(run), shlex.quote(str(run.path))
    manifest = shlex.quote(str(run.path / MANIFESTS))
    return "\n".join(
        [
            f"{run.path} is ready for {experiment.nodes} nodes of a Kubernetes cluster:",
            f"    kubectl apply -f {manifest}      (or {TRAIN_JOB}, with Kubeflow's trainer)",
            f"    kubectl wait --for=condition=complete --timeout=1h job/{name}",
            f"    kubectl cp {name}-collect:{kubernetes.RESULTS}/events {place}/events",
            f"    {torchrun.python()} -m analysis.summary {place}",
            f"    kubectl delete -f {manifest}",
        ]
    )
