"""What a summary must hold before tables and fits use its numbers."""

from typing import Any

from analysis.tables.columns import COLUMNS, find, type_of
from cluster.spec.documents.codec import LARGEST, DocumentError, Options, reader
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.documents.summary import Summary
from cluster.spec.errors import unknown
from cluster.spec.strategies import STRATEGIES

NEEDED = ("strategy", "workers", "engine")
POSITIVE = ("workers", "passes", "epochs", "batch_size")
MOST_WORKERS = 65_536


def read_checked(folder: RunFolder) -> Summary:
    """The summary of a run; DocumentError where a value of it cannot be."""
    summary = folder.read_summary()
    check(summary)
    return summary


def check(summary: Summary) -> None:
    """What a completed run has, and what no run has."""
    for name in ("model_bytes", "steps", "rounds") if summary.status == "completed" else ():
        value = getattr(summary, name)
        if value is None or (name == "steps" and not value):
            raise DocumentError(f"is {value} in a completed run", f"summary.json: {name}")
    for key in ("curve", "training.epochs"):
        epochs = [entry.epoch for entry in find(summary, key) or ()]
        if len(set(epochs)) < len(epochs):
            raise DocumentError("has an epoch twice", f"summary.json: {key}")
    for name, key in COLUMNS.items():
        if key.startswith("spec."):
            _check_option(summary.spec, name)


def _check_option(spec: Options, name: str) -> None:
    """Null in a run that is older than the option."""
    value: Any = spec.get(name)
    if value is None and name not in NEEDED:
        return
    try:
        reader(type_of(f"spec.{name}"))(value)
        low, high = int(name in POSITIVE), MOST_WORKERS if name == "workers" else LARGEST
        if not isinstance(value, str) and not low <= value <= high:
            raise DocumentError(f"must be between {low} and {high:,}, not {value!r}")
        if name == "strategy" and value not in STRATEGIES:
            raise DocumentError(unknown(name, value, STRATEGIES))
    except DocumentError as error:
        raise error.below(f"summary.json: spec.{name}") from None
