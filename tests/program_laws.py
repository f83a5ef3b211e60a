"""What holds of users' programs with every engine: bytes as theory and as our own strategies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.measuring import PROJECT, measure

PROGRAMS = PROJECT / "tests" / "programs"
STEPS = 20
THEORY, OURS, SOCKETS = 0.02, 0.01, 0.01
Summary = dict[str, Any]


def sweep_file(folder: Path, size: int) -> Path:
    """Plain programs beside the built-in strategies that they write out by hand."""
    path = folder / "sweep.toml"
    steps, model = STEPS, f"synthetic:{size}"
    path.write_text(
        f"""
[[runs]]
program = [
    "{PROGRAMS}/plain_ddp.py --size {size} --steps {steps}",
    "{PROGRAMS}/plain_gather_scatter.py {size} {steps}",
    "{PROGRAMS}/plain_sockets.py {size}",
]
[[runs]]
strategy = ["ddp", "gather-scatter"]
model = "{model}"
batch_size = 1
epochs = 1
train_size = {steps}
"""
    )
    return path


def programs_agree(engine: str, workers: int, size: int, folder: Path) -> None:
    flags = ("--engine", engine, "--workers", str(workers), "--output", str(folder / "runs"))
    measured = measure(*flags, "--preset", str(sweep_file(folder, size)))
    assert measured.code == 0, measured.stderr
    found = {summary["spec"]["strategy"]: summary for summary in measured.summaries}
    moved = (workers - 1) * size
    for program, ours, at_start in (
        ("plain_ddp.py", "ddp", moved),  # DDP broadcasts rank 0's parameters first
        ("plain_gather_scatter.py", "gather-scatter", 0),
    ):
        payload = found[program]["bytes"]["train"]["sent_payload_bytes"]
        assert abs(payload / (STEPS * 2 * moved + at_start) - 1) < THEORY, program
        steps = found[ours]["steps"]
        per_step = found[ours]["per_step"]["sent_mean_bytes"] * workers
        assert steps == STEPS // workers
        assert abs((payload - at_start) / STEPS / per_step - 1) < OURS, program
        assert found[program]["steps"] == STEPS, "torch's optimizer tells its steps"
        assert found[program]["counters"]["largest_difference"] < 0.01
    sockets_agree(found["plain_sockets.py"], workers, size)
    operations = {
        entry["name"]: entry for entry in found["plain_gather_scatter.py"]["program"]["operations"]
    }
    assert operations["gather"] == {
        "name": "gather",
        "calls": STEPS * workers,
        "tensor_bytes": STEPS * workers * size,
    }
    for program in ("plain_ddp.py", "plain_sockets.py"):
        for process in found[program]["program"]["processes"]:
            assert process["exit_code"] == 0
            assert process["memory_bytes"] > 0


def sockets_agree(summary: Summary, workers: int, size: int) -> None:
    """Every pair as the program says, though all its connections were closed at once."""
    pairs = {(p["sender"], p["receiver"]): p for p in summary["traffic_matrix"]["pairs"]}
    assert len(pairs) == workers * (workers - 1)
    for (sender, _), pair in pairs.items():
        said = (sender + 1) * size
        assert abs(pair["sent_bytes"] / said - 1) < SOCKETS
        assert abs(pair["received_bytes"] / said - 1) < SOCKETS
