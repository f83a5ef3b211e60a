"""A fitted cost model: kept in a file, for any cluster, with its ranges and errors.

fitted.json is fitted to runs of bench/predict.py; `python3 -m analysis.predict fit` makes another.
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

from analysis.predict.cost_model import Cluster, Constants, Forecast, fitted_as, forecast
from cluster.spec.documents.codec import Json
from cluster.spec.run_folder import write_json

SHIPPED = Path(__file__).resolve().parent / "fitted.json"
SCHEMA = 1
FAR = 4
"""A value beyond the fitted range by more than this factor is called far outside."""
RANGES = {"workers": "workers", "rate_mbit": "link", "model_bytes": "model size"}
"""Field of Cluster -> its name in texts."""


@dataclass(frozen=True)
class Errors:
    """Relative errors on runs that the model was not fitted to."""

    runs: int
    step_median: float
    step_worst: float
    bytes_median: float


@dataclass(frozen=True)
class Fitted:
    """Constants of a cost model, and how far they can be trusted."""

    constants: dict[str, Constants]
    ranges: dict[str, tuple[float, float]]
    """Field of Cluster in RANGES -> least and most of the runs it was fitted to."""
    errors: Errors | None

    def knows(self, strategy: str) -> bool:
        return fitted_as(strategy) in self.constants

    def forecast(self, cluster: Cluster) -> Forecast:
        return forecast(self.constants[fitted_as(cluster.strategy)], cluster)

    def outside(self, cluster: Cluster) -> str:
        """What of a cluster is outside of the fitted ranges, and whether far; or empty."""
        texts = []
        for name, words in RANGES.items():
            value = getattr(cluster, name)
            low, high = self.ranges[name]
            if value is None or low <= value <= high:
                continue
            far = "far " if value > FAR * high or value < low / FAR else ""
            texts.append(f"{words} {far}outside")
        return ", ".join(texts)


def save(model: Fitted, path: Path) -> None:
    document: Json = {
        "schema": SCHEMA,
        "strategies": {name: dataclasses.asdict(found) for name, found in model.constants.items()},
        "ranges": {name: list(ends) for name, ends in model.ranges.items()},
        "errors": dataclasses.asdict(model.errors) if model.errors else None,
    }
    write_json(path, document)


def load(path: Path = SHIPPED) -> Fitted:
    """The model in a file; ValueError where that is not a fitted model."""
    try:
        document = json.loads(path.read_text())
        if document["schema"] != SCHEMA:
            raise ValueError(f"{path} has schema {document['schema']!r}, this reads {SCHEMA}")
        return Fitted(
            {
                name: Constants(tuple(found["time"]), tuple(found["bytes"]), int(found["runs"]))
                for name, found in document["strategies"].items()
            },
            {name: (ends[0], ends[1]) for name, ends in document["ranges"].items()},
            Errors(**document["errors"]) if document["errors"] else None,
        )
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"{path} is not a fitted model: {error!r}") from None


def error_text(model: Fitted) -> str:
    """The model's errors on runs that it was not fitted to, in words."""
    found = model.errors
    if found is None:
        return "error on runs that it was not fitted to: not known"
    return (
        f"error on {found.runs} runs that it was not fitted to: step time, median"
        f" {found.step_median:.1%}, maximum {found.step_worst:.0%}; bytes, median"
        f" {found.bytes_median:.3%}"
    )
