"""What goes into the launchers' images, and the progress that their build prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cluster import PROJECT
from cluster.containers import image
from cluster.containers.lock_requirements import LISTS

DOCKERFILE = (PROJECT / "docker" / "Dockerfile").read_text()
IGNORED = (PROJECT / "docker" / "Dockerfile.dockerignore").read_text()
STAGES = {
    made: from_
    for from_, made in re.findall(r"^FROM (\S+) AS (\S+)$", DOCKERFILE, flags=re.MULTILINE)
}


def stage(name: str) -> str:
    """The text of one stage."""
    return DOCKERFILE.partition(f" AS {name}\n")[2].partition("\nFROM ")[0]


def needed(name: str) -> set[str]:
    """A stage and all that it is made from."""
    found, waiting = set(), {name}
    while waiting:
        current = waiting.pop()
        if current in STAGES:
            found.add(current)
            waiting |= {STAGES[current], *re.findall(r"from=([a-z-]+)", stage(current))} - found
    return found


@pytest.mark.parametrize("launcher", image.TARGETS)
def test_the_image_is_made_with_the_files_that_its_stages_name(launcher: str) -> None:
    target = image.TARGETS[launcher]
    named = {
        Path(file).name
        for stage_name in needed(target)
        for file in re.findall(r"source=(?:docker/)?([a-z_-]+\.[a-z]+)", stage(stage_name))
    }
    made_with = {Path(file).name for file in image.MADE_WITH[target]}
    assert named | {"Dockerfile"} == made_with


@pytest.mark.parametrize("launcher", image.TARGETS)
def test_our_code_comes_last_and_runs_as_nobody_special(launcher: str) -> None:
    lines = stage(image.TARGETS[launcher]).strip().splitlines()
    code = "report-code" if launcher == "report" else "code"
    assert lines[-2:] == [f"COPY --from={code} /app /app", "USER 1000:1000"]


def test_an_image_is_fingerprinted_by_the_packages_it_copies() -> None:
    copied = re.findall(r"^COPY (\S+) \S+$", stage("code"), flags=re.MULTILINE)
    assert copied == ["cluster/__init__.py", *image.ON_NODES]


def pinned(file: str) -> dict[str, str]:
    """Packages and versions in a list of requirements, with names as indexes spell them."""
    lines = re.findall(r"^([A-Za-z][\w.-]*)==(\S+)", (PROJECT / "docker" / file).read_text(), re.M)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in lines}


@pytest.mark.parametrize("name", LISTS)
def test_packages_of_images_are_locked_at_the_versions_of_their_lists(name: str) -> None:
    asked, locked = pinned(LISTS[name][0]), pinned(f"requirements-{name}-locked.txt")
    assert asked.items() <= locked.items()


@pytest.mark.parametrize("name", LISTS)
def test_every_locked_package_has_a_hash(name: str) -> None:
    text = (PROJECT / "docker" / f"requirements-{name}-locked.txt").read_text()
    entries = text.replace("\\\n", " ").splitlines()[1:]
    assert entries
    for entry in entries:
        assert re.fullmatch(r"[\w.-]+==\S+(\s+--hash=sha256:[0-9a-f]{64})+", entry), entry


def test_packages_are_installed_by_hash_but_for_the_wheel_that_was_built_here() -> None:
    text = DOCKERFILE.replace("\\\n", " ")
    installs = re.findall(r"pip install ([^&\n]*)", text)
    assert len(installs) > 5
    users_own = "/requirements/requirements.txt"
    for options in installs:
        by_hash = "--require-hashes" in options
        assert by_hash or options.split()[-1] in ("/wheel/*.whl", users_own), options


def test_horovod_is_not_compiled_again_for_a_change_of_anything_but_torch_and_its_script() -> None:
    assert needed("horovod-wheel") == {"horovod-wheel", "torch", "python", "wheels"}
    assert re.findall(r"source=(\S+?),", stage("horovod-wheel")) == ["docker/build_horovod.sh"]


def test_all_that_is_fingerprinted_is_there_and_is_sent_to_the_builder() -> None:
    for file in image.sources("spark"):
        assert file.is_file(), file
    assert "!docker/build_horovod.sh" in IGNORED.splitlines()
    assert "!docker/requirements-*-locked.txt" in IGNORED.splitlines()


def test_every_launcher_has_an_image_of_its_own() -> None:
    names = [image.name(launcher) for launcher in image.TARGETS]
    assert [name.partition(":")[0] for name in names] == [
        "gradwire-worker",
        "gradwire-horovod",
        "gradwire-spark",
        "gradwire-gpu",
        "gradwire-gpu-horovod",
        "gradwire-report",
    ]
    assert len({name.partition(":")[0] for name in names}) == len(names)


def test_a_gpu_node_has_the_cuda_torch_of_its_base_and_nothing_of_the_cpus() -> None:
    """Our code is the only thing that comes from a stage with another base."""
    for target in ("gpu", "gpu-horovod"):
        bases = needed(target) - needed("code")
        assert bases <= {target, "gpu-node", "gpu-horovod-node", "gpu-horovod-wheel"}
        assert not any("+cpu" in stage(name) or "TORCH" in stage(name) for name in bases)
    assert "HOROVOD_GPU_OPERATIONS=NCCL" in stage("gpu-horovod-wheel")
    assert STAGES["gpu-node"] == "${GPU_BASE}"
    assert re.search(r"^ARG GPU_BASE=pytorch/pytorch:\S+-cuda\S+-runtime@", DOCKERFILE, re.M)


def test_what_images_start_from_is_named_by_digest() -> None:
    built_from = {name for target in image.TARGETS.values() for name in needed(target)}
    variables = {STAGES[name] for name in built_from if STAGES[name].startswith("${")}
    only_compiles = {"${GPU_DEVEL_BASE}"}
    assert variables - only_compiles == {"${BASE}", "${GPU_BASE}"}
    for variable in variables - only_compiles:
        assert re.search(
            rf"^ARG {variable[2:-1]}=\S+@sha256:[0-9a-f]{{64}}$", DOCKERFILE, re.MULTILINE
        )


@pytest.mark.parametrize(
    ("variable", "changed"),
    [
        ("GPU_BASE", {"torch on GPUs", "horovod on GPUs"}),
        ("GPU_DEVEL_BASE", {"horovod on GPUs"}),
    ],
)
def test_another_base_image_changes_the_names_of_images_built_on_it(
    variable: str, changed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = {target: needed(target) for target in image.TARGETS.values()}
    for launcher, target in image.TARGETS.items():
        bases = {STAGES[name] for name in stages[target]}
        assert (f"${{{variable}}}" in bases) == (launcher in changed)
    monkeypatch.delenv(variable, raising=False)
    usual = {launcher: image.name(launcher) for launcher in image.TARGETS}
    monkeypatch.setenv(variable, "")
    assert usual == {launcher: image.name(launcher) for launcher in usual}
    monkeypatch.setenv(variable, "pytorch/pytorch:other")
    assert {name for name in usual if image.name(name) != usual[name]} == changed


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("#12 [worker-venv 2/3] RUN cd /venv\n", "worker-venv 2/3"),
        ("#9 [torch  3/4] RUN python3 -m venv /venv\n", "torch 3/4"),
        (
            "#15 72.13 build_horovod: compiling: 45 %, 60 s\n",
            "horovod: compiling: 45 %, 60 s",
        ),
        ("#15 72.13 something else\n", None),
        ("#15 DONE 72.2s\n", None),
        ("#3 [internal] load build definition from Dockerfile\n", None),
        ("", None),
    ],
)
def test_progress_is_steps_and_percent_of_horovod(line: str, text: str | None) -> None:
    assert image.progress(line) == text
