"""Computing at a node's part of a core, where a CPU limit gives it less than a whole one.

The limit is a quota in every period of 10 ms (cluster/spec/dilation.py), and what fits into it runs
at full speed: a node with half a core would compute 20 ms in 30 instead of 40, on average, and with
a tenth 20 in 187 instead of 200. So a worker that has computed waits until it would have, had it
run evenly. Where the limit has already made it late, it does not wait.
"""

from __future__ import annotations

import time


class CpuPace:
    """Of the thread that makes it: torch computes on it alone."""

    def __init__(self, cores: float) -> None:
        self._slower = 1 / min(1.0, cores)
        self.waited_s = 0.0
        """Since the last reset."""
        self.begin()

    def begin(self) -> None:
        """Computing begins now."""
        self._cpu_s, self._t = time.thread_time(), time.perf_counter()

    def wait(self) -> None:
        """Computing has ended."""
        if self._slower == 1:
            return
        began = time.perf_counter()
        early_s = self._slower * (time.thread_time() - self._cpu_s) - (began - self._t)
        if early_s > 0:
            time.sleep(early_s)
            self.waited_s += time.perf_counter() - began

    def reset(self) -> float:
        """What it waited since the last call."""
        waited_s, self.waited_s = self.waited_s, 0.0
        return waited_s
