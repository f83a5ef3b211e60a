"""Which runs' times allow no conclusion: by the recorded verdict, or by their computing.

Runs record whether the host gave every node its CPU (summary.json: fidelity). Older runs do not:
for them, computing of one model and batch that takes unequal times is the sign of contention.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.tables.noise import unequal_computing
from cluster.observe.units import percent_text
from cluster.spec.documents.summary import COARSE, HELD, NO_CONCLUSION


def by_verdict(runs: pd.DataFrame) -> dict[int, str]:
    """By number of a run that is contended or coarse: why its times allow no conclusion."""
    found = runs[runs["fidelity"].isin(NO_CONCLUSION)]
    judged = zip(found.index, found["fidelity"], found["largest_wait_share"], strict=True)
    return {int(number): _reason(str(verdict), share) for number, verdict, share in judged}


def _reason(verdict: str, wait_share: Any) -> str:
    """Of the waits of one run's nodes; unknown where the hypervisor took the CPU."""
    if verdict == COARSE:
        return "no order: steps are too short for the nodes' CPU limits; use a larger --dilation"
    if pd.isna(wait_share):
        return "no order: the host was contended"
    waited = percent_text(float(wait_share), 0)
    return (
        f"no order: nodes waited for a core for up to {waited} of their step time, so the host was"
        " contended"
    )


def without_verdict(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs that recorded nothing, or whose kernel does not count waits."""
    return runs[~runs["fidelity"].isin([HELD, *NO_CONCLUSION])]


def unequal_unknown(runs: pd.DataFrame) -> str:
    """Why runs without a verdict that compute the same have no order; empty where they have one."""
    unknown = without_verdict(runs)
    return unequal_computing(unknown["compute_median_s"], unknown["step_median_s"])
