"""Whether GPUs are visible to Docker, by what `docker info` lists."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster import environment, measure
from cluster.containers import checks
from cluster.engine import EngineUnavailable, choose_engine
from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment

CDI = {"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]}


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `docker info` prints, on a machine without NVIDIA's programs."""
    about: dict[str, Any] = {"Runtimes": {"runc": {}}}
    monkeypatch.setattr(checks, "client", lambda: SimpleNamespace(info=lambda: about))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    return about


@pytest.mark.usefixtures("engine")
def test_without_gpus_one_line_says_what_was_looked_for() -> None:
    with pytest.raises(EngineUnavailable) as refused:
        checks.check_gpus(2)
    line = str(refused.value)
    assert "\n" not in line
    for looked_for in (
        "runtime 'nvidia'",
        "'nvidia.com/gpu='",
        "nvidia-container-runtime-hook",
        "nvidia-smi",
    ):
        assert looked_for in line
    assert "docs/gpu.md" in line


def test_a_runtime_or_a_cdi_device_is_enough(engine: dict[str, Any]) -> None:
    engine.update(CDI)
    assert "nvidia.com/gpu=0" in checks.check_gpus(2)
    del engine["DiscoveredDevices"]
    engine["Runtimes"]["nvidia"] = {}
    assert "toolkit" in checks.check_gpus(2)


def test_the_toolkits_hook_is_enough(
    engine: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = checks.GPU_HOOK
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name == hook else None)
    assert "toolkit" in checks.check_gpus(2)


def test_every_node_needs_a_gpu(engine: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    engine["Runtimes"]["nvidia"] = {}
    monkeypatch.setattr(checks, "_gpus_of_this_machine", lambda: 2)
    assert checks.check_gpus(2)
    with pytest.raises(
        SpecError, match="a run has 4 nodes, and needs a GPU for each: nvidia-smi lists 2"
    ):
        checks.check_gpus(4)


def test_namespaces_have_no_gpus() -> None:
    with pytest.raises(SpecError, match="gpu needs containers: use --engine docker"):
        choose_engine("netns", [Experiment(gpu=1)])


def test_hosts_that_are_prepared_for_torchrun_have_no_gpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert measure.main(["--gpu", "--prepare", str(tmp_path / "new")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("measure: --gpu does not go with --prepare")
    assert not (tmp_path / "new").exists()


def test_the_users_own_lines_stay_in_composes_env_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "PROJECT", tmp_path)
    (tmp_path / "compose").mkdir()
    for cache in ("one", "two"):
        environment.note_data_folder(Path("/cache") / cache / "mnist")
        path = tmp_path / "compose" / ".env"
        path.write_text(path.read_text() + ("GPUS=4\n" if cache == "one" else ""))
    assert path.read_text().splitlines() == ["GPUS=4", "GRADWIRE_DATA_DIR=/cache/two"]
