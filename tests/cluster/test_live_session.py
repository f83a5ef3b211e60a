"""./measure.sh --live with real nodes, looked at by a real browser."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import urllib.request
from pathlib import Path
from urllib.error import URLError

import pytest

from tests.browser import chromium
from tests.measuring import await_handlers, finish, start

LISTENS = "0A"
LOOPBACK = "0100007F"
FLAGS = ("--engine", "netns", "--workers", "2", "--train-size", "512", "--epochs", "500")


def address_of(process: subprocess.Popen[str]) -> str:
    """As it is printed at the start."""
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.fullmatch(r"live view: (http://127\.0\.0\.1:\d+/[\w-]+/)\n", line):
            return found[1]
    raise AssertionError("no address was printed")


def listening(process: int) -> list[str]:
    """The addresses, in hexadecimal, on which a process listens for TCP connections."""
    folder = Path(f"/proc/{process}")
    files = [os.readlink(path) for path in (folder / "fd").iterdir()]
    sockets = {file[8:-1] for file in files if file.startswith("socket:")}
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in (folder / "net" / table).read_text().splitlines()[1:]
    ]
    return [row[1].split(":")[0] for row in rows if row[3] == LISTENS and row[9] in sockets]


def test_a_browser_sees_an_epoch_while_its_run_lasts_and_ctrl_c_ends_the_server(
    tmp_path: Path,
) -> None:
    process = start(*FLAGS, "--live", "--output", str(tmp_path))
    await_handlers(process)
    address = address_of(process)
    with chromium() as browser:
        browser.call("Page.navigate", url=address)
        browser.wait("document.querySelector('#live-accuracy')?.data?.[0].y.length > 0")
        assert list(tmp_path.glob("*/*/summary.json")) == []
        assert listening(process.pid) == [LOOPBACK]
        assert browser.errors == []
        assert {url.partition("?")[0] for url in browser.requests} <= {
            address,
            f"{address}state.json",
        }
        process.send_signal(signal.SIGINT)
        assert finish(process).code == 130
        browser.wait("!document.querySelector('#live-end').hidden")
    with pytest.raises(URLError):
        urllib.request.urlopen(address)
