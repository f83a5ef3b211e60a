"""Pin the packages of images by version and hash: python3 -m cluster.containers.lock_requirements

Run it after a change of requirements-run.txt or docker/requirements-*.txt, with the Python version
of the base image (3.11). It resolves each list with pip and writes docker/requirements-*-locked.txt
for docker/Dockerfile, which installs them with --require-hashes. They name the Linux wheels of each
version, for x86-64 and arm64; its source release where there is none.

Needs pip's own variables: $PIP_INDEX_URL, the package index, and $PIP_EXTRA_INDEX_URL, PyTorch's
CPU index. Where the latter cannot be reached, torch itself must be in $PIP_FIND_LINKS, and its
hashes are kept as they are.
"""

import json
import os
import re
import subprocess
import sys
import urllib.request
from html import unescape
from pathlib import Path
from urllib.parse import unquote

from cluster import PROJECT

DOCKER = PROJECT / "docker"
INDEX, PYTORCH = "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"
LISTS = {
    "torch": ("requirements-torch.txt",),
    "worker": ("requirements-worker.txt",),
    "horovod": ("requirements-horovod.txt", "--no-deps"),
    "spark": ("requirements-spark.txt", "--no-deps"),
    "report": ("../requirements-run.txt",),
}
"""Name of a locked list -> the list it is made from, and options of pip."""
WHEEL = re.compile(
    r"py3-none-any|(cp3\d+-cp3\d+|cp3\d+-abi3|py3-none)-[\w.]*manylinux[\w.]*_(x86_64|aarch64)"
)
HEADER = "# Made from {source} by python3 -m cluster.containers.lock_requirements.\n"
TIMEOUT_S = 30


def main() -> int:
    if missing := [name for name in (INDEX, PYTORCH) if not os.environ.get(name)]:
        sys.exit(f"lock_requirements: set {' and '.join(missing)} to the addresses of the indexes")
    for name, (source, *options) in LISTS.items():
        target = DOCKER / f"requirements-{name}-locked.txt"
        before = target.read_text() if target.exists() else ""
        lines = [locked(*package, before) for package in resolve(DOCKER / source, options)]
        target.write_text(HEADER.format(source=source.removeprefix("../")) + "".join(lines))
        print(f"{target.name}: {len(lines)} packages")
    return 0


def resolve(source: Path, options: list[str]) -> list[tuple[str, str]]:
    """Names and versions of all packages that pip would install."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    command += ["--retries", "0", "--report", "-"]
    command += [*options, "--requirement", str(source)]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    found = (package["metadata"] for package in report["install"])
    return sorted((normal(package["name"]), package["version"]) for package in found)


def locked(name: str, version: str, before: str) -> str:
    """The lines of one package."""
    index = os.environ[PYTORCH if "+" in version else INDEX].rstrip("/")
    try:
        hashes = index_hashes(index, name, version)
    except OSError as error:
        entry = re.search(rf"^{name}=={re.escape(version)} (?:.*\\\n)*.*$", before, re.MULTILINE)
        hashes = re.findall(r"sha256:(\w+)", entry[0] if entry else "")
        print(f"{name} {version}: {error}; its hashes are kept", file=sys.stderr)
    if not hashes:
        sys.exit(f"lock_requirements: {index} has no files of {name} {version}")
    return " \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{h}" for h in hashes)]) + "\n"


def index_hashes(index: str, name: str, version: str) -> list[str]:
    """The hashes of the wheels that an image may need, else of the source release."""
    with urllib.request.urlopen(f"{index}/{name}/", timeout=TIMEOUT_S) as answer:
        page = unescape(answer.read().decode())
    files: dict[str, str] = {
        unquote(file): digest
        for file, digest in re.findall(r'href="[^"#]*/([^"/#]+)#sha256=(\w{64})"', page)
    }
    of_version = {file: h for file, h in files.items() if file_version(file, name) == version}
    wheels = {h for file, h in of_version.items() if WHEEL.search(file) and file.endswith(".whl")}
    return sorted(wheels or {h for file, h in of_version.items() if file.endswith(".tar.gz")})


def file_version(file: str, name: str) -> str | None:
    """The version in a file's name."""
    escaped = re.escape(name).replace(r"\-", "[-_.]")
    found = re.match(rf"{escaped}-([^-]+?)(?:-|\.tar\.gz$)", file, re.IGNORECASE)
    return found[1] if found else None


def normal(name: str) -> str:
    """A package's name as indexes spell it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
