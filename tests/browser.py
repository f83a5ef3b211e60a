"""A real Chromium, driven through a pipe by its DevTools protocol. No driver, no port.

It is started once. Every test has a page in a profile of its own. Everything that the page asked
the network for, and every error it wrote to its console, is kept.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

QUIET = (
    "no-first-run disable-background-networking disable-component-update disable-sync disable-quic"
)
AWAKE = "disable-renderer-backgrounding disable-backgrounding-occluded-windows"
"""The page of a module's tests stays open while another test has its own."""
FLAGS = f"headless no-sandbox disable-gpu disable-dev-shm-usage hide-scrollbars {QUIET} {AWAKE}"
PATIENCE_S = 300


class Browser:
    """One page. `call` is any command of the protocol."""

    def __init__(self, program: Chromium) -> None:
        self._program = program
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._profile = program.send("Target.createBrowserContext")["browserContextId"]
        where = {"url": "about:blank", "browserContextId": self._profile}
        target = program.send("Target.createTarget", where)["targetId"]
        attach = {"targetId": target, "flatten": True}
        self._session = program.send("Target.attachToTarget", attach)["sessionId"]
        program.listeners[self._session] = self._note
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._program.send(method, parameters, self._session)

    def close(self) -> None:
        del self._program.listeners[self._session]
        self._program.send("Target.disposeBrowserContext", {"browserContextId": self._profile})

    def _note(self, method: str, told: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            if not told["request"]["url"].startswith(("data:", "blob:")):  # they are in the page
                self.requests.append(told["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "assert"):
            self.errors.append(str(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.errors.append(str(told["entry"]))

    def open(self, page: Path, width: int = 1200, height: int = 900) -> None:
        """And wait until all its figures are drawn."""
        self.size(width, height)
        self.call("Page.navigate", url=page.as_uri())
        self.wait("document.documentElement?.dataset.ready === 'yes'")

    def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise's, once it is kept."""
        wanted = {"returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", expression=script, **wanted)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < deadline, f"never: {condition}"
            time.sleep(0.02)

    def click(self, selector: str) -> None:
        x, y = self._place(selector, 0.5, 0.5)
        for kind in ("mousePressed", "mouseReleased"):
            self._mouse(kind, x, y, button="left", clickCount=1)

    def point_at(self, selector: str, until: str, at: tuple[float, float] = (0.5, 0.5)) -> None:
        """`at` is where in it: right of its left and below its top, as shares of its size.

        A figure that is drawn moves those below it, so the mouse follows its element.
        """
        deadline = time.monotonic() + PATIENCE_S
        while not self.run(f"Boolean({until})"):
            assert time.monotonic() < deadline, f"never: {until}"
            x, y = self._place(selector, *at)
            self._mouse("mouseMoved", x - 1, y)
            self._mouse("mouseMoved", x, y)
            time.sleep(0.1)

    def _place(self, selector: str, right: float, down: float) -> tuple[float, float]:
        quoted = json.dumps(selector)
        self.run(f"document.querySelector({quoted}).scrollIntoView({{block: 'center'}})")
        box = self.run(
            f"(({{x, y, width, height}}) => [x + width * {right}, y + height * {down}])"
            f"(document.querySelector({quoted}).getBoundingClientRect())"
        )
        return float(box[0]), float(box[1])

    def _mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def dark(self) -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF")["data"])


class Chromium:
    """The program: commands to it, and what it says of each page."""

    def __init__(self, program: str) -> None:
        # Chromium's other processes may still write there when the first has ended.
        self._folder = tempfile.TemporaryDirectory(
            prefix="gradwire-browser-", ignore_cleanup_errors=True
        )
        ours_in, self._to = os.pipe()
        self._back, ours_out = os.pipe()
        options = [*FLAGS.split(), f"user-data-dir={self._folder.name}", "remote-debugging-pipe"]
        command = [program, *(f"--{option}" for option in options), "about:blank"]
        # The protocol's pipes are file descriptors 3 and 4, by Chromium's own rule.
        shell = f'exec "$@" 3<&{ours_in} 4>&{ours_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *command],
            pass_fds=(ours_in, ours_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(ours_in)
        os.close(ours_out)
        self._text = bytearray()
        self._ids = itertools.count(1)
        self.listeners: dict[str, Callable[[str, dict[str, Any]], None]] = {}

    def send(
        self, method: str, parameters: dict[str, Any] | None = None, session: str | None = None
    ) -> dict[str, Any]:
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters or {}}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._text:
            ready, _, _ = select.select([self._back], [], [], PATIENCE_S)
            assert ready, f"Chromium said nothing for {PATIENCE_S} s"
            more = os.read(self._back, 1 << 20)
            assert more, "Chromium went away"
            self._text += more
        text, _, self._text = self._text.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        listener = self.listeners.get(message.get("sessionId", ""))
        if listener and "method" in message:
            listener(message["method"], message.get("params", {}))
        return message

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.send("Browser.close")
        os.close(self._to)
        os.close(self._back)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()


_started: list[Chromium] = []


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A new page, as in a browser that was never used."""
    program = shutil.which("chromium")
    if program is None:
        missing = pytest.fail if os.environ.get("GRADWIRE_REQUIRE_BROWSER") == "1" else pytest.skip
        missing("chromium is not installed")
    if _started and _started[0].has_ended():
        close_chromium()
    if not _started:
        _started.append(Chromium(program))
    browser = Browser(_started[0])
    try:
        yield browser
    finally:
        with contextlib.suppress(Exception):  # a browser that is gone fails the test, not its end
            browser.close()


def close_chromium() -> None:
    """At the end of all tests."""
    while _started:
        _started.pop().close()
