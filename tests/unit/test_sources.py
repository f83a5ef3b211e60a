"""Archives give the same files as any other source; every data set has sources and a reader."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.spec.catalogue import MODELS
from tests.data_sets import CONTENTS, held, made, refusal, web_server
from workloads.data.prepare import FILES, prepare
from workloads.data.sets import DATASETS
from workloads.models.pretrained import WEIGHTS


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADWIRE_DATA_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("GRADWIRE_DATA_PATH", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache"


def make_archive(folder: Path, kind: str, names: tuple[str, ...] = tuple(CONTENTS)) -> Path:
    """An archive with a folder of its own and another file in it."""
    folder.mkdir()
    path = folder / f"all{kind}"
    with zipfile.ZipFile(path, "w") if kind == ".zip" else tarfile.open(path, "w:gz") as archive:
        for name in ("readme", *names):
            raw = CONTENTS.get(name, b"read me")
            if isinstance(archive, zipfile.ZipFile):
                archive.writestr(f"Some-Set/{name}", raw)
            else:
                member = tarfile.TarInfo(f"Some-Set/{name}")
                member.size = len(raw)
                archive.addfile(member, io.BytesIO(raw))
    return path


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Callable[[Path], str]]:
    """The address at which a real web server has a file of this test."""
    with web_server(tmp_path) as root:
        yield lambda path: f"{root}{path.relative_to(tmp_path)}"


@pytest.mark.parametrize("kind", [".tar.gz", ".zip"])
def test_an_archive_gives_all_files(
    tmp_path: Path, cache: Path, kind: str, web: Callable[[Path], str]
) -> None:
    archive = make_archive(tmp_path / "server", kind)
    prepare(made("digits", archives=(web(archive),)))
    assert held(cache / "digits") == CONTENTS


@pytest.mark.parametrize("kind", [".tar.gz", ".zip"])
def test_a_truncated_archive_is_never_used_and_the_next_one_is_tried(
    tmp_path: Path, cache: Path, kind: str, web: Callable[[Path], str]
) -> None:
    half = make_archive(tmp_path / "first", kind)
    half.write_bytes(half.read_bytes()[:-600])
    whole = make_archive(tmp_path / "second", kind)
    message = refusal(lambda: prepare(made("digits", archives=(web(half),))))
    assert "images is missing" in message
    prepare(made("digits", archives=(web(half), web(whole))))
    assert held(cache / "digits") == CONTENTS


def test_an_archive_without_a_file_is_an_error_that_names_it(
    tmp_path: Path, web: Callable[[Path], str]
) -> None:
    archive = make_archive(tmp_path / "server", ".zip", ("images",))
    message = refusal(lambda: prepare(made("digits", archives=(web(archive),))))
    assert "no labels in the archive" in message


def test_a_wrong_checksum_names_the_file_and_both_sums(
    tmp_path: Path, web: Callable[[Path], str]
) -> None:
    expected = "0" * 64
    archive = make_archive(tmp_path / "server", ".zip")
    digits = made("digits", archives=(web(archive),))
    wrong = replace(digits, files=(replace(digits.files[1], sha256=expected),))
    message = refusal(lambda: prepare(wrong))
    for part in ("labels", expected, hashlib.sha256(CONTENTS["labels"]).hexdigest()):
        assert part in message


def test_every_file_has_a_source_a_size_and_a_checksum() -> None:
    for dataset in FILES.values():
        assert dataset.mirrors or dataset.archives or dataset.packages
        for file in dataset.files:
            assert file.size_bytes > 0
            assert len(bytes.fromhex(file.sha256)) == 32


def test_every_data_set_of_the_catalogue_has_a_reader() -> None:
    for dataset in DATASETS.values():
        assert (dataset.read is None) != (dataset.read_sentences is None)
    assert {facts.weights for facts in MODELS.values()} - {None} == set(WEIGHTS)
