"""Tell gradwire about steps, phases and results of a program. Does nothing anywhere else.

    import gradwire_events as gw
    gw.step(loss=0.25)          a training step has ended; a few microseconds
    gw.phase("evaluate")        bytes from here on are booked to this phase
    gw.result(accuracy=0.97)    the final score

One file without dependencies: copy it beside a program that also runs elsewhere.
"""

import math
import os
import time
from typing import Any

PHASES = ("setup", "train", "evaluate", "finish")
_path = os.environ.get("GRADWIRE_PROGRAM_EVENTS")
_rank = os.environ.get("LOCAL_RANK", "0")
_file = -1
_waits = -1
_is_told = False


def step(loss: Any = None) -> None:
    """A training step has ended; `loss` is a number, or a tensor with one."""
    global _is_told
    _is_told = True
    if _path is not None:
        value = math.nan if loss is None else float(loss)
        _write_step(repr(value) if math.isfinite(value) else "null")


def step_of_optimizer() -> None:
    """The same, as torch's optimizer tells it; it counts where the program calls no step()."""
    if not _is_told:
        _write_step("null")


def _write_step(loss: str) -> None:
    _write(
        f'{{"step":{loss},"t":{time.monotonic():.6f},"cpu":{time.process_time():.6f}'
        f',"wait":{_waited()},"local":{_rank},"told":{"true" if _is_told else "false"}}}\n'
    )


def phase(name: str) -> None:
    """A phase begins: `setup`, `train` (as a program begins), `evaluate` or `finish`."""
    if name not in PHASES:
        raise ValueError(f"a phase is one of {', '.join(PHASES)}, not {name!r}")
    if _path is not None:
        _tell(phase=name, net=_interfaces())


def result(accuracy: Any = None, loss: Any = None) -> None:
    """The final score; `accuracy` is a share, 0 to 1."""
    if accuracy is not None and not 0 <= float(accuracy) <= 1:
        raise ValueError(f"accuracy is a share from 0 to 1, not {accuracy!r}")
    given = {"accuracy": accuracy, "loss": loss}
    if _path is not None:
        _tell(result={k: None if v is None else float(v) for k, v in given.items()})


def _tell(**values: Any) -> None:
    import json

    values |= {"t": round(time.monotonic(), 6), "local": int(_rank)}
    _write(json.dumps(values) + "\n")


def _write(line: str) -> None:
    """One call for a whole line, appended: processes of a node share the file."""
    global _file
    try:
        if _file < 0:
            _file = os.open(str(_path), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        os.write(_file, line.encode())
    except OSError:  # the run is over
        pass


def _waited() -> str:
    """Nanoseconds in which the main thread was ready to run and had no core."""
    global _waits
    try:
        if _waits < 0:
            _waits = os.open("/proc/self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(_waits, 100, 0).split()[1].decode()
    except (OSError, IndexError):
        return "null"


def _interfaces() -> str:
    """The text of this node's counters, to be read by gradwire."""
    with open("/proc/self/net/dev", encoding="ascii") as file:
        return file.read()


def _after_fork() -> None:
    global _file, _waits
    _file = _waits = -1


os.register_at_fork(after_in_child=_after_fork)
