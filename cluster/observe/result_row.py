"""One run as a row of the table: accuracy, traffic, prediction, time. Standard library only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from cluster.observe.score_text import perplexity
from cluster.observe.units import bytes_text, option_text, percent_text, seconds_text
from cluster.spec.documents.summary import NO_CONCLUSION, PerStep, Summary
from cluster.spec.options import BITS_PER_NAT, is_judged_by_bits
from cluster.spec.program import arguments

DASH = "-"
T = TypeVar("T")


@dataclass(frozen=True)
class Extra:
    """A column that only some tables have; `value` is None where it does not apply."""

    value: Callable[[Summary], str | None]
    meaning: str = ""


def _bound(summary: Summary) -> str | None:
    bound_s = summary.seconds.communication_bound_s if summary.seconds else None
    return seconds_text(bound_s) if bound_s else None


def _control(summary: Summary) -> str | None:
    control = summary.control_traffic
    return None if control is None else _show(control.bytes_per_s, bytes_text)


def _learning_rate(summary: Summary) -> str | None:
    rate = summary.training.learning_rate if summary.training else None
    if summary.spec.get("dataset") == "none" or rate is None or rate.full is None:
        return None
    return f"{rate.full:.3g} ({rate.rule})"


def _label_skew(summary: Summary) -> str | None:
    if summary.spec.get("partition") in (None, "iid"):
        return None
    shards = summary.training.shards if summary.training else None
    return _show(shards.label_skew if shards else None, lambda skew: f"{skew:.2f}")


def _is_text(summary: Summary) -> bool:
    dataset, loss = (str(summary.spec.get(name)) for name in ("dataset", "loss"))
    return is_judged_by_bits(dataset, loss)


def _bits(summary: Summary) -> str | None:
    if summary.loss is None or not _is_text(summary):
        return None
    return f"{summary.loss * BITS_PER_NAT:.3f}"


def _loss(summary: Summary) -> str | None:
    return f"{summary.loss:.4f}" if summary.loss is not None and _is_text(summary) else None


def _perplexity(summary: Summary) -> str | None:
    if summary.loss is None or not _is_text(summary):
        return None
    return f"{perplexity(summary.loss):.4g}"


def _predicted_step(summary: Summary) -> str | None:
    return None if summary.predicted is None else seconds_text(summary.predicted.step_s)


def _goodput(summary: Summary) -> str | None:
    """Of times that allow a conclusion."""
    if summary.faults is None:
        return None
    holds = summary.fidelity is None or summary.fidelity.verdict not in NO_CONCLUSION
    return _show(summary.faults.goodput if holds else None, percent_text)


def _participation(summary: Summary) -> str | None:
    return None if summary.faults is None else _show(summary.faults.participation, percent_text)


def _cut_short(summary: Summary) -> str | None:
    changes = summary.faults.generations - 1 if summary.faults else 0
    return f"{changes} of {summary.rounds}" if changes and summary.rounds else None


def _recovered(summary: Summary) -> str | None:
    found = summary.faults.recovered_bytes if summary.faults else 0
    return bytes_text(found) if found else None


def _span(summary: Summary, name: str, text: Callable[[float], str]) -> str | None:
    """Of all workers, the least to the most."""
    values = [getattr(worker, name) for worker in summary.progress]
    known = sorted(value for value in values if value is not None)
    return "-".join(dict.fromkeys(text(end) for end in (known[0], known[-1]))) if known else None


def _staleness(summary: Summary) -> str | None:
    rounds = sum(worker.rounds for worker in summary.progress)
    if not rounds:
        return None
    total = sum((w.staleness_mean or 0) * w.rounds for w in summary.progress)
    return f"{total / rounds:.1f}, {max(w.staleness_max or 0 for w in summary.progress)}"


EXTRAS = {
    "steps": Extra(
        lambda summary: _span(summary, "steps", "{:g}".format),
        "of the workers with fewest and most, where no barrier keeps them in step",
    ),
    "staleness": Extra(_staleness, "mean and most (docs/strategies.md)"),
    "took part": Extra(
        lambda summary: _span(summary, "participation", lambda share: percent_text(share, 0)),
        "exchanges over those of the worker with most",
    ),
    "predicted step": Extra(_predicted_step, "simulated: virtual workers exchange in memory"),
    "loss": Extra(_loss, "of the test set, in nats a byte"),
    "bits/byte": Extra(_bits),
    "perplexity": Extra(_perplexity, "of a byte, 2 to the power of its bits"),
    "bound": Extra(_bound, "lower bound of a step's exchange on these links"),
    "control": Extra(_control, "the launcher's control traffic, a second"),
    "lr (rule)": Extra(_learning_rate),
    "goodput": Extra(_goodput, "steps that count, over those that fit without faults"),
    "participation": Extra(_participation, "workers that took part in a step, of all"),
    "cut short": Extra(
        _cut_short, "exchanges that a change of workers stopped: their bytes are not predicted"
    ),
    "recovered": Extra(_recovered, "state that workers got to come back"),
    "label skew": Extra(
        _label_skew, "distance of workers' labels from all labels, 0 (equal) to 1 (disjoint)"
    ),
}


def find_extras(summaries: Sequence[Summary]) -> list[str]:
    """Those that apply to one of these runs."""
    return [name for name, extra in EXTRAS.items() if any(map(extra.value, summaries))]


def headings(options: Sequence[str], extras: Sequence[str] = ()) -> list[str]:
    return [
        *("strategy", "workers", "passes", *(option.replace("_", " ") for option in options)),
        *(
            "accuracy",
            "sent",
            "predicted",
            "framing",
            "ratio",
            "sent in all",
            "per step",
            *extras,
            "status",
        ),
    ]


def row(summary: Summary, options: Sequence[str], extras: Sequence[str] = ()) -> list[str]:
    spec, per_step = summary.spec, summary.per_step or PerStep()
    sent_bytes = summary.bytes.train.sent_bytes if summary.bytes else None
    workers = int(spec["workers"] or 1)
    strategy = f"{spec['strategy']} ({spec['schedule']})" if spec["schedule"] else spec["strategy"]
    return [
        str(strategy),
        str(workers),
        _show(spec["passes"], str),
        *(_option(option, spec.get(option)) for option in options),
        DASH if _is_text(summary) else _show(summary.accuracy, percent_text),
        _show(per_step.sent_mean_bytes, bytes_text),
        _show(per_step.predicted_mean_bytes, bytes_text),
        _show(per_step.predicted_framing_bytes, bytes_text),
        _show(per_step.ratio, lambda ratio: f"{ratio:.3f}"),
        _show(sent_bytes, lambda count: bytes_text(count / workers)),
        _show(summary.seconds.step_median_s if summary.seconds else None, seconds_text),
        *(EXTRAS[name].value(summary) or DASH for name in extras),
        summary.status,
    ]


def _option(name: str, value: object) -> str:
    if name == "program" and value is not None:
        return arguments(str(value))
    return _show(value, option_text)


def _show(value: T | None, text: Callable[[T], str]) -> str:
    return DASH if value is None else text(value)


def without_details(summary: Summary) -> Summary:
    """What rows show: without lists of nodes, pairs and epochs, which a long session has many of.

    All of it is in summary.json.
    """
    by_phase, seconds, fidelity = summary.bytes, summary.seconds, summary.fidelity
    return replace(
        summary,
        accuracy_by_worker=None,
        curve=[],
        bytes=replace(by_phase, nodes=[]) if by_phase else None,
        traffic_matrix=None,
        counters=None,
        seconds=replace(seconds, by_node=[]) if seconds else None,
        fidelity=replace(fidelity, by_node=[]) if fidelity else None,
        faults=replace(summary.faults, faults=[]) if summary.faults else None,
        arrivals=[],
        gpus=[],
    )
