"""Where data comes from: archives, packages and pictures give the same files as any other source."""

from __future__ import annotations

import hashlib
import io
import random
import shutil
import struct
import subprocess
import tarfile
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from workloads.data import cifar_pictures, datasets
from workloads.data import prepare as data
from workloads.data.datasets import (
    DATASETS,
    FILES,
    DataError,
    DataFile,
    Dataset,
    Package,
    folder_of,
    locate,
)
from workloads.data.fetch import fetch
from workloads.data.prepare import prepare, prepare_all

CONTENTS = {"images": bytes(range(256)) * 4_000, "labels": b"0123456789" * 100}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADWIRE_DATA_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("GRADWIRE_DATA_PATH", raising=False)
    return tmp_path / "cache"


def made(name: str) -> Dataset:
    files = tuple(
        DataFile(name=name, size_bytes=len(raw), sha256=hashlib.sha256(raw).hexdigest())
        for name, raw in CONTENTS.items()
    )
    return Dataset(name=name, files=files)


def lay_out(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, raw in CONTENTS.items():
        (folder / name).write_bytes(raw)
    return folder


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def packed(folder: Path, kind: str, names: tuple[str, ...] = tuple(CONTENTS)) -> str:
    """An archive with a folder of its own and another file in it; its address."""
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
    return path.as_uri()


@pytest.mark.parametrize("kind", [".tar.gz", ".zip"])
def test_an_archive_gives_all_files(tmp_path: Path, cache: Path, kind: str) -> None:
    address = packed(tmp_path / "server", kind)
    prepare(replace(made("digits"), archives=(address,)))
    assert held(cache / "digits") == CONTENTS


@pytest.mark.parametrize("kind", [".tar.gz", ".zip"])
def test_an_archive_that_ends_half_way_is_never_used_and_the_next_is_asked(
    tmp_path: Path, cache: Path, kind: str
) -> None:
    half = Path(packed(tmp_path / "first", kind).removeprefix("file://"))
    half.write_bytes(half.read_bytes()[:-600])
    whole = packed(tmp_path / "second", kind)
    with pytest.raises(DataError, match=r"(images|labels) is missing"):
        prepare(replace(made("digits"), archives=(half.as_uri(),)))
    prepare(replace(made("digits"), archives=(half.as_uri(), whole)))
    assert held(cache / "digits") == CONTENTS


def test_an_archive_without_a_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    address = packed(tmp_path / "server", ".zip", ("images",))
    with pytest.raises(DataError, match="no labels in the archive"):
        prepare(replace(made("digits"), archives=(address,)))


def test_a_wrong_checksum_names_the_file_and_both_sums(tmp_path: Path) -> None:
    expected = "0" * 64
    wrong = replace(made("digits").files[1], sha256=expected)
    address = packed(tmp_path / "server", ".zip")
    with pytest.raises(DataError) as caught:
        prepare(replace(made("digits"), files=(wrong,), archives=(address,)))
    for part in ("labels", expected, hashlib.sha256(CONTENTS["labels"]).hexdigest()):
        assert part in str(caught.value)


def test_folders_that_somebody_shares_are_looked_into_and_only_read(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = lay_out(tmp_path / "shared" / "digits")
    monkeypatch.setenv("GRADWIRE_DATA_PATH", f"{tmp_path / 'nothing'}:{tmp_path / 'shared'}")
    assert prepare(made("digits")) == shared
    assert held(shared) == CONTENTS
    assert not cache.exists()


def test_sets_that_lie_apart_are_brought_together_for_the_nodes(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = {name: made(name) for name in ("digits", "letters")}
    for module in (data, datasets):
        monkeypatch.setattr(module, "FILES", both)
    lay_out(cache / "digits")
    assert prepare_all(["digits"]) == cache / "digits"
    lay_out(tmp_path / "shared" / "letters")
    monkeypatch.setenv("GRADWIRE_DATA_PATH", str(tmp_path / "shared"))
    assert prepare_all(["letters", "digits"]) == cache
    for name in ("digits", "letters"):
        assert held(folder_of(name, cache)) == CONTENTS
    lay_out(tmp_path / "shared" / "digits")
    assert prepare_all(["letters", "digits"]) == tmp_path / "shared"


@pytest.mark.parametrize("place", ["digits", "", "Digits/raw"])
def test_nodes_find_a_set_wherever_the_plan_accepts_it(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As torchvision lays them out, too."""
    digits = replace(made("digits"), usual_folder="Digits/raw")
    monkeypatch.setattr(datasets, "FILES", {"digits": digits})
    lay_out(tmp_path / place)
    (tmp_path / "digits").mkdir(exist_ok=True)
    assert locate(digits, tmp_path) == (tmp_path / place, {})
    assert folder_of("digits", tmp_path) == tmp_path / place


def test_the_debian_package_holds_the_real_fashion_mnist(tmp_path: Path) -> None:
    known = shutil.which("apt-cache") and subprocess.run(
        ["apt-cache", "show", "dataset-fashion-mnist"], capture_output=True
    )
    if not known or known.returncode:
        pytest.skip("no apt here that knows dataset-fashion-mnist: apt-get update")
    folder = fetch(replace(DATASETS["fashion-mnist"], mirrors=()), tmp_path)
    labels = (folder / "t10k-labels-idx1-ubyte").read_bytes()[8:]
    assert [labels.count(kind) for kind in range(10)] == [1000] * 10


def test_a_client_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    package = Package(registry="debian", name="digits", folder="./usr")
    with pytest.raises(DataError, match="apt-get is not installed"):
        prepare(replace(made("digits"), packages=(package,)))


def test_every_file_has_a_size_and_a_checksum() -> None:
    for dataset in FILES.values():
        assert dataset.mirrors or dataset.archives
        for file in dataset.files:
            assert file.size_bytes > 0
            assert len(bytes.fromhex(file.sha256)) == 32


# --- pictures ---------------------------------------------------------------------------------


def predicted(kind: int, left: int, up: int, corner: int) -> int:
    """What each of PNG's filters takes away from a byte (PNG specification, section 9)."""
    distances = [abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)]
    nearest = (left, up, corner)[distances.index(min(distances))]
    return (0, left, up, (left + up) // 2, nearest)[kind]


def png(rows: list[bytes], kinds: list[int]) -> bytes:
    """8-bit RGB; row k is written with filter kinds[k]."""
    raw, above = bytearray(), bytes(len(rows[0]))
    for row, kind in zip(rows, kinds, strict=True):
        raw.append(kind)
        for at, value in enumerate(row):
            left, corner = (row[at - 3], above[at - 3]) if at >= 3 else (0, 0)
            raw.append((value - predicted(kind, left, above[at], corner)) % 256)
        above = row
    packed = zlib.compress(bytes(raw))
    header = struct.pack(">IIBBBBB", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", packed[:50]), (b"IDAT", packed[50:]), (b"IEND", b"")]
    return cifar_pictures.SIGNATURE + b"".join(
        struct.pack(">I", len(part)) + name + part + struct.pack(">I", zlib.crc32(name + part))
        for name, part in parts
    )


def test_a_picture_is_decoded_whatever_its_filters() -> None:
    draw = random.Random(1)
    kinds = [0, 1, 2, 3, 4, 4, 3, 2, 1, 0, 4, 1]
    rows = [draw.randbytes(3 * 40) for _ in kinds]
    decoded = list(cifar_pictures.decode(png(rows, kinds)))
    assert decoded == [row[0::3] + row[1::3] + row[2::3] for row in rows]


@pytest.mark.parametrize("wrong", [b"", b"<html>", png([bytes(30)], [0])[:60]])
def test_what_is_no_picture_is_refused(wrong: bytes) -> None:
    with pytest.raises((OSError, zlib.error, struct.error)):
        list(cifar_pictures.decode(wrong))
