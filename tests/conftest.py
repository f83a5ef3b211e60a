"""Fixtures for all tests. A Docker test is skipped without an engine, unless Docker is required."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from cluster.containers import engine
from cluster.engine import EngineUnavailable
from cluster.host import cgroups
from tests.browser import close_chromium

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background by a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Before torch is imported: its threads spin while they wait, and tests share the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples every time, however long a busy machine takes over one: no test fails by chance.
hypothesis.settings.register_profile(
    "gradwire",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("gradwire")


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out long campaigns but with -m soak, and keeps tests that share something together.

    That is in one process of pytest -n 2 --dist loadgroup. Containers: a measure removes those that
    killed ones left, which some tests rely on. Spark: one cluster keeps two cores busy. Tests of a
    module that has a fixture for all of them.
    """
    if "soak" not in config.option.markexpr:
        long = [item for item in items if item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
    for item in items:
        assert isinstance(item, pytest.Function)
        if item.get_closest_marker("docker") or "pyspark" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("docker"))
        elif _shares_a_fixture(item):
            item.add_marker(pytest.mark.xdist_group(item.module.__name__))


def _shares_a_fixture(item: pytest.Function) -> bool:
    definitions = item._fixtureinfo.name2fixturedefs.values()
    return any(definition.scope == "module" for found in definitions for definition in found)


def pytest_sessionfinish() -> None:
    close_chromium()


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In an empty folder; the command line's signal handlers are put away afterwards."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.chdir(tmp_path)
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def own_temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder for temporary files in which measures of other tests find no leftovers to remove."""
    folder = str(tmp_path_factory.mktemp("temporary"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        patch.setenv("TMPDIR", folder)
        yield


@pytest.fixture(scope="session")
def docker() -> None:
    """A Docker engine; else a skip, which is a failure where GRADWIRE_REQUIRE_DOCKER=1."""
    try:
        engine.check()
    except EngineUnavailable as error:
        if os.environ.get("GRADWIRE_REQUIRE_DOCKER") == "1":
            pytest.fail(f"Docker is required here: {error}")
        pytest.skip(str(error))


@pytest.fixture
def cpu_limits() -> None:
    """Control groups that limit CPU; else a skip."""
    try:
        cgroups.check("cpu")
    except EngineUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def memory_limits() -> None:
    """Control groups that limit memory; else a skip."""
    try:
        cgroups.check("memory")
    except EngineUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def iperf3() -> None:
    """iperf3; else a skip, which is a failure where GRADWIRE_REQUIRE_IPERF3=1."""
    if shutil.which("iperf3") is None:
        if os.environ.get("GRADWIRE_REQUIRE_IPERF3") == "1":
            pytest.fail("iperf3 is required here: apt-get install iperf3")
        pytest.skip("no iperf3 here: apt-get install iperf3")


@pytest.fixture(scope="session")
def horovod() -> None:
    """Horovod; else a skip, which is a failure where GRADWIRE_REQUIRE_HOROVOD=1."""
    _need_package("horovod")


@pytest.fixture(scope="session")
def pyspark(horovod: None) -> None:
    """Horovod, PySpark and Java; else as above."""
    _need_package("pyspark")
    if shutil.which("java") is None:
        _skip_without_horovod("no Java here: apt-get install openjdk-17-jre-headless")
    # A fast start, as in compose/spark/spark-defaults.conf: a test starts eight Java machines.
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")


def _need_package(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        _skip_without_horovod(f"no {name} here: bash cluster/environment.sh spark")


def _skip_without_horovod(reason: str) -> None:
    if os.environ.get("GRADWIRE_REQUIRE_HOROVOD") == "1":
        pytest.fail(f"Horovod and Spark are required here: {reason}")
    pytest.skip(reason)
