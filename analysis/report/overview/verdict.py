"""Does a run's measurement hold: counters against each other, received against sent, payload against theory. Pure."""

from __future__ import annotations

from typing import Any

import pandas as pd

COUNTERS_AGREE = 0.01
THEORY_AGREES, SMALL_AGREES, SMALL_BYTES = 0.02, 0.03, 10**6
AGREES = "agrees"
OTHER_WAY = "not over eth0"
"""GPUs of one host: what is counted there is next to nothing."""


def is_measured(run: pd.Series[Any]) -> bool:
    """Something was sent, and counted."""
    return not pd.isna(run["counter_worker_bytes"]) and run["counter_worker_bytes"] > 0


def compared(run: pd.Series[Any]) -> dict[str, Any]:
    """What a measured run is held to, and the verdict."""
    own = float(run["counter_worker_bytes"])
    row: dict[str, Any] = {
        "strategy": run["strategy"],
        "counter_worker_bytes": int(own),
        **{
            f"{source}_off": None
            if pd.isna(run[f"counter_{source}_bytes"])
            else float(run[f"counter_{source}_bytes"]) / own - 1
            for source in ("kernel", "docker")
        },
        "received_over_sent": _share(run["train_received_bytes"], run["train_sent_bytes"]),
        "sent_over_predicted": run["sent_over_predicted"],
        "repeated_share": _share(run["retransmitted_per_step_bytes"], run["sent_per_step_bytes"]),
    }
    return {"verdict": _verdict(row, run), **row}


def _share(part: Any, whole: Any) -> float | None:
    return None if pd.isna(part) or pd.isna(whole) or not whole else float(part) / float(whole)


def _verdict(row: dict[str, Any], run: pd.Series[Any]) -> str:
    if pd.notna(run["gpu"]) and run["gpu"] and pd.isna(row["sent_over_predicted"]):
        return OTHER_WAY
    wrong = []
    off = [abs(row[name]) for name in ("kernel_off", "docker_off") if row[name] is not None]
    if off and max(off) > COUNTERS_AGREE:
        wrong.append("counters differ")
    arrived = row["received_over_sent"]
    if arrived is None or abs(arrived - 1) > COUNTERS_AGREE:
        wrong.append("not all arrived")
    allowed = SMALL_AGREES if int(run["model_bytes"]) < SMALL_BYTES else THEORY_AGREES
    ratio = row["sent_over_predicted"]
    if not pd.isna(ratio) and abs(ratio - (row["repeated_share"] or 0) * ratio - 1) > allowed:
        wrong.append("not as theory says")
    return ", ".join(wrong) or AGREES
