"""Entry points on hosts without gradwire: functions that spark_remote.py sends by value.

They import what they need themselves, from the standard library only.
"""

from typing import Any

PACKAGES = ("torch", "horovod", "pyspark", "psutil", "numpy")
"""Their versions must be the same on all hosts."""


def describe_host(_: object = None) -> dict[str, Any]:
    """This host's name, network, Python and package versions."""
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
    """Download gradwire from the driver and execute a run; `networks` are those of all workers."""
    import os
    import sys
    import tempfile
    import urllib.request
    from pathlib import Path

    # In the Spark application's own folder, which Spark removes even if this task is killed.
    own = os.environ.get("HOROVOD_SPARK_WORK_DIR")
    with tempfile.TemporaryDirectory(prefix="gradwire-", dir=own) as folder:
        code = Path(folder) / "code.zip"
        with urllib.request.urlopen(f"{artifact_server}/code", timeout=60) as answer:
            code.write_bytes(answer.read())
        sys.path.insert(0, str(code))
        from workloads.launchers import remote_task

        remote_task.train(artifact_server, Path(folder), networks.count(describe_host()["network"]))
