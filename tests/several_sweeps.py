"""A measure of several sweeps: runs that fit one cluster share it, so that it starts once.

    python -m tests.several_sweeps '[{"reduce": "sum"}, {"compress": "fp16"}]' FLAGS...

Each sweep names its own options as a preset's runs do; the flags go for all of them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from cluster import measure, presets

NAME = "sweeps"


def main(sweeps: list[dict[str, str]], flags: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="gradwire-sweeps-") as folder:
        presets.FOLDER = Path(folder)
        (presets.FOLDER / f"{NAME}.toml").write_text(as_preset(sweeps))
        return measure.main(["--preset", NAME, *flags])


def as_preset(sweeps: list[dict[str, str]]) -> str:
    """A string of JSON is one of TOML, too."""
    lines = ['title = "several sweeps"']
    for sweep in sweeps:
        lines += ["[[runs]]", *(f"{name} = {json.dumps(text)}" for name, text in sweep.items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1]), sys.argv[2:]))
