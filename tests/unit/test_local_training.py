"""diloco and streaming-diloco on real processes are their plainly written forms after 50 steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from cluster.spec.errors import SpecError
from cluster.spec.experiment import Experiment
from cluster.spec.schedules.messages import Setting
from tests.loopback import on_workers
from tests.unit.test_state import Worker, loss_of
from workloads.comm.exchanger import bucket_bytes

HERE = "tests.unit.test_local_training"
STEPS, EPOCH = 50, 25
LR, MOMENTUM = 0.02, 0.5
FORMS: dict[str, dict[str, Any]] = {
    "diloco": {"local_steps": 4, "outer": "nesterov:0.7:0.9"},
    "one fragment, at once": {"local_steps": 3, "outer": "sgd:1", "stream": "1:0:0"},
    "streaming": {"local_steps": 2, "outer": "nesterov:0.7:0.9", "stream": "4:1:0.5"},
    "taken as late as can be": {"local_steps": 3, "outer": "nesterov:0.5:0.6", "stream": "2:3:0.2"},
}


def _spec(name: str, workers: int) -> Experiment:
    sizes: dict[str, Any] = {
        "train_size": workers * 64 * EPOCH,
        "lr": LR,
        "lr_rule": "none",
        "momentum": MOMENTUM,
    }
    return Experiment(strategy="local-sgd", workers=workers, **sizes, **FORMS[name])


def trained(rank: int, workers: int) -> dict[str, Tensor]:
    found = {}
    for name in FORMS:
        worker = Worker(_spec(name, workers), rank)
        worker.train(0, STEPS)
        found[name] = worker.flat.parts[0].parameters.clone()
    return found


def plainly_trained(name: str, workers: int) -> list[Tensor]:
    """By one process, with torch's optimizers: an outer one for every fragment."""
    spec = _spec(name, workers)
    models: list[nn.Module] = [Worker(spec, rank).model for rank in range(workers)]
    inner = [torch.optim.SGD(m.parameters(), LR, momentum=MOMENTUM) for m in models]
    fragments, delay, kept = 1, 0, 0.0
    if spec.stream != "none":
        count, steps, share = spec.stream.split(":")
        fragments, delay, kept = int(count), int(steps), float(share)
    _, *numbers = spec.outer.split(":")
    lr, momentum = float(numbers[0]), float(numbers[1]) if len(numbers) > 1 else 0.0
    whole = parameters_to_vector(models[0].parameters()).detach()
    anchors = [nn.Parameter(piece.clone()) for piece in whole.tensor_split(fragments)]
    outer = [torch.optim.SGD([a], lr, momentum, nesterov=momentum > 0) for a in anchors]
    pending: tuple[int, Tensor] | None = None
    waited = rounds = 0

    def take() -> None:
        nonlocal pending
        if pending is None:
            return
        at, mean = pending
        pending = None
        anchors[at].grad = -mean
        outer[at].step()
        for model in models:
            vector = parameters_to_vector(model.parameters()).detach().clone()
            piece = vector.tensor_split(fragments)[at]
            piece.copy_(kept * piece + (1 - kept) * anchors[at].detach())
            vector_to_parameters(vector, model.parameters())

    for step in range(STEPS):
        for rank, (model, optimizer) in enumerate(zip(models, inner, strict=True)):
            optimizer.zero_grad()
            loss_of(model, step, rank).backward()
            optimizer.step()
        index = step % EPOCH
        waited += 1
        is_due = (index + 1) % spec.local_steps == 0 or index + 1 == EPOCH
        if is_due or waited == delay:
            take()
        if is_due:
            at, waited = rounds % fragments, 0
            rounds += 1
            pieces = [
                parameters_to_vector(m.parameters()).detach().tensor_split(fragments)[at]
                for m in models
            ]
            pending = at, torch.stack(pieces).mean(0) - anchors[at].detach()
            if not delay or index + 1 == EPOCH:
                take()
    return [parameters_to_vector(model.parameters()).detach() for model in models]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_after_50_steps_parameters_are_those_of_the_plain_form(
    workers: int, tmp_path: Path
) -> None:
    found = on_workers(f"{HERE}:trained", workers, tmp_path)
    for name in FORMS:
        expected = plainly_trained(name, workers)
        for rank, parameters in enumerate(expected):
            difference = (found[rank][name] - parameters).abs().max()
            assert float(difference) < 1e-5, (name, rank)


def test_a_round_sends_its_fragment_and_all_of_them_the_model() -> None:
    worker = Worker(_spec("streaming", 3), 0)
    sizes = bucket_bytes(worker.flat, worker.spec)
    assert sum(sizes) == 4 * worker.flat.parameter_count
    setting = Setting(
        workers=3, model_bytes=sum(sizes), bucket_bytes=tuple(sizes), fragments=4, first_round=2
    )
    assert [setting.of_fragment(k).model_bytes for k in range(4)] == [*sizes[2:], *sizes[:2]]
    even = Setting(workers=3, model_bytes=1002, fragments=4)
    assert [even.of_fragment(k).exchanged_bytes for k in range(5)] == [251, 251, 250, 250, 251]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"stream": "4"}, "such as 4:1:0.5, not '4'"),
        ({"stream": "0:1:0.5"}, "FRAGMENTS must be 1 to 256, not 0"),
        ({"stream": "4:-1:0.5"}, "DELAY must be 0 steps or more"),
        ({"stream": "4:1:1"}, "KEPT must be at least 0 and below 1"),
        ({"stream": "4:9:0.5"}, "DELAY is 9 steps, and the next round begins after 8"),
        ({"stream": "4:1:0.5", "outer": "none"}, "use --outer sgd:1"),
        ({"stream": "4:1:0.5", "strategy": "allreduce"}, "does not apply to strategy allreduce"),
        ({"stream": "4:1:0.5", "compress": "powersgd:2"}, "whose fragments are no layers"),
        ({"stream": "4:1:0.5", "bucket_mb": 1.0}, "leave out bucket_mb"),
    ],
)
def test_streaming_that_makes_no_sense_is_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        Experiment(**{"strategy": "local-sgd", **options})
