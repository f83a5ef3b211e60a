"""A wall clock that a test steps, for the processes it starts; the monotonic clock is real."""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_suffix(".c")


@dataclass(frozen=True)
class WallClock:
    """Processes with `variables` map the file `offset`, and so do the nodes they fork."""

    library: Path
    offset: Path

    @classmethod
    def build(cls, folder: Path) -> WallClock:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("no C compiler here: apt-get install gcc")
        clock = cls(folder / "wall_clock.so", folder / "offset")
        options = ["-shared", "-fPIC", "-O1", f'-DOFFSET_FILE="{clock.offset}"']
        subprocess.run([compiler, *options, "-o", clock.library, SOURCE], check=True)
        clock.offset.write_bytes(struct.pack("q", 0))
        return clock

    @property
    def variables(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self.library)}

    def step(self, seconds: int) -> None:
        """At once, for processes that run already too."""
        with self.offset.open("r+b") as file, mmap.mmap(file.fileno(), 8) as mapped:
            (before,) = struct.unpack("q", mapped[:8])
            mapped[:8] = struct.pack("q", before + seconds)

    def is_in(self, process: int) -> bool:
        """By the number of the file that it maps: in its namespace the name is another."""
        lines = Path(f"/proc/{process}/maps").read_text().splitlines()
        return str(self.offset.stat().st_ino) in [line.split()[4] for line in lines]

    def seen_s(self) -> float:
        """How far it is off, as a new process sees it."""
        command = [sys.executable, "-c", "import time; print(time.time())"]
        seen = subprocess.check_output(command, env={**os.environ, **self.variables}, text=True)
        return float(seen) - time.time()
