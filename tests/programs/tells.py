"""A program that tells gradwire about its steps, phases and result, and looks at where it runs."""

import os
from pathlib import Path

import gradwire_events as gw  # type: ignore[import-not-found]

Path("result.txt").write_text(f"{os.environ['RANK']} of {os.environ['WORLD_SIZE']}\n")
try:
    Path(__file__).with_name("new.txt").touch()
    print("its folder is writable")
except OSError as error:
    print(f"its folder is read-only: {error.strerror}")
gw.phase("setup")
gw.phase("train")
for step in range(5):
    gw.step(loss=1 / (step + 1))
gw.phase("evaluate")
gw.result(accuracy=0.5, loss=0.2)
