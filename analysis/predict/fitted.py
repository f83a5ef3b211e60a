"""What the host costs, fitted to measured runs: kept in a file, with its date, ranges and errors.

fitted.json comes from runs of bench/runs/; `python3 -m analysis.predict fit` makes another.
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as short

from analysis.predict.forecast import Cluster, Forecast, forecast
from analysis.predict.simulation.nodes import Costs
from cluster.observe.units import bytes_text, percent_text
from cluster.spec.documents.codec import DocumentError, OtherSchema, from_json
from cluster.spec.documents.run_folder import write_json

SHIPPED = Path(__file__).resolve().parent / "fitted.json"
SCHEMA = 2
FAR = 4
"""A value beyond the measured range by more than this factor is called far outside."""
RANGES = {"workers": "workers", "rate_mbit": "link", "model_bytes": "model size"}
"""Field of Cluster -> its name in texts."""
LEAST_TIE = 0.01


@dataclass(frozen=True)
class Errors:
    """Relative errors of predictions as they are printed, on runs that were not fitted to."""

    runs: int
    step_median: float
    step_worst: float
    exchange_median: float
    exchange_worst: float
    bytes_median: float
    bytes_worst: float


@dataclass(frozen=True)
class Fitted:
    """What the host costs, and how far predictions with it can be trusted."""

    message_s: float
    byte_s: float
    runs: int
    """That they were fitted to."""
    date: str
    """Of the fit, as YYYY-MM-DD."""
    ranges: dict[str, tuple[float, float]]
    """Field of Cluster in RANGES -> least and most of the measured runs."""
    errors: Errors | None

    @property
    def costs(self) -> Costs:
        return Costs(self.message_s, self.byte_s, encodes=True)

    @property
    def tie(self) -> float:
        """Relative: step times that differ by less are not told apart.

        Twice the median error, since both of two predictions may be off.
        """
        return max(LEAST_TIE, 2 * self.errors.step_median if self.errors else LEAST_TIE)

    def forecast(self, cluster: Cluster) -> Forecast:
        return forecast(cluster, self.costs)

    def outside(self, cluster: Cluster) -> str:
        """What of a cluster is outside of the measured ranges, and whether far; or empty."""
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
    """The costs in a file; ValueError where that does not hold any."""
    try:
        if path.exists() and not path.is_file():  # a pipe would never end, nor would /dev/zero
            raise DocumentError("it is no regular file")
        document = json.loads(path.read_text())
        if not isinstance(document, dict) or "ranges" not in document:
            raise DocumentError("it has no ranges")
        schema = document.get("schema")
        if type(schema) is not int or schema != SCHEMA:
            raise OtherSchema(f"{path} has schema {short(schema)}, this reads {SCHEMA}")
        return from_json(Fitted, document)
    except OtherSchema:
        raise
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} holds no fitted costs: {error}") from None


def error_text(model: Fitted) -> str:
    """The errors of what is printed on runs that were not fitted to, in words."""
    found = model.errors
    if found is None:
        return "error on runs that it was not fitted to: not known"
    return (
        f"error on {found.runs} measured runs that it was not fitted to: step"
        f" {_both(found.step_median, found.step_worst)}, exchange"
        f" {_both(found.exchange_median, found.exchange_worst)}, bytes"
        f" {percent_text(found.bytes_median, 2)} and {percent_text(found.bytes_worst, 2)}"
    )


def far_text(model: Fitted) -> str:
    """What is far outside of measured runs, in words."""
    low, high = model.ranges["workers"]
    slow, quick = model.ranges["rate_mbit"]
    small, large = model.ranges["model_bytes"]
    return (
        f"far outside of what was measured ({low:g} to {high:g} workers, links of {slow:g} to"
        f" {quick:g} Mbit/s, models of {bytes_text(small)} to {bytes_text(large)}): bytes and links"
        " hold there, too, but the host's costs are those of small clusters"
    )


def _both(middle: float, worst: float) -> str:
    return f"median {percent_text(middle, 1)}, maximum {percent_text(worst, 0)}"
