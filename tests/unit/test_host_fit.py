"""Hosts that cannot execute a run are refused with one line that says why."""

from __future__ import annotations

import socket
import sys

from workloads.hosts import fit
from workloads.hosts.entry import describe_host
from workloads.hosts.fit import HostFacts

VERSIONS = {"Python": "3.11.7", "torch": "2.13.0+cpu"}
HERE = HostFacts(host="here", network="0", python="/usr/bin/python3", versions={**VERSIONS})


def worker(host: str, python: str = "/usr/bin/python3", **versions: str | None) -> HostFacts:
    return HostFacts(host=host, network=host, python=python, versions={**VERSIONS, **versions})


def differing(found: list[HostFacts]) -> str | None:
    return fit.differing(found, HERE, "--host-python chooses it")


def test_equal_versions_are_accepted_whatever_the_patch_of_python() -> None:
    assert differing([worker("a"), worker("b", Python="3.11.2")]) is None


def test_a_different_version_is_named_with_its_host_and_ours() -> None:
    said = differing([worker("a"), worker("b", torch="2.12.0")])
    assert said is not None
    assert "torch is 2.12.0 on b" in said
    assert "2.13.0+cpu here" in said
    assert "--host-python" in said


def test_two_workers_with_the_same_interfaces_are_refused() -> None:
    assert fit.shared_host([worker("a"), worker("b")]) is None
    one, other = worker("a"), worker("b")
    other["network"] = one["network"]
    assert "a and b are one host" in str(fit.shared_host([one, other]))


def test_a_missing_package_is_named() -> None:
    said = differing([worker("a", torch=None)])
    assert said is not None
    assert "torch is missing on a" in said


def test_another_minor_version_of_python_is_refused() -> None:
    said = differing([worker("a", Python="3.12.1")])
    assert said is not None
    assert "Python is 3.12.1 on a" in said


def test_pythons_in_different_places_are_refused() -> None:
    said = fit.different_places([worker("a"), worker("b", "/opt/python")])
    assert said is not None
    assert "/opt/python, /usr/bin/python3" in said


def test_too_few_slots_and_another_python_have_different_messages() -> None:
    slots = fit.too_few_slots(6, 4, 60)
    assert (
        "6 workers need 6 free slots, one each, and the cluster gave 4 and no more within" in slots
    )
    error = (
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in"
        " driver: 3.11, PySpark cannot run with different minor versions."
    )
    assert fit.spark_complaint(error).startswith("Python is 3.12 on the cluster and 3.11 here")


def test_any_other_failure_is_reported_by_its_last_error_line() -> None:
    error = "Job aborted\n\tat x\njava.io.IOException: Cannot run program\n\tat y.SparkErrorUtils.z"
    assert fit.spark_complaint(error) == "java.io.IOException: Cannot run program"


def test_a_host_describes_itself() -> None:
    found = fit.parse_facts(describe_host(fit.TORCH_PACKAGES))
    assert found["host"] == socket.gethostname()
    assert found["python"] == sys.executable
    assert set(found["versions"]) == {"Python", *fit.TORCH_PACKAGES}
    assert fit.differing([found], found, "") is None
