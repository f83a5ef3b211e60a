"""Restarts a command in the project's .venv, which ./measure.sh makes, from any other Python.

That may be an old one, so this file and the commands that use it parse on Python 3.8.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

ENTERED = "GRADWIRE_ENTERED"
"""Environment variable set before the restart: a broken .venv must not restart for ever."""

OLDEST = (3, 11)
REPORT_NEEDS = ("jinja2", "pandas", "plotly", "rich")


def enter(module: str, *needed: str) -> None:
    """Start `python -m module` again, with the same arguments, in .venv; return if this is it.

    Without a .venv, as in an image, this Python must have the packages `needed`.
    """
    needed = needed or REPORT_NEEDS
    own = Path(__file__).resolve().parents[2] / ".venv"
    python = str(own / "bin" / "python")
    inside = Path(sys.prefix).resolve() == own.resolve()
    if not inside and os.access(python, os.X_OK) and os.environ.get(ENTERED) != str(own):
        os.environ[ENTERED] = str(own)
        os.execv(python, [python, "-m", module, *sys.argv[1:]])
    if sys.version_info[:2] < OLDEST or not all(map(importlib.util.find_spec, needed)):
        print(
            f"python3 -m {module}: this Python is too old or lacks {', '.join(needed)};"
            " run ./measure.sh once: it makes the environment",
            file=sys.stderr,
        )
        sys.exit(2)
