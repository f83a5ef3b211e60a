"""The table of formats: what an export holds, what it needs, what opens it."""

import importlib
import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from analysis.export.exported_run import ExportedRun

Writer = Callable[[Iterable[ExportedRun], Path], None]
"""Writes runs into a folder, which is empty or does not exist."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format; the function write() of the module of its name makes it."""

    summary: str
    opened_with: str
    """A command or a page; {output} is the folder."""
    packages: tuple[str, ...] = ()
    """What is imported beside requirements-run.txt: requirements-export.txt, and torch."""

    def missing(self) -> list[str]:
        return [name for name in self.packages if importlib.util.find_spec(name) is None]


FORMATS = {
    "tensorboard": Format(
        summary="event files: scalars by step and epoch, the options as hparams",
        opened_with="tensorboard --logdir {output}",
        packages=("torch", "tensorboard"),
    ),
    "mlflow": Format(
        summary="a file store: an experiment per session, a run per run",
        opened_with="MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri {output}",
        packages=("mlflow",),
    ),
    "perfetto": Format(
        summary="a trace per run: phases, steps, bytes per second and messages of every node",
        opened_with="https://ui.perfetto.dev or chrome://tracing, a file of {output} at a time",
    ),
    "parquet": Format(
        summary="tables with typed columns: runs, steps, epochs, samples, links",
        opened_with="pandas.read_parquet('{output}/runs.parquet')",
        packages=("pyarrow",),
    ),
}


def writer_of(name: str) -> Writer:
    """Imported only now: torch and MLflow take seconds."""
    return cast(Writer, importlib.import_module(f"analysis.export.{name}").write)
