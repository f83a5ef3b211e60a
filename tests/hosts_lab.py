"""Hosts on one switch, in fresh namespaces, with a shell command on each of them.

    unshare --net --mount ... python -m tests.hosts_lab < plan.json

The plan: `commands`, one line of shell per host; `folder`, where each host mounts its own folder of
`copies`. The hosts are called node0, node1, ... and their interface lan0: not every machine has an
eth0. Prints the output and exit code of each, as one JSON array.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile

from cluster.namespaces import network
from tests.link_lab import inside
from tests.measuring import PROJECT

PATIENCE_S = 400
ON_A_HOST = 'mount --bind "$1" "$2" && exec bash -c "$3"'


def main() -> int:
    plan = json.load(sys.stdin)
    namespaces = build_hosts(len(plan["commands"]))
    with contextlib.ExitStack() as stack:
        said = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in namespaces]
        hosts = [
            subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", ON_A_HOST, "sh", copy, plan["folder"], command],
                cwd=PROJECT,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                **inside(namespace),
            )
            for command, copy, file, namespace in zip(
                plan["commands"], plan["copies"], said, namespaces, strict=True
            )
        ]
        # After a timeout this process ends, and with it all of its process namespace.
        codes = [host.wait(PATIENCE_S) for host in hosts]
        for file in said:
            file.seek(0)
        texts = [file.read() for file in said]
    print(json.dumps([{"said": t, "code": c} for t, c in zip(texts, codes, strict=True)]))
    return 0


def build_hosts(count: int) -> list[int]:
    namespaces = network.create_namespaces(count)
    network.write_hosts_file(count)
    network.build_network(count, namespaces)
    for namespace in namespaces:
        with network.inside(namespace):
            network.ip_batch("link set eth0 down", "link set eth0 name lan0", "link set lan0 up")
    return namespaces


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    sys.exit(main())
