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
from cluster.plan import _number
from cluster.sweep.preset_file import option_type


def main(sweeps: list[dict[str, str]], flags: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="gradwire-sweeps-") as folder:
        file = Path(folder, "sweeps.toml")
        file.write_text(as_preset(sweeps))
        return measure.main(["--preset", str(file), *flags])


def as_preset(sweeps: list[dict[str, str]]) -> str:
    lines = []
    for sweep in sweeps:
        lines += ["[[runs]]", *(f"{name} = {_value(name, text)}" for name, text in sweep.items())]
    return "\n".join(lines) + "\n"


def _value(name: str, text: str) -> str:
    """A value as TOML has it, of one that is typed; a string of JSON is one of TOML, too."""
    if name in presets.REPEATED:
        return json.dumps(text)
    kind = option_type(name)
    parts = text.split(",")
    written = [json.dumps(part if kind is str else _number(name, part, kind)) for part in parts]
    return f"[{', '.join(written)}]"


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1]), sys.argv[2:]))
