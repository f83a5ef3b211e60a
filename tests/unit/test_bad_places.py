"""Folders and machines on which a measure cannot work: one line, exit code 2, nothing is made."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import measure
from cluster.namespaces import engine as netns_engine
from tests.refusals import (
    NO_DOCKER,
    contents,
    measure_command,
    need_namespaces,
    one_line,
    refusal,
    refusal_of,
)
from workloads.data.sets import DATASETS

pytestmark = pytest.mark.usefixtures("empty_folder")
IMAGES = DATASETS["mnist"].files[0]


@pytest.mark.parametrize("output", ["file", "file/below", "file/far/below"])
def test_output_that_is_a_file_or_below_one_is_refused(
    output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("precious")
    line = refusal(["--output", output], capsys)
    assert f"--output {output}: {tmp_path / 'file'} is not a folder" in line
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.parametrize("flag", ["--output", "--data-dir", "--prepare"])
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("x" * 300, "is too long"),
        ("x/" * 2500, "is too long"),
        ("two\nlines", "has a line break or control character"),
        ("colour\x1b[31m", "has a line break or control character"),
        ("not UTF-8: \udcff", "has a line break or control character"),
        ("~nobody-of-that-name/runs", "there is no such user"),
    ],
    ids=["name", "path", "newline", "escape", "bytes", "home"],
)
def test_a_folder_that_nodes_could_not_be_told_is_refused(
    flag: str, name: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        measure.main([flag, name])
    line = one_line(capsys.readouterr().err)
    assert flag in line
    assert says in line
    assert contents(Path.cwd()) == []


def test_output_through_links_in_a_circle_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert f"{tmp_path / 'a'} is not a folder" in refusal(["--output", "a/below"], capsys)


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """pytest's own folders are for their owner alone."""
    with tempfile.TemporaryDirectory(prefix="gradwire-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("output", ["locked", "locked/below"])
def test_output_where_one_may_not_write_is_refused(output: str, public_folder: Path) -> None:
    someone: list[str] = []
    if os.geteuid() == 0:  # who may write anywhere, so someone else has to try
        someone = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        if subprocess.run([*someone, sys.executable, "-c", ""], capture_output=True).returncode:
            pytest.skip(f"only root may use {sys.executable}")
    locked = public_folder / "locked"
    locked.mkdir(mode=0o700 if someone else 0o000)
    try:
        line = refusal_of([*someone, *measure_command("--output", output)], public_folder)
    finally:
        locked.chmod(0o700)
    assert line.startswith(f"measure: --output {output}")
    assert "permission" in line.lower()


@pytest.mark.parametrize("engine", [["--engine", "netns"], []], ids=["named", "left to choose"])
def test_a_data_folder_that_is_missing_is_refused(
    engine: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_namespaces()
    line = refusal(["--data-dir", "nowhere", *engine], capsys)
    assert str(tmp_path / "nowhere" / "mnist" / IMAGES.name) in line
    assert f"is missing, expected sha256 {IMAGES.sha256}" in line


@pytest.mark.parametrize(
    ("size_bytes", "found"),
    [(100, "has 100 bytes instead of 47040016"), (IMAGES.size_bytes, "has sha256 ")],
    ids=["of another size", "of the right size"],
)
def test_a_corrupt_data_file_is_named_with_its_checksum(
    size_bytes: int, found: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_namespaces()
    data = tmp_path / "data"
    data.mkdir()
    with (data / IMAGES.name).open("wb") as file:
        file.truncate(size_bytes)
    line = refusal(["--data-dir", "data", "--engine", "netns"], capsys)
    assert f"{data / IMAGES.name} {found}" in line
    assert f"expected sha256 {IMAGES.sha256}" in line


def test_a_folder_with_the_files_of_another_data_set_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_namespaces()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / IMAGES.name).write_bytes(b"digits")
    workload = ["--workload", "vgg11-cifar10", "--engine", "netns"]
    line = refusal([*workload, "--data-dir", "data"], capsys)
    assert "data_batch_1.bin is missing, expected sha256 cee91656" in line


def test_docker_without_an_engine_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", NO_DOCKER)
    line = refusal(["--engine", "docker"], capsys)
    assert line.startswith("measure: engine docker: ")
    assert "install Docker" in line
    assert "--engine netns" in line


def test_docker_without_its_command_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    line = refusal(["--engine", "docker"], capsys)
    assert "no 'docker' command" in line
    assert "install Docker" in line


ORDINARY_USER = (
    "echo 1 > /proc/sys/user/max_user_namespaces &&"
    ' exec unshare --user --map-user=1000 --map-group=1000 "$@"'
)
"""The one user namespace that is still allowed makes us user 1000; there is no other inside it."""

ROOT_WITHOUT_RIGHTS = (
    'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set -sys_admin "$@"'
)


@pytest.mark.parametrize("engine", ["netns", "auto"])
@pytest.mark.parametrize(
    ("script", "user"), [(ORDINARY_USER, "1000"), (ROOT_WITHOUT_RIGHTS, "0")], ids=["user", "root"]
)
def test_namespaces_where_they_are_forbidden_say_the_way_out(
    script: str, user: str, engine: str, tmp_path: Path
) -> None:
    wrapper = ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh"]
    who = subprocess.run([*wrapper, "id", "-u"], capture_output=True, text=True)
    if who.stdout.strip() != user:
        pytest.skip(f"no user namespace to forbid namespaces in: {who.stderr.strip()}")
    command = [*wrapper, *measure_command("--engine", engine)]
    line = refusal_of(command, tmp_path)
    assert line.startswith("measure: engine netns needs user namespaces")
    assert "forbids them (unshare: " in line
    assert "--engine docker" in line


def test_delay_on_a_kernel_without_netem_names_the_module(
    capsys: pytest.CaptureFixture[str],
) -> None:
    need_namespaces()
    if "sch_netem" in netns_engine.link_modules():
        pytest.skip("this kernel has netem")
    flags = ["--engine", "netns", "--link", "20mbit/10ms", "--dilation", "1"]
    line = refusal(flags, capsys)
    assert line.startswith("measure: link 20mbit/10ms: ")
    assert "sch_netem" in line
