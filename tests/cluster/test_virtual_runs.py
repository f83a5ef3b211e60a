"""Virtual workers end with the models of real ones: the same parameters, accuracy to the digit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from cluster.spec.documents.run_folder import RunFolder
from tests.measuring import Measured, measure

COMPOSITIONS = [
    {"strategy": "allreduce,pairwise", "workers": "4,8"},
    {"algorithm": "streaming-diloco", "compress": "2bit", "workers": "6"},
    {"strategy": "parameter-server", "workers": "4", "partition": "dirichlet:0.5"},
    {"strategy": "parameter-server", "workers": "3", "compress": "int8"},
    {"model": "mnist-bn", "strategy": "gather-scatter", "workers": "6"},
]
SIZES = ("--epochs", "2", "--train-size", "1536", "--batch-size", "32", "--test-size", "500")

Found = dict[tuple[Any, ...], tuple[dict[str, Any], torch.Tensor]]


def _found(output: Path, measured: Measured) -> Found:
    """By composition, the summary and the parameters of the final model."""
    assert measured.code == 0, measured.stderr
    found = {}
    for summary in measured.summaries:
        spec = summary["spec"]
        state = torch.load(RunFolder(output / summary["session"] / summary["run"]).model)
        model = torch.cat([tensor.flatten() for tensor in state.values()])
        found[spec["strategy"], spec["workers"], spec["model"]] = summary, model
    return found


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Found, Found]:
    """Real runs, and virtual ones."""
    output = tmp_path_factory.mktemp("virtual")
    flags = ("--engine", "netns", *SIZES, "--output", str(output))
    real = _found(output, measure(*flags, sweeps=COMPOSITIONS))
    virtual = _found(output, measure(*flags, "--virtual", sweeps=COMPOSITIONS))
    assert real.keys() == virtual.keys()
    return real, virtual


def test_models_and_accuracy_are_those_of_real_workers(sessions: tuple[Found, Found]) -> None:
    real, virtual = sessions
    for name, (expected, model) in real.items():
        summary, found = virtual[name]
        torch.testing.assert_close(found, model, rtol=0, atol=1e-5, msg=str(name))
        assert summary["accuracy"] == expected["accuracy"], name
        assert summary["accuracy_by_worker"] == expected["accuracy_by_worker"], name
        assert summary["training"]["shards"] == expected["training"]["shards"], name
        pairs = zip(summary["training"]["epochs"], expected["training"]["epochs"], strict=True)
        for own, theirs in pairs:
            assert own["train_accuracy"] == theirs["train_accuracy"], name
            assert own["train_loss"] == pytest.approx(theirs["train_loss"], abs=1e-5), name


def test_what_nobody_counted_is_predicted_and_called_so(sessions: tuple[Found, Found]) -> None:
    """Bytes are those that the real run has predicted for itself; nothing is called measured."""
    real, virtual = sessions
    for name, (expected, _) in real.items():
        summary, _ = virtual[name]
        assert summary["spec"]["virtual"]
        for key in ("predicted_mean_bytes", "predicted_max_bytes", "predicted_framing_bytes"):
            assert summary["per_step"][key] == expected["per_step"][key], (name, key)
        assert summary["per_step"]["sent_mean_bytes"] is summary["per_step"]["ratio"] is None
        assert summary["bytes"] is summary["counters"] is summary["traffic_matrix"] is None
        assert summary["seconds"]["step_median_s"] is summary["seconds"]["train_s"] is None
        predicted = summary["predicted"]
        assert predicted["step_s"] >= summary["seconds"]["compute_median_s"] > 0
        assert predicted["train_s"] == pytest.approx(predicted["step_s"] * summary["steps"], 1e-3)
        sent = summary["curve"][-1]["sent_bytes"]
        senders = summary["spec"]["workers"] * (2 if name[0] == "parameter-server" else 1)
        per_worker = expected["per_step"]["predicted_mean_bytes"] * expected["steps"]
        assert sent == pytest.approx(senders * per_worker, rel=1e-3), name


def test_own_code_runs_in_the_node(tmp_path: Path) -> None:
    """A strategy of the user's own, with torch.distributed, sees a node and not this machine."""
    tmp_path.chmod(0o755)  # nodes are other users
    file = tmp_path / "code" / "mine.py"
    file.parent.mkdir(mode=0o755)
    file.write_text(
        "import socket\n"
        "import torch.distributed as dist\n"
        "def exchange(flat, round):\n"
        "    assert socket.gethostname() == 'node0', socket.gethostname()\n"
        "    assert dist.get_world_size() == 5 and dist.get_rank() == round.rank\n"
        "    dist.all_reduce(flat)\n"
        "    flat /= round.workers\n"
    )
    options = ("--train-size", "640", "--epochs", "1", "--test-size", "100", "--batch-size", "32")
    measured = measure(
        *("--engine", "netns", "--virtual", "5", "--output", str(tmp_path / "runs")),
        *("--strategy", f"allreduce,{file}", *options),
    )
    assert measured.code == 0, measured.stderr
    ours, own = measured.summaries
    assert own["accuracy"] == ours["accuracy"]
    assert own["per_step"]["predicted_mean_bytes"] is None
