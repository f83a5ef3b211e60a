"""The last answer of the first screen: how certain the others are."""

from __future__ import annotations

from analysis.report.context import Report
from analysis.report.overview.ranking import listed
from analysis.report.overview.trust import AGREES, compared, is_measured
from analysis.report.page import Answer
from analysis.summary.fidelity import CONTENDED_SHARE, LATE_SHARE
from analysis.tables.contention import without_verdict
from cluster.observe.units import percent_text

MOST_RUNS = 4


def certainty(report: Report) -> list[Answer]:
    table = report.runs.completed
    ratios = table["sent_over_predicted"].dropna()
    differences = table["counters_largest_difference"].dropna()
    if differences.empty:
        return []
    verdicts: dict[str, list[str]] = {}
    for number, run in table.iterrows():
        if is_measured(run):
            verdicts.setdefault(compared(run).verdict, []).append(str(number))
    every, agree = sum(map(len, verdicts.values())), len(verdicts.pop(AGREES, []))
    others = "".join(
        f"; {verdict} in {'run' if len(runs) == 1 else 'runs'} {listed(runs, MOST_RUNS)}"
        for verdict, runs in verdicts.items()
    )
    span = " to ".join(dict.fromkeys(f"{end:.3f}" for end in (ratios.min(), ratios.max())))
    ratio = "" if ratios.empty else f"; measured over predicted {span}"
    words = " with theory, and their counters with each other"
    if len(ratios) < every:  # programs have none
        words = " with theory where there is one, and their counters with each other"
    sending = "runs" if every == len(table) else "runs that send"
    bytes_agree = f"Bytes: {agree} of {every} {sending} agree{words}{others}{ratio}."
    text = f"{_times(report)} {bytes_agree}{_seeds(report)}"
    return [Answer("Certain?", text)]


def _one_run(report: Report) -> str:
    once = all(len(config.numbers) == 1 for config in report.configurations)
    return " One run each: their spread is not known." if once else ""


def _seeds(report: Report) -> str:
    if not report.runs.progress.empty:
        return (
            " Runs without a barrier depend on timing: one seed gives other accuracies each time."
        )
    many = len(report.configurations) > 1
    if many and any(len(config.numbers) == 1 for config in report.configurations):
        return " Accuracies of one seed each have no order: --repeat 3 would tell."
    return ""


def _times(report: Report) -> str:
    completed = report.runs.completed
    if report.contended:
        if len(report.contended) == len(completed):
            return "Times: no, the host was contended (grey); --dilation auto would tell."
        lost, every = len(report.contended), len(completed)
        return (
            f"Times: certain for {every - lost} of {every} runs; the others competed for cores and"
            " are left out of the orders (grey in the tables)."
        )
    if len(report.configurations) < 2:
        return "Times: one configuration, nothing to compare."
    if without_verdict(completed).empty:
        most = percent_text(float(completed["largest_wait_share"].max()), 1)
        limit = percent_text(
            LATE_SHARE if (completed["dilation"] > 1).all() else CONTENDED_SHARE, 0
        )
        yes = f"Times: yes, nodes waited for a core for at most {most} of a step (limit: {limit})."
        return yes + _one_run(report)
    return "Times: yes, as far as recorded: equal computing differs by at most 15 % of a step."
