"""Data for the nodes: no wrong file is ever used, whatever a folder has."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.data_sets import CONTENTS, held, lay_out, made, pack, refusal
from tests.measuring import PROJECT
from workloads.data import command, folders
from workloads.data import prepare as preparing
from workloads.data.dataset import Dataset
from workloads.data.folders import folder_of, locate
from workloads.data.prepare import prepare, prepare_all

pytestmark = pytest.mark.usefixtures("cache")


def test_missing_files_are_fetched_once_and_readable_by_all_users(
    digits: Dataset, cache: Path
) -> None:
    said: list[str] = []
    assert prepare(digits, say=said.append) == cache / "digits"
    assert held(cache / "digits") == CONTENTS
    assert all((cache / "digits" / name).stat().st_mode & 0o444 == 0o444 for name in CONTENTS)
    assert said
    said.clear()
    prepare(replace(digits, mirrors=()), say=said.append)
    assert not said


@pytest.mark.parametrize("place", ["", "digits", "Digits/raw"])
def test_a_named_folder_may_have_any_usual_layout(
    digits: Dataset, tmp_path: Path, place: str
) -> None:
    folder = lay_out(tmp_path / "mine" / place)
    assert prepare(replace(digits, mirrors=()), tmp_path / "mine") == folder


@pytest.mark.parametrize("place", ["", "digits", "Digits/raw"])
def test_packed_files_in_a_named_folder_are_unpacked_into_the_cache(
    digits: Dataset, tmp_path: Path, cache: Path, place: str
) -> None:
    mine = pack(tmp_path / "my data" / place, CONTENTS)
    before = held(mine)
    assert prepare(replace(digits, mirrors=()), tmp_path / "my data") == cache / "digits"
    assert held(cache / "digits") == CONTENTS
    assert held(mine) == before


def test_a_wrong_packed_file_in_a_named_folder_is_an_error_whatever_the_cache_has(
    digits: Dataset, tmp_path: Path, cache: Path
) -> None:
    lay_out(cache / "digits")
    mine = pack(tmp_path / "mine", CONTENTS | {"images": b"something else"})
    message = refusal(lambda: prepare(digits, mine))
    assert str(mine / "images.gz") in message
    assert digits.files[0].sha256 in message
    (mine / "images.gz").write_bytes(b"no archive at all")
    assert "cannot be unpacked" in refusal(lambda: prepare(digits, mine))


def test_a_missing_file_in_a_named_folder_is_an_error_and_not_fetched(
    digits: Dataset, tmp_path: Path
) -> None:
    mine = lay_out(tmp_path / "mine")
    (mine / "labels").unlink()
    message = refusal(lambda: prepare(digits, mine))
    assert str(mine / "labels") in message
    assert "missing" in message
    assert digits.files[1].sha256 in message
    assert "--data-dir" in message
    assert held(mine) == {"images": CONTENTS["images"]}


@pytest.mark.parametrize("wrong", [b"9" * 1000, b"too short", b""])
def test_a_corrupt_file_in_a_named_folder_is_an_error_that_names_it(
    digits: Dataset, tmp_path: Path, wrong: bytes
) -> None:
    mine = lay_out(tmp_path / "mine")
    (mine / "labels").write_bytes(wrong)
    message = refusal(lambda: prepare(digits, mine))
    assert str(mine / "labels") in message
    assert digits.files[1].sha256 in message
    same_size = len(wrong) == len(CONTENTS["labels"])
    found = hashlib.sha256(wrong).hexdigest() if same_size else f"{len(wrong)} bytes"
    assert found in message
    assert held(mine)["labels"] == wrong


def test_a_named_folder_that_does_not_exist_is_an_error(digits: Dataset, tmp_path: Path) -> None:
    message = refusal(lambda: prepare(digits, tmp_path / "nowhere"))
    assert "nowhere" in message
    assert not (tmp_path / "nowhere").exists()


def test_a_corrupt_file_in_the_cache_is_fetched_again(digits: Dataset, cache: Path) -> None:
    lay_out(cache / "digits")
    (cache / "digits" / "labels").write_bytes(b"9" * 1000)
    said: list[str] = []
    prepare(digits, say=said.append)
    assert held(cache / "digits") == CONTENTS
    assert "labels has sha256" in said[0]


def test_a_file_that_changed_without_changing_size_or_time_is_noticed(
    digits: Dataset, tmp_path: Path
) -> None:
    mine = lay_out(tmp_path / "mine")
    prepare(digits, mine)
    before = (mine / "labels").stat()
    (mine / "labels").write_bytes(b"9" * 1000)
    os.utime(mine / "labels", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "labels has sha256" in refusal(lambda: prepare(digits, mine))


def test_shared_folders_are_searched_and_only_read(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = lay_out(tmp_path / "shared" / "digits")
    monkeypatch.setenv("GRADWIRE_DATA_PATH", f"{tmp_path / 'nothing'}:{tmp_path / 'shared'}")
    assert prepare(made("digits")) == shared
    assert held(shared) == CONTENTS
    assert not cache.exists()


def test_data_sets_in_different_places_are_copied_into_one_folder_for_the_nodes(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = {name: made(name) for name in ("digits", "letters")}
    monkeypatch.setattr(preparing, "FILES", both)
    lay_out(cache / "digits")
    assert prepare_all(["digits"]) == cache / "digits"
    lay_out(tmp_path / "shared" / "letters")
    monkeypatch.setenv("GRADWIRE_DATA_PATH", str(tmp_path / "shared"))
    assert prepare_all(["letters", "digits"]) == cache
    for name in ("digits", "letters"):
        assert held(folder_of(both[name], cache)) == CONTENTS
    lay_out(tmp_path / "shared" / "digits")
    assert prepare_all(["letters", "digits"]) == tmp_path / "shared"


@pytest.mark.parametrize("place", ["digits", "", "Digits/raw"])
def test_nodes_find_a_data_set_in_every_accepted_layout(place: str, tmp_path: Path) -> None:
    """As torchvision lays them out, too."""
    digits = made("digits")
    lay_out(tmp_path / place)
    (tmp_path / "digits").mkdir(exist_ok=True)
    assert locate(digits, tmp_path) == (tmp_path / place, {})
    assert folder_of(digits, tmp_path) == tmp_path / place


def test_the_default_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert folders.default_data_dir() == Path(os.environ["GRADWIRE_DATA_DIR"])
    monkeypatch.delenv("GRADWIRE_DATA_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert folders.default_data_dir() == Path("/xdg/gradwire")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert folders.default_data_dir() == Path("/home/someone/.cache/gradwire")


def test_the_status_counts_intact_missing_and_corrupt_files(
    digits: Dataset,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "FILES", {"digits": digits})

    def status() -> str:
        assert command.main(["status"]) == 0
        return capsys.readouterr().out.splitlines()[1]

    assert "2 missing" in status()
    lay_out(cache / "digits")
    assert "2 ok" in status()
    (cache / "digits" / "labels").write_bytes(b"9")
    assert "1 ok, 1 corrupt" in status()


def test_the_command_fetches_into_the_folder_it_is_given(
    digits: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "FILES", {"digits": digits})
    assert command.main(["fetch", "digits", "--data-dir", str(tmp_path / "there")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "there" / "digits")
    assert held(tmp_path / "there" / "digits") == CONTENTS


@pytest.mark.parametrize(
    "mistake", [[], ["fetch"], ["fetch", "nonsense"], ["status", "--nonsense"]]
)
def test_a_mistake_on_the_command_line_is_one_line_and_code_2(
    mistake: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(mistake)
    assert caught.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_failed_fetch_is_an_error_with_code_2(
    digits: Dataset, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "FILES", {"digits": replace(digits, mirrors=())})
    assert command.main(["fetch", "digits"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_the_command_starts_with_the_standard_library_only() -> None:
    program = "import workloads.data.command, workloads.models.pretrained"
    subprocess.run([sys.executable, "-S", "-c", program], cwd=PROJECT, check=True)
