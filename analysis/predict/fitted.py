"""A fitted cost model: made from runs, kept in a file, asked about any cluster, and honest about its errors.

The file analysis/fitted.json came from the runs of bench/predict.py; `python -m analysis.predict fit` makes another.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from analysis.predict.cost_model import (
    Cluster,
    Constants,
    Forecast,
    Observation,
    fit,
    fitted_as,
    forecast,
)
from cluster.spec import synthetic
from cluster.spec.documents.codec import Json
from cluster.spec.links import parse_link
from cluster.spec.run_folder import RunFolder, write_json

SHIPPED = Path(__file__).resolve().parent / "fitted.json"
SCHEMA = 1
FAR = 4
"""A number further outside of what was fitted than this factor is said to be far outside."""
OUTSIDE = {"workers": "workers", "rate_mbit": "link", "model_bytes": "model size"}


@dataclass(frozen=True)
class Errors:
    """Relative, of runs that were not fitted."""

    runs: int
    step_median: float
    step_worst: float
    bytes_median: float


@dataclass(frozen=True)
class Fitted:
    constants: dict[str, Constants]
    ranges: dict[str, tuple[float, float]]
    """workers, rate_mbit, model_bytes: least and most of the runs it was fitted to."""
    errors: Errors | None

    def knows(self, strategy: str) -> bool:
        return fitted_as(strategy) in self.constants

    def forecast(self, cluster: Cluster) -> Forecast:
        return forecast(self.constants[fitted_as(cluster.strategy)], cluster)

    def outside(self, cluster: Cluster) -> str:
        """Empty within what was fitted; else what is outside of it, and whether far."""
        said = []
        for name, words in OUTSIDE.items():
            value = getattr(cluster, name)
            low, high = self.ranges[name]
            if value is None or low <= value <= high:
                continue
            far = "far " if value > FAR * high or value < low / FAR else ""
            said.append(f"{words} {far}outside")
        return ", ".join(said)


def observe(folder: RunFolder) -> Observation | None:
    """What a completed run can tell; None where a step cannot be told apart into what the model has."""
    try:
        summary = folder.read_summary()
        cores = folder.read_environment().cores
        spec: Json = summary.spec
        slow = spec.get("bottleneck") or spec.get("straggler") or spec.get("cpus")
        odd = spec.get("overlap") or spec.get("launcher", "torch") != "torch" or slow
        odd = odd or spec.get("gpu")  # the constants are those of CPUs and of eth0
        ends_early = (
            spec["train_size"] // spec["workers"] // spec["batch_size"] % spec["local_steps"]
        )
        strategy = spec["strategy"]
        if summary.status != "completed" or odd or ends_early or strategy == "single":
            return None
        if summary.seconds is None or summary.per_step is None:
            return None
        step_s, compute_s = summary.seconds.step_median_s, summary.seconds.compute_median_s
        if compute_s is None:  # ddp does not tell: only what a synthetic model was told is known
            made = synthetic.parse(spec["model"])
            compute_s = made.forward_s + made.backward_s
        model_bytes, steps, rounds = summary.model_bytes, summary.steps, summary.rounds
        sent_bytes = summary.per_step.sent_mean_bytes
        if model_bytes is None or steps is None or rounds is None:
            return None
        if step_s is None or sent_bytes is None:
            return None
        link = parse_link(spec["link"]) if spec["link"] else None
        return Observation(
            Cluster(
                strategy=strategy,
                workers=spec["workers"],
                model_bytes=model_bytes,
                rate_mbit=link.rate_mbit if link else None,
                delay_s=link.delay_s if link else 0.0,
                passes=spec["passes"],
                schedule=spec["schedule"],
                local_steps=spec["local_steps"],
                compute_s=compute_s,
                burst_bytes=max((link.burst_bytes or 0 for link in summary.links), default=0),
                cores=cores,
            ),
            step_s=step_s,
            sent_bytes=sent_bytes * steps / rounds,
            run=f"{summary.session}/{summary.run}",
        )
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError, RecursionError):
        return None


def observe_all(folders: Iterable[RunFolder]) -> list[Observation]:
    return [one for folder in folders if (one := observe(folder)) is not None]


def fit_to(observations: Sequence[Observation], held_out: Sequence[Observation] = ()) -> Fitted:
    """Its errors are those on `held_out`; without, those on each number of workers when it is left out."""
    model = Fitted(fit(observations), _ranges(observations), None)
    if held_out:
        pairs = [(model, one) for one in held_out]
    else:
        pairs = []
        for workers in {one.cluster.workers for one in observations}:
            others = [one for one in observations if one.cluster.workers != workers]
            without = Fitted(fit(others), model.ranges, None)
            pairs += [(without, one) for one in observations if one.cluster.workers == workers]
    return dataclasses.replace(model, errors=errors(pairs))


def errors(pairs: Iterable[tuple[Fitted, Observation]]) -> Errors | None:
    """Of each observation, by a model that has not seen it."""
    steps, sent = [], []
    for model, one in pairs:
        if model.knows(one.cluster.strategy):
            expected = model.forecast(one.cluster)
            steps.append(abs(expected.step_s / one.step_s - 1))
            sent.append(abs(expected.sent_bytes / one.sent_bytes - 1))
    if not steps:
        return None
    return Errors(
        len(steps), *(round(value, 5) for value in (median(steps), max(steps), median(sent)))
    )


def _ranges(observations: Sequence[Observation]) -> dict[str, tuple[float, float]]:
    found = {}
    for name in ("workers", "rate_mbit", "model_bytes"):
        known = [getattr(one.cluster, name) for one in observations]
        values = [value for value in known if value is not None]
        found[name] = (min(values, default=0), max(values, default=0))
    return found


def save(model: Fitted, path: Path) -> None:
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "strategies": {name: dataclasses.asdict(one) for name, one in model.constants.items()},
        "ranges": {name: list(ends) for name, ends in model.ranges.items()},
        "errors": dataclasses.asdict(model.errors) if model.errors else None,
    }
    write_json(path, document)


def load(path: Path = SHIPPED) -> Fitted:
    """ValueError for a file that is no fitted model."""
    try:
        document = json.loads(path.read_text())
        if document["schema"] != SCHEMA:
            raise ValueError(f"{path} has schema {document['schema']!r}, this reads {SCHEMA}")
        return Fitted(
            {
                name: Constants(tuple(one["time"]), tuple(one["bytes"]), int(one["runs"]))
                for name, one in document["strategies"].items()
            },
            {name: (ends[0], ends[1]) for name, ends in document["ranges"].items()},
            Errors(**document["errors"]) if document["errors"] else None,
        )
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"{path} is no fitted model: {error!r}") from None
