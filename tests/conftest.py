"""Fixtures for all tests. A Docker test is skipped without an engine, unless Docker is required."""

from __future__ import annotations

import os

import pytest

from cluster import docker_engine
from cluster.engine import EngineUnavailable


@pytest.fixture(scope="session")
def docker() -> None:
    """An engine answers; else a skip, which is a failure where GRADWIRE_REQUIRE_DOCKER=1."""
    try:
        docker_engine.check()
    except EngineUnavailable as error:
        if os.environ.get("GRADWIRE_REQUIRE_DOCKER") == "1":
            pytest.fail(f"Docker is required here: {error}")
        pytest.skip(str(error))
