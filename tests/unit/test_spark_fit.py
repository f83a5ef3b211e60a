"""A Spark cluster that cannot execute a run is refused with one line that says why."""

from __future__ import annotations

from typing import Any

from workloads.launchers.remote_entry import describe_host
from workloads.launchers.spark_fit import complaint, differing, too_few

HERE: dict[str, Any] = {"versions": {"Python": "3.11.7", "torch": "2.13.0+cpu"}}


def worker(host: str, python: str = "/usr/bin/python3", **versions: str | None) -> dict[str, Any]:
    return {"host": host, "python": python, "versions": {**HERE["versions"], **versions}}


def test_equal_versions_are_accepted_whatever_the_patch_of_python() -> None:
    assert differing([worker("a"), worker("b", Python="3.11.2")], HERE) is None


def test_a_different_version_is_named_with_its_host_and_ours() -> None:
    said = differing([worker("a"), worker("b", torch="2.12.0")], HERE)
    assert said is not None
    assert "torch is 2.12.0 on b" in said
    assert "2.13.0+cpu here" in said


def test_a_missing_package_is_named() -> None:
    said = differing([worker("a", torch=None)], HERE)
    assert said is not None
    assert "torch is missing on a" in said


def test_another_minor_version_of_python_is_refused() -> None:
    said = differing([worker("a", Python="3.12.1")], HERE)
    assert said is not None
    assert "Python is 3.12.1 on a" in said


def test_pythons_in_different_places_are_refused() -> None:
    said = differing([worker("a"), worker("b", "/opt/python")], HERE)
    assert said is not None
    assert "/opt/python, /usr/bin/python3" in said


def test_too_few_slots_and_another_python_have_different_messages() -> None:
    slots = too_few(6, 4, 60)
    assert (
        "6 workers need 6 free slots, one each, and the cluster gave 4 and no more within" in slots
    )
    error = (
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in"
        " driver: 3.11, PySpark cannot run with different minor versions."
    )
    assert complaint(error).startswith("Python is 3.12 on the cluster and 3.11 here")


def test_any_other_failure_is_reported_by_its_last_error_line() -> None:
    error = "Job aborted\n\tat x\njava.io.IOException: Cannot run program\n\tat y.SparkErrorUtils.z"
    assert complaint(error) == "java.io.IOException: Cannot run program"


def test_a_host_describes_itself() -> None:
    import socket
    import sys

    found = describe_host()
    assert found["host"] == socket.gethostname()
    assert found["python"] == sys.executable
    assert differing([found], found) is None
