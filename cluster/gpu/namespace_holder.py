"""What nodes with GPUs share as if they were one machine, memory and process numbers, lasts as long as this process.

NCCL goes from GPU to GPU directly only between processes that share both. It stays while there is any other process
than itself and the one that began it, and has no part in anything else.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

PATIENCE_S = 60.0
EVERY_S = 0.5


def main() -> int:
    deadline = time.monotonic() + PATIENCE_S
    while not others() and time.monotonic() < deadline:
        time.sleep(EVERY_S)
    while others():
        time.sleep(EVERY_S)
    return 0


def others(folder: Path = Path("/proc")) -> set[int]:
    """Also those that are about to end, and have no memory any more."""
    own = {1, os.getpid()}
    return {int(path.name) for path in folder.iterdir() if path.name.isdigit()} - own


if __name__ == "__main__":
    sys.exit(main())
