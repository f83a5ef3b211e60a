"""HPML Lab 4: its seven questions, answered in words from our runs of one session."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from analysis.report.references.compared import number, same_or_not, unequal_times
from analysis.tables.configurations import mean_of
from cluster.observe.units import bytes_text, list_names, percent_text, seconds_text


def answers(runs: pd.DataFrame) -> Iterator[str]:
    if reason := unequal_times(runs):
        yield f"Questions 1 to 3: {reason}."
    else:
        yield from _batch_sizes(runs)
        yield from _speed_ups(runs)
        yield from _communication(runs)
    yield from _memory(runs)
    yield from _large_batches(runs)
    yield from _sampler(runs)
    yield from _buffers(runs)


def _batch_sizes(runs: pd.DataFrame) -> Iterator[str]:
    """Question 1, in the words that the sheet expects."""
    alone = runs[(runs["strategy"] == "single") & (runs["epochs"] == 2)]
    times = alone.groupby("batch_size")["second_epoch_s"].mean().dropna()
    if len(times) < 2:
        return
    texts = [f"{seconds_text(seconds)} with batches of {size}" for size, seconds in times.items()]
    way = "shorter" if times.iloc[-1] < times.iloc[0] else "longer"
    yield (
        f"Question 1: one epoch takes {list_names(texts)}: {way} with the largest batch than with"
        " the smallest."
    )


def _memory(runs: pd.DataFrame) -> Iterator[str]:
    """Question 1: where memory ends."""
    alone = runs[runs["strategy"] == "single"]
    starved = alone[alone["out_of_memory"]]["batch_size"]
    fitting = alone[~alone["out_of_memory"]]["batch_size"]
    if len(starved) and len(fitting):
        yield (
            f"Question 1: memory holds batches of {fitting.max()}, and not batches of"
            f" {starved.min()}."
        )


def _speed_ups(runs: pd.DataFrame) -> Iterator[str]:
    """Question 2: weak scaling, and strong scaling from the same runs."""
    four = runs[(runs["strategy"] == "allreduce") & (runs["workers"] == 4) & (runs["epochs"] == 2)]
    weak = four.groupby("batch_size")["speed_up"].mean().dropna()
    if weak.empty:
        return
    texts = [f"{gain:.2f} with batches of {size}" for size, gain in weak.items()]
    text = (
        f"Question 2: a fixed batch per worker is weak scaling. Speed-up on 4: {list_names(texts)}."
    )
    strong = four.groupby("batch_size")["strong_speed_up"].mean().dropna()
    if not strong.empty:
        size, gain = int(strong.index[0]), float(strong.iloc[0])
        other = weak.get(4 * size)
        verdict = ""
        if other is not None:
            verdict = (
                f", {'worse' if gain < other else 'better'} than {other:.2f} with 4 x {4 * size}"
            )
        text += f" Strong scaling: 4 x {size} against 1 x {4 * size} is {gain:.2f}{verdict}."
    yield text


def _communication(runs: pd.DataFrame) -> Iterator[str]:
    """Question 3: its share of the second epoch."""
    four = runs[(runs["strategy"] == "allreduce") & (runs["workers"] == 4) & (runs["epochs"] == 2)]
    shares = (four["second_epoch_communication_s"] / four["second_epoch_s"]).groupby(
        four["batch_size"]
    )
    known = shares.mean().dropna()
    if known.empty:
        return
    texts = [f"{percent_text(share, 0)} with batches of {size}" for size, share in known.items()]
    yield (
        "Question 3: communication, waiting included, takes of the epoch on 4 workers"
        f" {list_names(texts)}."
    )


def _large_batches(runs: pd.DataFrame) -> Iterator[str]:
    """Question 4: the fifth epoch, and the remedy that helped most."""
    column = "last_train_accuracy"
    small = number(runs, column, "128", strategy="single", batch_size=128, epochs=5)
    large: dict[str, int | str] = {
        "strategy": "allreduce",
        "workers": 4,
        "batch_size": 512,
        "epochs": 5,
    }
    none = number(runs, column, "", **large, lr_rule="none", warmup_epochs=0)
    if small is None or none is None:
        return
    remedies = {
        "a warm-up": number(runs, column, "", **large, lr_rule="none", warmup_epochs=1),
        "a learning rate in proportion": number(
            runs, column, "", **large, lr_rule="linear", warmup_epochs=0
        ),
        "both remedies": number(runs, column, "", **large, lr_rule="linear", warmup_epochs=1),
    }
    found = [f"{percent_text(got.mean)} with {name}" for name, got in remedies.items() if got]
    yield (
        f"Question 4: training accuracy of the fifth epoch is {percent_text(small.mean)} with"
        f" batches of 128 and {percent_text(none.mean)} with 4 x 512"
        + (f"; {list_names(found)}." if found else ".")
    )


def _sampler(runs: pd.DataFrame) -> Iterator[str]:
    """Question 5: the order of the samples."""
    fixed = runs[runs["shuffle"] == "fixed"]
    if fixed.empty:
        return
    epochs, size = int(fixed.iloc[0]["epochs"]), int(fixed.iloc[0]["train_size"])
    same: dict[str, int | str] = {"strategy": "ddp", "epochs": epochs, "train_size": size}
    new = number(runs, "accuracy", "a new order every epoch", **same, shuffle="epoch")
    old = number(runs, "accuracy", "the same order", **same, shuffle="fixed")
    if new and old:
        yield (
            "Question 5: the sampler's order is seeded by the epoch; unless it is set, every epoch"
            f" has the batches of the first. Test accuracy: {same_or_not(new, old, percent_text)}."
        )


def _buffers(runs: pd.DataFrame) -> Iterator[str]:
    """Questions 6 and 7: what is sent beside gradients, and what if it is not."""
    skewed = runs[(runs["partition"] != "iid") & (runs["strategy"] == "allreduce")]
    parts = {how: skewed[skewed["buffers"] == how] for how in ("broadcast", "local")}
    extra = mean_of(parts["broadcast"]["buffers_per_step_bytes"])
    gradients = mean_of(parts["local"]["sent_per_step_bytes"])
    if extra is None or gradients is None:
        return
    yield (
        "Question 6: no. Batch-norm statistics are buffers, not parameters: their broadcast adds"
        f" {bytes_text(extra)} to {bytes_text(gradients)} of gradients per worker and step"
        f" ({percent_text(extra / gradients, 1)})."
    )
    texts = []
    for how, part in parts.items():
        low, high = (mean_of(part[f"{end}_worker_accuracy"]) for end in ("lowest", "highest"))
        if low is not None and high is not None:
            texts.append(f"{percent_text(low)} to {percent_text(high)} where they are {how}")
    yield (
        "Question 7: with gradients alone all workers have the same parameters, but not the same"
        f" statistics. Test accuracy of the workers' own models: {list_names(texts)}."
    )
