"""Afterwards: run folders -> tables -> one page. `load_runs("runs").table` is a pandas table."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.tables.load import load_runs

__all__ = ["load_runs"]


def __getattr__(name):  # type: ignore[no-untyped-def]
    """Import pandas only when it is needed: ./measure.sh imports this package, too."""
    if name != "load_runs":
        raise AttributeError(f"module 'analysis' has no attribute {name!r}")
    from analysis.tables.load import load_runs

    return load_runs
