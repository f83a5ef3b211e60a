"""Entry points on hosts without gradwire: functions that are sent by value, or as this text.

They import what they need themselves, from the standard library only.
"""

from typing import Any


def describe_host(packages: tuple[str, ...]) -> dict[str, Any]:
    """This host's name, network, Python and the packages' versions, which must be the same."""
    import os
    import platform
    import socket
    import sys
    from importlib import metadata
    from pathlib import Path

    versions: dict[str, str | None] = {"Python": platform.python_version()}
    for name in packages:
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


def fetch_code(driver: str, folder: str) -> None:
    """Download gradwire from the driver into a folder, and import it from there."""
    import sys
    import urllib.request
    from pathlib import Path

    code = Path(folder) / "code.zip"
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the driver is near
    with direct.open(f"{driver}/code", timeout=60) as answer:
        code.write_bytes(answer.read())
    sys.path.insert(0, str(code))


def train_in_spark(driver: str, networks: list[str], packages: tuple[str, ...]) -> None:
    """Execute a run in a Spark task; `networks` are those of all workers."""
    import os
    import tempfile
    from pathlib import Path

    # In the Spark application's own folder, which Spark removes even if this task is killed.
    own = os.environ.get("HOROVOD_SPARK_WORK_DIR")
    with tempfile.TemporaryDirectory(prefix="gradwire-", dir=own) as folder:
        fetch_code(driver, folder)
        from workloads.hosts import spark_task

        beside = networks.count(describe_host(packages)["network"])
        spark_task.train(driver, Path(folder), beside)


def execute_in_spark(driver: str) -> int:
    """Execute a run of virtual workers in a Spark task; its exit code."""
    import os
    import tempfile
    from pathlib import Path

    # In the Spark application's own folder, which Spark removes even if this task is killed.
    with tempfile.TemporaryDirectory(prefix="gradwire-", dir=os.getcwd()) as folder:
        fetch_code(driver, folder)
        from workloads.hosts import spark_task

        return spark_task.execute_alone(driver, Path(folder))


def serve_driver() -> None:
    """Be the agent of the driver that the environment names, until it sends no more runs."""
    import os
    import signal
    import sys
    import tempfile
    from pathlib import Path

    def end(*_: object) -> None:
        sys.exit(143)  # and remove the folder

    if sys.version_info < (3, 11):  # noqa: UP036  the host has a Python of its own
        sys.exit(f"Python on this host is {sys.version.split()[0]}: gradwire needs 3.11 or newer")
    signal.signal(signal.SIGTERM, end)
    with tempfile.TemporaryDirectory(prefix="gradwire-") as folder:
        fetch_code(os.environ["GRADWIRE_DRIVER"], folder)
        from workloads.hosts import remote_agent

        sys.exit(remote_agent.serve(os.environ["GRADWIRE_DRIVER"], Path(folder)))
