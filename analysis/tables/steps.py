"""The steps of a run's workers: loss, hits, and seconds of training so far. From events.

Every step up to MOST_STEPS; of more, the first ones and evenly spaced ones. Only those lines are
parsed, all at once.
"""

from collections import Counter

import numpy as np
import pandas as pd

from cluster.spec.documents.codec import LARGEST_NUMBER, DocumentError, parse_json
from cluster.spec.documents.event_reader import read_lines
from cluster.spec.documents.events import End, Phase, parse_event
from cluster.spec.documents.run_folder import RunFolder

MOST_STEPS = 500
FIRST_STEPS = 5
"""Lab sheets ask for the losses of the first five."""
STEP = b'{"event":"step"'
WORKER = b'"worker":'
BOUNDARIES = (b'{"event":"phase"', b'{"event":"end"')
KEYS = ("t", "epoch", "step", "loss", "correct", "of_all", "worker")
COLUMNS = ("number", "rank", "epoch", "step", "loss", "correct", "seconds")


def no_steps() -> pd.DataFrame:
    return pd.DataFrame(columns=list(COLUMNS), dtype="float64")


def read_steps(
    folder: RunFolder,
    number: int,
    workers: int,
    steps: int,
    dilation: float = 1.0,
    *,
    virtual: bool = False,
) -> pd.DataFrame:
    """A row per worker and step, in emulated time; DocumentError names a damaged file.

    Virtual workers have one file.
    """
    found = []
    for rank in range(1 if virtual else workers):
        path = folder.events(rank)
        try:
            boundaries, lines = _chosen_lines(folder, rank, steps)
            values = _in_step(_values(lines), workers)
            if len(values):
                seconds = _training_seconds(values["t"].to_numpy(), boundaries) / dilation
                ranks = values.pop("worker").fillna(rank).astype(int)  # of a virtual worker its own
                found.append(values.assign(number=number, rank=ranks, seconds=seconds.round(4)))
        except (ArithmeticError, AttributeError, RecursionError, TypeError, ValueError) as error:
            raise DocumentError(f"{path.name}: a step: {error}") from None
    return pd.concat(found)[list(COLUMNS)] if found else no_steps()


def _chosen_lines(folder: RunFolder, rank: int, steps: int) -> tuple[list[bytes], list[bytes]]:
    """The lines of phase boundaries, and of the steps that are kept."""
    boundaries, lines = [], []
    stride = max(1, -(-steps // MOST_STEPS))
    counts = Counter[bytes]()
    for line in read_lines(folder.events(rank)):
        if line.startswith(STEP):
            worker = line.rpartition(WORKER)[2].partition(b",")[0]
            counts[worker] += 1
            count = counts[worker]
            if count <= FIRST_STEPS or count % stride == 0 or count == steps:
                lines.append(line)
        elif line.startswith(BOUNDARIES):
            boundaries.append(line)
    return boundaries, lines


def _values(lines: list[bytes]) -> pd.DataFrame:
    entries = parse_json(b"[" + b",".join(lines) + b"]")
    rows = [[entry.get(key) for key in KEYS] for entry in entries]
    values = pd.DataFrame(rows, columns=list(KEYS), dtype="object").astype("float64")
    if (values.abs() > LARGEST_NUMBER).to_numpy().any() or values["step"].isna().any():
        raise ValueError("a number is missing or out of range")
    return values


def _in_step(values: pd.DataFrame, workers: int) -> pd.DataFrame:
    """Without a barrier a step stands where as many samples had been seen with one."""
    return values.assign(step=(values["of_all"] / workers).apply(np.ceil).fillna(values["step"]))


def _training_seconds(t: np.ndarray, lines: list[bytes]) -> np.ndarray:
    """Since training began, without the time of evaluations; NaN before a train phase.

    With the time in which workers went on without a lost one.
    """
    events = [parse_event(line) for line in lines]
    ends = [event.t for event in events if isinstance(event, Phase | End)]
    spans = [
        (event.t, end - event.t)
        for event, end in zip(events, [*ends[1:], np.inf], strict=True)
        if isinstance(event, Phase) and event.phase in ("train", "recover")
    ]
    if not spans:
        return np.full(len(t), np.nan)
    starts = np.array([start for start, _ in spans])
    before = np.concatenate([[0.0], np.cumsum([length for _, length in spans])[:-1]])
    place = np.searchsorted(starts, t, side="right") - 1
    seconds = before[place] + t - starts[place]
    return np.where(place < 0, np.nan, seconds)
