"""Users' own programs in containers: the same bytes as in namespaces."""

import json
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from tests.measuring import measure, one
from tests.program_laws import PROGRAMS, programs_agree

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("docker")]


def test_plain_programs_send_what_theory_and_our_strategies_say(tmp_path: Path) -> None:
    programs_agree("docker", 3, 1_000_000, tmp_path)


def _read_all(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            while connection.recv(2**16):
                pass


def test_a_program_reaches_the_host_only_where_that_is_asked_for(tmp_path: Path) -> None:
    """On the engine's own bridge, where nobody else listens."""
    gateway = json.loads(
        subprocess.run(
            ["docker", "network", "inspect", "bridge"], check=True, capture_output=True, text=True
        ).stdout
    )[0]["IPAM"]["Config"][0]["Gateway"]
    with socket.create_server((gateway, 0)) as server:
        threading.Thread(target=_read_all, args=(server,), daemon=True).start()
        program = f"{PROGRAMS / 'reaches.py'} {server.getsockname()[1]}"
        flags = ("--engine", "docker", "--workers", "2", "--output", str(tmp_path))
        for network, said in (("isolated", "no way out"), ("host-access", "the host answers")):
            summary = one(measure(*flags, "--network", network, "--program", program))
            run = tmp_path / summary["session"] / summary["run"]
            for rank in range(2):
                assert said in (run / "logs" / f"node{rank}.log").read_text()
            assert summary["counters"]["largest_difference"] < 0.02
            assert summary["bytes"]["total"]["sent_bytes"] < 1_000_000  # none of the 6 MB
    refused = measure("--engine", "netns", "--network", "host-access", "--program", program)
    assert refused.code == 2
    assert "host-access" in refused.stderr
