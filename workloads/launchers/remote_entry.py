"""What the driver sends to hosts that know nothing of gradwire: functions that travel by value.

So they import what they need themselves, and only what Python brings along. spark_remote.py sends them.
"""

from __future__ import annotations

from typing import Any

PACKAGES = ("torch", "horovod", "pyspark", "psutil", "numpy")
"""What must be the same there and here."""


def look_around(_: object = None) -> dict[str, Any]:
    """Which host this is, and what is on it."""
    import os
    import platform
    import socket
    import sys
    from importlib import metadata
    from pathlib import Path

    versions: dict[str, str | None] = {"Python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {
        "host": socket.gethostname(),
        "network": f"{boot} {os.readlink('/proc/self/ns/net')}",
        "python": sys.executable,
        "versions": versions,
    }


def train(artifact_server: str, networks: list[str]) -> None:
    """Fetch gradwire from the driver, and go on with what it says. `networks` are all workers', by look_around."""
    import os
    import sys
    import tempfile
    import urllib.request
    from pathlib import Path

    # Below the Spark application's own folder: a task that is killed leaves it there, and to whoever clears that.
    own = os.environ.get("HOROVOD_SPARK_WORK_DIR")
    with tempfile.TemporaryDirectory(prefix="gradwire-", dir=own) as folder:
        code = Path(folder) / "code.zip"
        with urllib.request.urlopen(f"{artifact_server}/code", timeout=60) as answer:
            code.write_bytes(answer.read())
        sys.path.insert(0, str(code))
        from workloads.launchers import remote_task

        remote_task.train(artifact_server, Path(folder), networks.count(look_around()["network"]))
