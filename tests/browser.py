"""A real Chromium, driven through a pipe by its DevTools protocol. No driver, no port.

Everything that the page asked the network for, and every error it wrote to its console, is kept.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

QUIET = (
    "no-first-run disable-background-networking disable-component-update disable-sync disable-quic"
)
FLAGS = f"headless no-sandbox disable-gpu disable-dev-shm-usage hide-scrollbars {QUIET}".split()
PATIENCE_S = 300


class Browser:
    """One page. `call` is any command of the protocol."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back, self._text = to, back, bytearray()
        self._ids = itertools.count(1)
        self.requests: list[str] = []
        self.errors: list[str] = []
        target = self._send("Target.createTarget", {"url": "about:blank"}, None)["targetId"]
        attach = {"targetId": target, "flatten": True}
        self._session = self._send("Target.attachToTarget", attach, None)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._send(method, parameters, self._session)

    def _send(self, method: str, parameters: dict[str, Any], session: str | None) -> dict[str, Any]:
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
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
        self._note(message.get("method", ""), message.get("params", {}))
        return message

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


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        missing = pytest.fail if os.environ.get("GRADWIRE_REQUIRE_BROWSER") == "1" else pytest.skip
        missing("chromium is not installed")
    ours_in, to = os.pipe()
    back, ours_out = os.pipe()
    # Chromium's other processes may still write there when the first has ended.
    folder = tempfile.TemporaryDirectory(prefix="gradwire-browser-", ignore_cleanup_errors=True)
    with folder as profile:
        command = [program, *(f"--{flag}" for flag in FLAGS), f"--user-data-dir={profile}"]
        command += ["--remote-debugging-pipe", "about:blank"]
        # The protocol's pipes are file descriptors 3 and 4, by Chromium's own rule.
        shell = f'exec "$@" 3<&{ours_in} 4>&{ours_out}'
        process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *command],
            pass_fds=(ours_in, ours_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(ours_in)
        os.close(ours_out)
        browser = None
        try:
            browser = Browser(to, back)
            yield browser
        finally:
            with contextlib.suppress(Exception):
                if browser:
                    browser._send("Browser.close", {}, None)
            os.close(to)
            os.close(back)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
