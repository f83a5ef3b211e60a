"""Run a function on N workers that communicate over loopback.

torch is imported once, by a process that lives as long as the tests and forks the workers of every
case, as the namespace engine does. The function is called with (rank, workers) and its result is
saved for the test to load.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tests.measuring import PATIENCE_S, PROJECT

_started: list[subprocess.Popen[str]] = []


def on_workers(function: str, workers: int, folder: Path) -> list[Any]:
    """`module:function` on N workers; what each returned, by rank."""
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([function, workers, str(folder)]) + "\n")
    process.stdin.flush()
    for line in process.stdout:
        answered, code = json.loads(line)
        if answered == str(folder):  # and not what a test that was cut off had asked
            assert code == 0, (folder / "errors").read_text()
            return [torch.load(folder / f"{rank}.pt") for rank in range(workers)]
    raise AssertionError("the process that forks workers has ended")


def _process() -> subprocess.Popen[str]:
    """Ends when we do: then nobody holds the other end of its standard input."""
    if not _started or _started[-1].poll() is not None:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.loopback"],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        _started.append(process)
    return _started[-1]


def main() -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    for line in sys.stdin:
        name, workers, folder = json.loads(line)
        try:
            module, _, function = name.partition(":")
            work = getattr(importlib.import_module(module), function)
            children = [_fork(work, rank, workers, Path(folder)) for rank in range(workers)]
            codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
            code = max(codes, key=abs)
        except Exception:
            Path(folder, "errors").write_text(traceback.format_exc())
            code = 1
        print(json.dumps([folder, code]), flush=True)


def _fork(work: Callable[[int, int], Any], rank: int, workers: int, folder: Path) -> int:
    child = os.fork()
    if child:
        return child
    errors = os.open(folder / "errors", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    for stream in (1, 2):  # the answer's way is not theirs
        os.dup2(errors, stream)
    faulthandler.dump_traceback_later(PATIENCE_S, exit=True)  # of one that waits in vain
    try:
        torch.set_num_threads(1)
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=workers
        )
        torch.save(work(rank, workers), folder / f"{rank}.pt")
        dist.barrier()
        dist.destroy_process_group()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    main()
