"""Fetching: no wrong download is ever moved in place, whatever a source or another process does."""

from __future__ import annotations

import gzip
import multiprocessing
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.data_sets import CONTENTS, held, pack, refusal
from workloads.data import sources
from workloads.data.dataset import Dataset
from workloads.data.prepare import prepare

pytestmark = pytest.mark.usefixtures("cache")


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
    digits: Dataset,
    tmp_path: Path,
    server: Path,
    cache: Path,
    wrong: bytes,
    web: Callable[[Path], str],
) -> None:
    bad = pack(tmp_path / "bad", CONTENTS)
    (bad / "images.gz").write_bytes(wrong)
    prepare(replace(digits, mirrors=(web(bad), web(server))))
    assert held(cache / "digits") == CONTENTS


def test_files_may_come_from_different_sources(
    digits: Dataset,
    tmp_path: Path,
    cache: Path,
    web: Callable[[Path], str],
) -> None:
    first = pack(tmp_path / "first", {"images": CONTENTS["images"]})
    second = pack(tmp_path / "second", CONTENTS | {"images": b"would be refused"})
    prepare(replace(digits, mirrors=(web(first), web(second))))
    assert held(cache / "digits") == CONTENTS


def test_unreachable_sources_give_one_error_that_names_each(
    digits: Dataset,
    tmp_path: Path,
    web: Callable[[Path], str],
) -> None:
    nowhere = replace(
        digits, mirrors=("http://127.0.0.1:9/", web(tmp_path / "gone"), "http://no.invalid/")
    )
    message = refusal(lambda: prepare(nowhere))
    for source in ("127.0.0.1:9", "gone", "no.invalid"):
        assert source in message
    assert "--data-dir" in message


@pytest.fixture
def silent_address() -> Iterator[str]:
    """A server that accepts connections and never replies."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


def test_silent_mirrors_together_cost_one_wait(
    digits: Dataset,
    server: Path,
    cache: Path,
    silent_address: str,
    monkeypatch: pytest.MonkeyPatch,
    web: Callable[[Path], str],
) -> None:
    monkeypatch.setattr(sources, "ANSWER_TIMEOUT_S", 0.5)
    started = time.monotonic()
    prepare(replace(digits, mirrors=(*(f"{silent_address}{k}/" for k in range(100)), web(server))))
    assert time.monotonic() - started < 100 * 0.5
    assert held(cache / "digits") == CONTENTS


def test_temporary_files_of_a_killed_fetch_are_removed(digits: Dataset, cache: Path) -> None:
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


def test_a_slow_fetch_prints_its_progress(digits: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "PROGRESS_EVERY_S", 0.0)
    said: list[str] = []
    prepare(digits, say=said.append)
    assert any(line.endswith("%") for line in said)
