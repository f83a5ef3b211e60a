"""Run a function on N workers that talk over loopback: python -m tests.loopback FUNCTION N FOLDER.

torch is imported once and the workers are forked, as in the embedded engine, so a case costs about two
seconds. The function is called with (rank, workers) and its result is saved for the test to load.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tests.measuring import PROJECT


def on_workers(function: str, workers: int, folder: Path) -> list[Any]:
    """`module:function` on N workers; what each returned, by rank."""
    command = [sys.executable, "-m", "tests.loopback", function, str(workers), str(folder)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"{rank}.pt") for rank in range(workers)]


def main(name: str, workers: int, folder: Path) -> int:
    module, _, function = name.partition(":")
    work = getattr(importlib.import_module(module), function)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    children = []
    for rank in range(workers):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                torch.set_num_threads(1)
                dist.init_process_group(
                    "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=workers
                )
                torch.save(work(rank, workers), folder / f"{rank}.pt")
                dist.barrier()
                dist.destroy_process_group()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
