"""Fixtures of the tests that fetch and prepare data sets."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.data_sets import CONTENTS, made, pack, web_server
from workloads.data.dataset import Dataset


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADWIRE_DATA_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("GRADWIRE_DATA_PATH", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache"


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Callable[[Path], str]]:
    """The address at which a real web server has a folder of this test."""
    with web_server(tmp_path) as root:
        yield lambda folder: f"{root}{folder.relative_to(tmp_path)}/"


@pytest.fixture
def server(tmp_path: Path) -> Path:
    return pack(tmp_path / "server", CONTENTS)


@pytest.fixture
def digits(server: Path, web: Callable[[Path], str]) -> Dataset:
    return made("digits", mirrors=(web(server),))
