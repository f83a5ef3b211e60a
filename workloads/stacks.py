"""Where a training process is, on request: Python stacks of its threads, and its last exchanges.

Both go to the node's log. faulthandler writes the stacks inside a signal handler, so it works while
another thread holds the GIL. torch's flight recorder keeps the last exchanges of Gloo and NCCL; a
thread that waits for the request prints them.
"""

import faulthandler
import json
import os
import signal
import sys
import threading

MOST_EXCHANGES = 20
STANDARD_ERROR = 2
"""The descriptor: a run redirects it to the node's log later."""


class StackChannel:
    """Between the process that waits for a run and the run's own; made before the fork."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self._is_requested = False

    def serve(self) -> None:
        """In the training process: answer requests from now on."""
        faulthandler.enable(STANDARD_ERROR)
        faulthandler.register(signal.SIGUSR1, file=STANDARD_ERROR, all_threads=True)
        threading.Thread(target=self._answer, daemon=True).start()

    def request(self, process: int) -> None:
        """Once a run; a process that has ended has nothing to say."""
        if not self._is_requested:
            self._is_requested = True
            try:
                os.kill(process, signal.SIGUSR1)
                os.write(self._write, b"?")
            except OSError:
                return

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)

    def _answer(self) -> None:
        if os.read(self._read, 1):
            print(last_exchanges(), file=sys.stderr, flush=True)


def last_exchanges() -> str:
    """The end of torch's flight recorder, an exchange per line."""
    from torch._C import _distributed_c10d as c10d

    recorded = json.loads(c10d._dump_fr_trace_json(True, False))  # type: ignore[attr-defined]
    entries = recorded.get("entries", [])[-MOST_EXCHANGES:]
    lines = [f"torch's flight recorder, the last {len(entries)} exchanges:"]
    return "\n".join(lines + [f"  {json.dumps(entry)}" for entry in entries])
