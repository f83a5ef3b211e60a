"""What `pip install .` installs: every file of the packages, and what they need."""

from __future__ import annotations

import tomllib

from cluster import PROJECT

PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text())
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]


def test_every_data_file_of_the_packages_is_installed() -> None:
    for package, patterns in SETUPTOOLS["package-data"].items():
        folder = PROJECT / package
        data = {p for p in folder.rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc")}
        found = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
        assert data == found
        assert data


def test_a_folder_with_modules_is_a_package() -> None:
    for package in SETUPTOOLS["package-data"]:
        for path in (PROJECT / package).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), path


def test_dependencies_are_those_of_the_host_without_torch() -> None:
    (file,) = SETUPTOOLS["dynamic"]["dependencies"]["file"]
    names = [line.partition("==")[0] for line in (PROJECT / file).read_text().splitlines()]
    assert "pandas" in names
    assert "torch" not in names
