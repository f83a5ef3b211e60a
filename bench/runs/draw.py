"""The runs on which predictions are tried: a seeded draw, listed in bench/runs/*.toml.

    python3 -m bench.runs.draw        writes both lists again, byte for byte the same

`fitted.toml` are the runs that the host's costs are fitted to, `left-out.toml` those that only
judge the prediction. Both are presets: ./measure.sh --preset bench/runs/left-out.toml. A drawn
cluster has 2 to 10 nodes, a link rate, and in four of ten cases one or two slower nodes; five runs
share it. Links are slow and computing is pretended, so that two cores keep up with all nodes.
Stragglers need real computing: there, two workers have a core each.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from analysis.theory.predicted_bytes import lower_bound_s, predict
from cluster.spec.errors import SpecError
from cluster.spec.exchange.codecs import FLOAT_BYTES, parse_codec
from cluster.spec.exchange.strategies import STRATEGIES
from cluster.spec.experiment import Experiment
from cluster.spec.schedules.messages import Setting
from cluster.spec.schedules.pairwise import cycle_length

FOLDER = Path(__file__).resolve().parent
LISTS = {"fitted": (1601, 9, 1), "left-out": (2613, 22, 5)}
"""Name -> seed, clusters with pretended computing, clusters with a straggler.

2613 is the first seed from 2611 on that draws every lossy codec. Lists of earlier models are in the
history of this file: what their runs taught is in the model.
"""
RUNS_OF_CLUSTER = 5
RATES_MBIT = (10, 15, 20, 30, 50, 70, 100, 150)
MOST_MBIT = 800
"""Of all nodes together."""
SIZES = (48_000, 87_040, 200_000, 400_000, 800_000, 1_200_000, 2_400_000, 4_000_000)
COMPUTE_MS = (10, 20, 40, 80, 120, 200)
EXCHANGE_S = (0.002, 0.4)
"""The bound of a drawn exchange."""
RUN_S = 2.0
DRAWN = (
    *("allreduce", "ring", "allgather", "gather-scatter", "reduce-broadcast"),
    *("parameter-server", "ddp", "pairwise", "local-sgd", "halving-doubling"),
)
"""Strategies of one switch and with a barrier."""
STRAGGLER_BATCHES = (128, 256, 512)
STRAGGLER_STEPS = 20
LOSSY = ("int8", "int4", "2bit", "sign", "topk:0.05")

Run = dict[str, object]


def draw(seed: int, clusters: int, stragglers: int) -> Iterator[Run]:
    chance = random.Random(seed)
    for _ in range(clusters):
        nodes = chance.randint(2, 10)
        rate = chance.choice([rate for rate in RATES_MBIT if rate * nodes <= MOST_MBIT])
        cluster: Run = {"link": f"{rate}mbit"}
        if chance.random() < 0.4:
            slow = sorted(chance.sample(range(nodes), chance.randint(1, min(2, nodes - 1))))
            divisor = chance.choice((2, 3, 5))
            rates = ",".join(f"{rank}:{round(1000 * rate / divisor)}kbit" for rank in slow)
            cluster["bottleneck"] = [rates]
        found = 0
        while found < RUNS_OF_CLUSTER:
            if run := _drawn(chance, nodes, cluster):
                yield run
                found += 1
    for _ in range(stragglers):
        cores, rate = chance.choice((0.3, 0.5, 0.7)), chance.choice((20, 50, 100))
        batch = chance.choice(STRAGGLER_BATCHES)
        for strategy in chance.sample(("allreduce", "gather-scatter", "pairwise", "ring"), 2):
            for rank in (0, 1):
                yield _straggler(strategy, rank, cores, rate, batch)


def _drawn(chance: random.Random, nodes: int, cluster: Run) -> Run | None:
    """A run on such nodes; None where its exchange would be too short or too long."""
    strategy = chance.choice(DRAWN)
    facts = STRATEGIES[strategy]
    workers = nodes - facts.has_server
    layers, compute_ms = chance.choice((1, 8, 24)), chance.choice(COMPUTE_MS)
    size = chance.choice(SIZES)
    run: Run = {"strategy": strategy, "workers": workers, **cluster}
    run["model"] = f"synthetic:{size}:{layers}:{compute_ms}ms"
    if facts.has_passes:
        run["passes"] = chance.choice((1, 1, 2))
        run["schedule"] = chance.choice(("ring", "random", "grid"))
    if facts.local_steps > 1 or chance.random() < 0.1:
        run["local_steps"] = chance.choice((2, 4))
    if chance.random() < 0.3:
        lossy = strategy in ("allreduce", "local-sgd") and chance.random() < 0.6
        run["compress"] = chance.choice(LOSSY if lossy else ("fp16", "bf16"))
    if not facts.overlaps_backward and chance.random() < 0.15:
        run["overlap"] = True
    try:
        return _with_steps(run)
    except SpecError:
        return None


def _with_steps(run: Run) -> Run | None:
    """As many steps as a few seconds have, whole rounds and periods; the first is a warm-up."""
    text = {key: value[0] if isinstance(value, list) else value for key, value in run.items()}
    options = {**text, "batch_size": 1, "train_size": 10**6}
    spec = Experiment(**options)  # type: ignore[arg-type]
    size, _, compute_ms = str(run["model"]).removeprefix("synthetic:").split(":")
    setting = Setting(
        workers=spec.workers,
        model_bytes=parse_codec(spec.compress).encoded_bytes(int(size) // FLOAT_BYTES),
        compress=spec.compress,
        passes=spec.passes,
        schedule=spec.schedule,
        seed=spec.seed,
    )
    exchange_s = lower_bound_s(predict(spec.strategy, setting, 12), spec.links_by_rank)
    if not EXCHANGE_S[0] <= exchange_s <= EXCHANGE_S[1]:
        return None
    step_s = float(compute_ms.removesuffix("ms")) / 1e3 + exchange_s / spec.local_steps
    period = spec.local_steps
    if spec.passes:
        period *= cycle_length(spec.workers, spec.passes, spec.schedule or "ring")
    steps = max(8, min(20, round(RUN_S / step_s)))
    steps = max(2, round(steps / period)) * period + spec.local_steps
    return {**run, "epochs": 1, "batch_size": 1, "train_size": spec.workers * steps}


def _straggler(strategy: str, rank: int, cores: float, rate: int, batch: int) -> Run:
    return {
        "strategy": strategy,
        "workers": 2,
        "link": f"{rate}mbit",
        "straggler": [f"{rank}:{cores}"],
        "model": "mnist-cnn",
        "epochs": 1,
        "batch_size": batch,
        "train_size": 2 * batch * STRAGGLER_STEPS,
    }


def text(name: str) -> str:
    """A list as a preset."""
    seed, clusters, stragglers = LISTS[name]
    title = f"runs for predictions, {name}: a draw with seed {seed}"
    lines = [
        "# Written by python3 -m bench.runs.draw; do not edit.",
        f'title = "{title}"',
    ]
    for run in draw(seed, clusters, stragglers):
        lines += ["", "[[runs]]", *(f"{key} = {json.dumps(value)}" for key, value in run.items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for name in LISTS:
        (FOLDER / f"{name}.toml").write_text(text(name))
