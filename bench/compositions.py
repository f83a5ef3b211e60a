"""Measured over predicted bytes of every codec with all its strategies, and of algorithms.

Payload and the library's framing, without what TCP sent again: of a worker on average, of the
busiest node, and of every pair of nodes. A few steps each, four workers, links that are not shaped.
Every run is a line of bench/compositions.csv, the table's source; runs that it has are not made
again.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import itertools
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean

from analysis.summary import traffic_matrix
from analysis.summary.recorded_run import RecordedRun
from analysis.theory.traffic_matrix import Matrix
from analysis.theory.traffic_matrix import matrix as payload_matrix
from bench.search.preset import as_toml
from bench.search.tasks import Options
from bench.tools.session import add_engine, call
from bench.tools.table import Table
from cluster.spec.documents.codec import parse_json
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.documents.summary import Summary
from cluster.spec.exchange.algorithms import ALGORITHMS
from cluster.spec.exchange.codecs import parse_codec
from cluster.spec.exchange.strategies import messages
from cluster.spec.experiment import Experiment
from cluster.spec.schedules.messages import (
    RECEIVER_FRAMING_BYTES,
    SENDER_FRAMING_BYTES,
    Setting,
    framing,
)

RECORD = Path(__file__).with_suffix(".csv")
MODELS = Path(__file__).resolve().parent / "programs" / "two_layers.py"
SIZES = {"4 MB": "large", "400 kB": "small"}
LIMITS = {"4 MB": 0.005, "400 kB": 0.02}
"""Of the mean and of the busiest node."""
PAIR_LIMIT = 0.01
CODECS = (
    *("int8", "int4", "2bit", "sign", "topk:0.01", "topk:0.03:2bit"),
    *("randk:0.05", "powersgd:2"),
)
WORKERS, STEPS, LOCAL_STEPS = 4, 16, 2


@dataclass(frozen=True, kw_only=True)
class Row:
    """A run: ratios of measured to predicted bytes."""

    engine: str
    size: str
    composition: str
    """An algorithm, or a codec."""
    strategy: str
    predicted_bytes: int
    """Payload of a worker in a step, on average."""
    framing_bytes: int
    mean: float
    busiest: float
    pair: float
    """Of the pair that is furthest from 1, of those that exchange."""
    date: str


def compositions() -> Iterator[Options]:
    """Options of every run, but for its model."""
    for codec in CODECS:
        for strategy in parse_codec(codec).carriers:
            yield {"strategy": strategy, "compress": codec, "local_steps": 1, "buffers": "local"}
    for name, algorithm in ALGORITHMS.items():
        steps = {"local_steps": LOCAL_STEPS} if "local_steps" in algorithm.options else {}
        yield {"algorithm": name, **steps}


def add_options(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument("--size", choices=SIZES, default="4 MB", help="(default: %(default)s)")
    parser.add_argument("--table", action="store_true", help="of the runs so far: no new ones")


def run(args: argparse.Namespace) -> Table:
    known = [(row.engine, row.size, row.composition, row.strategy) for row in read()]
    missing = [
        options
        for options in compositions()
        if (args.engine, args.size, *_names(options)) not in known
    ]
    if missing and not args.table:
        add(measured(args.engine, args.size, missing))
    return table(read())


def measured(engine: str, size: str, runs: list[Options]) -> list[Row]:
    """One session."""
    with tempfile.TemporaryDirectory(prefix="gradwire-bench-") as folder:
        preset, output = Path(folder, "compositions.toml"), Path(folder, "runs")
        sites = {"sites": f"a:{WORKERS // 2},b:{WORKERS - WORKERS // 2}"}
        preset.write_text(
            "\n".join(
                as_toml({**options, **(sites if options.get("strategy") == "hierarchical" else {})})
                for options in runs
            )
        )
        model = ("--model", f"{MODELS}:{SIZES[size]}", "--dataset", "mnist", "--batch-size", "2")
        steps = ("--epochs", "1", "--train-size", str(2 * WORKERS * STEPS), "--test-size", "20")
        flags = ("--preset", str(preset), "--engine", engine, "--workers", str(WORKERS))
        told = call(*flags, *model, *steps, "--lr", "0.001", "--json", "--output", str(output))
        summaries = [Summary.from_json(document) for document in parse_json(told)]
        return [
            row_of(engine, size, summary, RunFolder(output / summary.session / summary.run))
            for summary in summaries
        ]


def row_of(engine: str, size: str, summary: Summary, folder: RunFolder) -> Row:
    experiment = Experiment.from_json(summary.spec)
    recorded = RecordedRun.read(folder, experiment)
    hello = recorded.hello
    assert hello is not None
    setting = recorded.setting(hello)
    payload, added = _payload(experiment, setting), _framing(experiment, setting)
    pairs = [
        [a + b for a, b in zip(*rows, strict=True)] for rows in zip(payload, added, strict=True)
    ]
    sent = [sum(row) for row in pairs]
    again = [count or 0 for count in recorded.retransmitted]
    counted = [
        node["train"].sent_payload - n for node, n in zip(recorded.phases, again, strict=True)
    ]
    carried = traffic_matrix.measure(recorded.logs, 1)
    assert carried is not None
    ratios = [
        carried.sent[sender, receiver] / pairs[sender][receiver]
        for sender, receiver in itertools.permutations(range(experiment.nodes), 2)
        if payload[sender][receiver]
    ]
    workers, steps = experiment.workers, experiment.steps_per_epoch
    codec = experiment.algorithm or experiment.compress
    return Row(
        engine=engine,
        size=size,
        composition=codec,
        strategy=experiment.strategy,
        predicted_bytes=round(fmean(map(sum, payload[:workers])) / steps),
        framing_bytes=round(fmean(map(sum, added[:workers])) / steps),
        mean=round(sum(counted[:workers]) / sum(sent[:workers]), 5),
        busiest=round(max(counted) / max(sent), 5),
        pair=round(_furthest(ratios), 5),
        date=datetime.date.today().isoformat(),
    )


def _furthest(ratios: Iterable[float]) -> float:
    """From 1."""
    return max(ratios, key=_distance)


def _distance(ratio: float) -> float:
    return abs(ratio - 1)


def _payload(experiment: Experiment, setting: Setting) -> Matrix:
    """From node i to node j in all rounds."""
    rounds = experiment.rounds_per_epoch
    mean = payload_matrix(experiment.strategy, setting, rounds)
    return [[cell * rounds for cell in row] for row in mean]


def _framing(experiment: Experiment, setting: Setting) -> Matrix:
    """What the library adds to that, and its barriers at the two phase boundaries."""
    nodes = experiment.nodes
    found = [[0.0] * nodes for _ in range(nodes)]
    for index in range(experiment.rounds_per_epoch):
        for bucket in setting.by_bucket:
            for flow in framing(messages(experiment.strategy, index, bucket)):
                for source, destination in zip(flow.sources, flow.destinations, strict=True):
                    found[source][destination] += float(flow.pair_bytes)
    for rank, level in itertools.product(range(nodes), range((nodes - 1).bit_length())):
        other = (rank + 2**level) % nodes
        found[rank][other] += 2 * SENDER_FRAMING_BYTES
        found[other][rank] += 2 * RECEIVER_FRAMING_BYTES
    return found


def table(rows: list[Row]) -> Table:
    """A row for each codec and algorithm: of its strategies the one that is furthest from 1."""
    names = list(dict.fromkeys(row.composition for row in rows))
    places = [(e, s) for e in ("netns", "docker") for s in SIZES]
    cells = []
    for name in names:
        cells.append([f"`{name}`"])
        for engine, size in places:
            here = [r for r in rows if (r.engine, r.size, r.composition) == (engine, size, name)]
            cells[-1].append(_cell(here))
    beyond = [row for row in rows if is_beyond(row)]
    dates = sorted({row.date for row in rows})
    limits = (f"{limit:.1%} at {size}" for size, limit in LIMITS.items())
    shares = (f"{max(_shares(rows, size), default=0):.0%} at {size}" for size in SIZES)
    notes = [
        f"{len(rows)} runs, {' and '.join(dates)}; {len(beyond)} beyond the limits, which are"
        f" {' and '.join(limits)}, and {PAIR_LIMIT:.0%} for pairs. Framing is up to"
        f" {' and '.join(shares)} of the payload."
    ]
    notes += [
        f"Beyond: {row.composition}, {row.strategy}, {row.size}, {row.engine}: {row.mean:.4f},"
        f" {row.busiest:.4f}, {row.pair:.4f}"
        for row in beyond
    ]
    return Table(
        f"{WORKERS} workers; mean / busiest node / pair furthest from 1, of so many strategies",
        ("composition", *(f"{engine}, {size}" for engine, size in places)),
        cells,
        notes,
    )


def _shares(rows: list[Row], size: str) -> list[float]:
    """Framing over payload."""
    return [row.framing_bytes / row.predicted_bytes for row in rows if row.size == size]


def _cell(rows: list[Row]) -> str:
    if not rows:
        return "-"
    worst = (_furthest(getattr(row, name) for row in rows) for name in ("mean", "busiest", "pair"))
    return f"{' / '.join(f'{ratio:.4f}' for ratio in worst)} ({len(rows)})"


def is_beyond(row: Row) -> bool:
    """Whether a ratio is further from 1 than it may be."""
    limit = LIMITS[row.size]
    off = [abs(ratio - 1) for ratio in (row.mean, row.busiest, row.pair)]
    return off[0] > limit or off[1] > limit or off[2] > PAIR_LIMIT


def _names(options: Options) -> tuple[str, str]:
    if "algorithm" in options:
        return options["algorithm"], str(ALGORITHMS[options["algorithm"]].options["strategy"])
    return options["compress"], options["strategy"]


def read() -> list[Row]:
    if not RECORD.exists():
        return []
    with RECORD.open(newline="") as file:
        return [
            Row(
                engine=row["engine"],
                size=row["size"],
                composition=row["composition"],
                strategy=row["strategy"],
                predicted_bytes=int(row["predicted_bytes"]),
                framing_bytes=int(row["framing_bytes"]),
                mean=float(row["mean"]),
                busiest=float(row["busiest"]),
                pair=float(row["pair"]),
                date=row["date"],
            )
            for row in csv.DictReader(file)
        ]


def add(rows: list[Row]) -> None:
    is_new = not RECORD.exists()
    with RECORD.open("a", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
