"""Which of several pretrained networks a workload starts from: the first whose weights can be had here.

python -m workloads.models.pretrained MODEL...      prints the one, and why on standard error
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workloads.data.datasets import WEIGHTS, Dataset, default_data_dir, locate, shared_folders
from workloads.data.sources import why_out_of_reach


@dataclass
class Chooser:
    """Asks once for each workload, and keeps what it found as a line for a person."""

    data_dir: Path | None = None
    weights: Mapping[str, Dataset] = field(default_factory=lambda: WEIGHTS)
    lines: dict[str, str] = field(default_factory=dict)
    _chosen: dict[str, str] = field(default_factory=dict)

    def __call__(self, workload: str, models: Sequence[str]) -> str:
        if workload not in self._chosen:
            chosen, why = choose(models, self.data_dir, self.weights)
            self._chosen[workload] = chosen
            self.lines[workload] = (
                f"workload {workload}: model {chosen}, {why}; --model {chosen} pins it"
            )
        return self._chosen[workload]


def choose(
    models: Sequence[str], data_dir: Path | None, weights: Mapping[str, Dataset] = WEIGHTS
) -> tuple[str, str]:
    """The first that is on this machine or whose own address answers, and why; the last can be had anywhere."""
    missing = []
    for model in models[:-1]:
        if folder := find(weights[model], data_dir):
            return model, f"whose files are in {folder}"
        reason = why_out_of_reach(weights[model])
        if not reason:
            return model, "which will be fetched"
        missing.append(f"{model} is neither here nor in reach ({reason})")
    return models[-1], f"since {', '.join(missing)}"


def find(dataset: Dataset, data_dir: Path | None) -> Path | None:
    """The folder that has all of its files, each verified."""
    given = [data_dir] if data_dir is not None else []
    for root in (*given, *shared_folders(), default_data_dir()):
        folder, wrong = locate(dataset, root)
        if not wrong:
            return folder
    return None


def main(models: Sequence[str]) -> int:
    """Prints the chosen model, and why on standard error."""
    chosen, why = choose(models, None)
    print(f"model {chosen}, {why}; --model {chosen} pins it", file=sys.stderr)
    print(chosen)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
