"""Imports go one way, by package. Read from the source, so that lazy imports count too."""

import ast
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.containers import image

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = ("cluster", "workloads", "analysis")
FOR_ANALYSIS = ("cluster.observe.units", "cluster.observe.result_row")
"""What analysis may import of cluster beside cluster.spec: numbers and runs as people read them."""
ON_NODES = [folder.replace("/", ".") for folder in image.ON_NODES]


def module_name(path: Path) -> str:
    parts = path.relative_to(PROJECT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {
    module_name(path): path for package in PACKAGES for path in (PROJECT / package).rglob("*.py")
}


@functools.cache
def imports(module: str) -> set[str]:
    """Modules that a module imports anywhere; `from a import b` is a.b where that is a module."""
    found = set()
    for node in ast.walk(ast.parse(FILES[module].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import: say it in full"
            assert node.module is not None
            named = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = {name for name in named if name in FILES}
            found |= modules
            if modules != named:
                found.add(node.module)
    return found


def packages(module: str) -> set[str]:
    return {name.partition(".")[0] for name in imports(module)}


def importers(package: str) -> set[str]:
    return {module for module in FILES if package in packages(module)}


def inside(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def ours(module: str) -> set[str]:
    return {name for name in imports(module) if name.partition(".")[0] in PACKAGES}


def test_all_packages_are_looked_at() -> None:
    for module in ("cluster.spec.experiment", "cluster.measure", "workloads.worker"):
        assert module in FILES
    assert "torch" in packages("workloads.training")
    assert "cluster.namespaces.engine" in imports("cluster.doctor")


@pytest.mark.parametrize("module", [m for m in FILES if inside(m, "cluster.spec")])
def test_the_shared_core_imports_itself_and_the_standard_library(module: str) -> None:
    for name in imports(module):
        assert inside(name, "cluster.spec") or name.partition(".")[0] in sys.stdlib_module_names


@pytest.mark.parametrize("module", [m for m in FILES if not m.startswith("cluster")])
def test_workloads_and_analysis_import_only_the_shared_core_of_cluster(module: str) -> None:
    allowed = ("cluster.spec", *(FOR_ANALYSIS if module.startswith("analysis") else ()))
    known = {name for name in imports(module) if name.partition(".")[0] == "cluster"}
    assert [name for name in known if not inside(name, *allowed)] == []


@pytest.mark.parametrize(
    "module",
    [
        *("cluster.links.gate", "cluster.links.rate_probe", "cluster.links.helper"),
        "cluster.links.router_service",
        *("cluster.links.tcp_proxy", "cluster.gpu.node", "cluster.gpu.namespace_holder"),
        *("workloads.worker", "workloads.launchers.spark_driver"),
    ],
)
def test_what_a_node_runs_is_in_its_image(module: str) -> None:
    """With all that it imports in turn: docker/Dockerfile copies whole packages."""
    waiting, seen = {module}, set[str]()
    while waiting:
        current = waiting.pop()
        seen.add(current)
        assert current == "cluster" or inside(current, *ON_NODES), current
        waiting |= ours(current) - seen


@pytest.mark.parametrize("module", [m for m in FILES if m.startswith("workloads")])
def test_workloads_know_nothing_of_analysis(module: str) -> None:
    assert "analysis" not in packages(module)


def test_only_the_command_line_knows_all_three_packages() -> None:
    others = importers("workloads") | importers("analysis")
    assert {module for module in others if module.startswith("cluster")} == {"cluster.measure"}


@pytest.mark.parametrize(
    ("library", "home"),
    [
        ("torch", ("workloads.", "analysis.export.tensorboard")),
        ("mlflow", "analysis.export.mlflow"),
        ("pyarrow", "analysis.export.parquet"),
        ("pandas", "analysis."),
        ("plotly", "analysis."),
        ("docker", "cluster.containers."),
        ("yaml", ("cluster.containers.", "cluster.existing.prepare")),
        ("pynvml", "cluster.gpu.nvml"),
    ],
)
def test_a_library_is_imported_only_where_it_lives(
    library: str, home: str | tuple[str, ...]
) -> None:
    assert [module for module in importers(library) if not module.startswith(home)] == []


def test_these_libraries_are_imported_somewhere() -> None:
    """Else the rules above would hold because a name is misspelt."""
    for library in ("torch", "mlflow", "pyarrow", "docker", "yaml", "pynvml"):
        assert importers(library)


def test_the_folder_docker_never_hides_the_sdk() -> None:
    assert not (PROJECT / "docker" / "__init__.py").exists()


def test_the_command_line_starts_without_torch_or_pandas() -> None:
    """They take seconds to import; --help and a mistake must not."""
    program = "import json, sys, cluster.measure; print(json.dumps(sorted(sys.modules)))"
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    loaded = set(json.loads(answer.stdout))
    assert "workloads.data.prepare" in loaded
    slow = {"torch", "pandas", "plotly", "numpy", "docker"}
    for_data = {"pooch", "requests", "PIL", "tokenizers", "safetensors"}
    assert loaded & (slow | for_data) == set()


@pytest.mark.parametrize("module", ["cluster.spec.schedules", "analysis.summary.summarise"])
def test_what_the_command_line_takes_from_others_needs_only_python_itself(module: str) -> None:
    """With all that it imports of ours in turn."""
    waiting, seen = {module}, set()
    while waiting:
        current = waiting.pop()
        seen.add(current)
        for name in imports(current):
            if name in FILES:
                waiting |= {name} - seen
            else:
                assert name.partition(".")[0] in (*sys.stdlib_module_names, *PACKAGES), name


def test_tests_of_containers_stay_in_one_row(request: pytest.FixtureRequest) -> None:
    """pytest 9.2 with pytest-xdist 3.8 ignores the group and runs them side by side."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        pytest.skip("there is one row only: pytest -n 2 --dist loadgroup")
    for item in request.session.items:
        if item.get_closest_marker("docker"):
            assert item.nodeid.endswith("@docker")
