"""TensorBoard event files, a folder per run, by torch's own writer.

Beside workloads, the only module that imports torch: the writer needs it. TensorBoard keeps
scalars as 32-bit floats: seven digits.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from analysis.export.exported_run import ExportedRun
from analysis.export.scalars import final_scalars, scalars


def write(runs: Iterable[ExportedRun], output: Path) -> None:
    for run in runs:
        folder = output / run.folder.session / run.folder.name
        with SummaryWriter(str(folder)) as writer:
            for scalar in scalars(run):
                writer.add_scalar(scalar.name, scalar.value, scalar.step, walltime=scalar.t)
            _write_options(writer, run)


def _write_options(writer: SummaryWriter, run: ExportedRun) -> None:
    """As hparams, with the final numbers as their metrics.

    Not by writer.add_hparams(), which stamps them with the time of the export.
    """
    begin, end = run.interval
    final = final_scalars(run)
    file_writer: Any = writer.file_writer  # declared as None, and never is
    for summary in hparams(run.options, final):  # type: ignore[no-untyped-call]
        file_writer.add_summary(summary, walltime=begin)
    for name, value in final.items():
        writer.add_scalar(name, value, walltime=end)
