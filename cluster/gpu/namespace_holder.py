"""Holds the memory and process numbers that nodes with GPUs share, until the last node has ended.

NCCL copies between GPUs directly only between processes that share both.
"""

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
    """Numbers of all processes but this one and the namespace's first; also of ending ones."""
    own = {1, os.getpid()}
    return {int(path.name) for path in folder.iterdir() if path.name.isdigit()} - own


if __name__ == "__main__":
    sys.exit(main())
