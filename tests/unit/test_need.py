"""What a launcher needs on the host: there, set up on first use, or refused with a remedy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import environment
from cluster.engine import EngineUnavailable

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What is installed, as the test wants it; and no set-up but the one the test gives."""
    installed = {"torch": "2.13.0+cpu"}
    monkeypatch.setattr(environment, "_version", installed.get)
    monkeypatch.setattr(environment, "_set_up", lambda kind, say: say(f"setting up {kind}"))
    monkeypatch.setenv("JAVA_HOME", "/somewhere")
    return installed


def test_what_is_there_needs_nothing(packages: dict[str, str]) -> None:
    said: list[str] = []
    packages["horovod"] = "0.28.1+torch2.13.0"
    environment.need("horovod", said.append)
    packages["pyspark"] = "4.3.0"
    environment.need("spark", said.append)
    assert said == []


def test_somebodys_own_horovod_will_do(packages: dict[str, str]) -> None:
    packages["horovod"] = "0.28.1"
    environment.need("horovod", pytest.fail)


@pytest.mark.parametrize("horovod", [None, "0.28.1+torch2.12.0"])
def test_what_lacks_or_is_for_another_torch_is_set_up(
    horovod: str | None, packages: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if horovod is not None:
        packages["horovod"] = horovod

    def set_up(kind: str, say: object) -> None:
        packages["horovod"] = "0.28.1+torch2.13.0"

    monkeypatch.setattr(environment, "_set_up", set_up)
    environment.need("horovod", pytest.fail)
    assert packages["horovod"] == "0.28.1+torch2.13.0"


def test_a_python_that_is_not_ours_is_told_to_start_with_measure(packages: dict[str, str]) -> None:
    with pytest.raises(EngineUnavailable, match=r"no horovod and no pyspark .*\./measure\.sh"):
        environment.need("spark", print)


def test_spark_on_the_host_needs_java(
    packages: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineUnavailable, match="openjdk-17-jre-headless"):
        environment.need("spark", print)


def test_a_set_up_that_fails_says_why_in_one_line() -> None:
    said: list[str] = []
    with pytest.raises(EngineUnavailable) as caught:
        environment._set_up("horse", said.append)
    assert str(caught.value) == (
        "launcher horse: unknown kind of environment 'horse':"
        " give run, test, horovod, spark, ray or export"
    )
    assert len(said) == 1


@pytest.mark.parametrize(
    ("path", "lacking"), [("python-only", "g++ make"), ("python-and-make", "g++")]
)
def test_horovod_is_not_built_without_a_compiler(path: str, lacking: str, tmp_path: Path) -> None:
    """It names the package to install. A real Python with torch, and a PATH with few programs."""
    programs = ["bash", "env", "dirname", "mkdir", "sed", "uname"]
    for program in (*programs, *(["make"] if "make" in path else [])):
        for folder in ("/usr/bin", "/bin"):
            if (Path(folder) / program).exists():
                (tmp_path / program).symlink_to(Path(folder) / program)
                break
    built = subprocess.run(
        ["bash", str(PROJECT / "docker" / "build_horovod.sh"), str(tmp_path / "wheels")],
        env={**os.environ, "PATH": str(tmp_path), "PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 1
    assert built.stderr.startswith(f"build_horovod: needs {lacking}")
    assert "apt-get install" in built.stderr
