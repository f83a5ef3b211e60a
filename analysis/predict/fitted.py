"""A fitted cost model: kept in a file, for any cluster, with its ranges and errors.

fitted.json is fitted to runs of bench/predict.py; `python3 -m analysis.predict fit` makes another.
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as short

from analysis.predict.cost_model import Cluster, Constants, Forecast, fitted_as, forecast
from cluster.observe.units import percent_text
from cluster.spec.documents.codec import DocumentError, OtherSchema, from_json
from cluster.spec.documents.run_folder import write_json

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

    strategies: dict[str, Constants]
    ranges: dict[str, tuple[float, float]]
    """Field of Cluster in RANGES -> least and most of the runs it was fitted to."""
    errors: Errors | None

    def knows(self, strategy: str) -> bool:
        return fitted_as(strategy) in self.strategies

    def forecast(self, cluster: Cluster) -> Forecast:
        return forecast(self.strategies[fitted_as(cluster.strategy)], cluster)

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
    write_json(path, {"schema": SCHEMA, **dataclasses.asdict(model)})


def load(path: Path = SHIPPED) -> Fitted:
    """The model in a file; ValueError where that is not a fitted model."""
    try:
        if path.exists() and not path.is_file():  # a pipe would never end, nor would /dev/zero
            raise DocumentError("it is no regular file")
        document = json.loads(path.read_text())
        if not isinstance(document, dict) or "strategies" not in document:
            raise DocumentError("it has no strategies")
        schema = document.get("schema")
        if type(schema) is not int or schema != SCHEMA:
            raise OtherSchema(f"{path} has schema {short(schema)}, this reads {SCHEMA}")
        return from_json(Fitted, document)
    except OtherSchema:
        raise
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no fitted model: {error}") from None


def error_text(model: Fitted) -> str:
    """The model's errors on runs that it was not fitted to, in words."""
    found = model.errors
    if found is None:
        return "error on runs that it was not fitted to: not known"
    return (
        f"error on {found.runs} runs that it was not fitted to: step time, median"
        f" {percent_text(found.step_median, 1)}, maximum {percent_text(found.step_worst, 0)};"
        f" bytes, median {percent_text(found.bytes_median, 3)}"
    )
