"""One run on one node: join the others, train, exchange, evaluate, and log every border.

Bytes are booked to phases. At a border all workers wait for each other, read their own counters, and
wait again, so no exchange of one phase is counted in another. The waiting itself is a few hundred bytes
per border, booked to the phase it opens.
"""

from __future__ import annotations

import datetime
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn import functional

from cluster.records import read_node_counters
from cluster.run_folder import RunFolder
from cluster.spec import Experiment
from workloads.batches import load_mnist, train_batches
from workloads.compress import compressed, wire_bytes
from workloads.evaluate import own_accuracy, score_consensus
from workloads.event_log import EventLog
from workloads.flat import FlatModel, Sgd
from workloads.models import make_model
from workloads.strategies import STRATEGIES, Round

TIMEOUT_S = 120
"""A peer that is silent for this long is an error; one that died is noticed at once."""

EVALUATION_PART = 2000
"""Test images scored after each epoch; the last epoch's score takes the whole test set."""

OWN_PART = 1000
"""Test images on which each worker scores its own model at the end."""


def train(
    experiment: Experiment, rank: int, data_folder: Path, log: EventLog, folder: RunFolder | None
) -> None:
    """The whole run. `folder` is where the final model goes, or None to keep nothing."""
    spec, strategy = experiment, STRATEGIES[experiment.strategy]
    log.write("phase", phase="setup", epoch=None, counters=read_node_counters().values())
    torch.set_num_threads(1)
    model = make_model(spec.model, spec.seed)
    flat = FlatModel(model)
    exchange = compressed(strategy.exchange, spec.compress)
    optimizer = Sgd(flat, spec.lr, spec.momentum)
    data = load_mnist(data_folder)
    log.write(
        "hello",
        schema=1,
        node=log.node,
        rank=rank,
        workers=spec.workers,
        model_bytes=wire_bytes(flat.parameters, spec.compress),
        parameters=flat.parameters.numel(),
    )
    _join(spec, rank)

    step = rounds = 0
    pending = 0  # steps since the last exchange
    score = None
    for epoch in range(1, spec.epochs + 1):
        batches = train_batches(
            data,
            epoch,
            rank=rank,
            workers=spec.workers,
            batch_size=spec.batch_size,
            train_size=spec.train_size,
            seed=spec.seed,
        )
        _enter(log, "train", epoch, spec.workers)
        for index in range(1, spec.steps_per_epoch + 1):
            started = time.perf_counter()
            inputs, labels = next(batches)
            fed = time.perf_counter()

            loss = functional.cross_entropy(model(inputs), labels)
            loss.backward()
            loss = loss.detach()
            computed = time.perf_counter()

            step += 1
            pending += 1
            due = pending == spec.local_steps or index == spec.steps_per_epoch
            this_round = Round(spec, rank, rounds)
            if strategy.averages == "parameters":
                optimizer.step()
                computed = time.perf_counter()
                if due:
                    exchange(flat.parameters, this_round)
                exchanged = time.perf_counter()
            elif due:
                if pending > 1:
                    flat.gradients.div_(pending)
                computed = time.perf_counter()
                exchange(flat.gradients, this_round)
                exchanged = time.perf_counter()
                optimizer.step()
            else:
                exchanged = computed
            if due:
                pending = 0
                rounds += 1
            done = time.perf_counter()
            log.write(
                "step",
                epoch=epoch,
                step=step,
                loss=round(float(loss), 6),
                step_s=round(done - started, 6),
                data_s=round(fed - started, 6),
                compute_s=round((computed - fed) + (done - exchanged), 6),
                exchange_s=round(exchanged - computed, 6),
            )
        _enter(log, "evaluate", epoch, spec.workers)
        size = len(data.test_labels) if epoch == spec.epochs else EVALUATION_PART
        score = score_consensus(model, flat, data, size, rank, spec.workers)
        log.write(
            "epoch",
            epoch=epoch,
            accuracy=score.accuracy,
            loss=score.loss,
            consensus_distance=score.consensus_distance,
        )
    assert score is not None
    own = own_accuracy(model, data, OWN_PART)

    _enter(log, "finish", None, spec.workers)
    if spec.workers > 1:
        dist.all_reduce(flat.parameters)
        flat.parameters.div_(spec.workers)
        dist.barrier()
        dist.destroy_process_group()
    if rank == 0 and folder is not None:
        torch.save(model.state_dict(), folder.model)
    log.write(
        "result",
        accuracy=score.accuracy,
        loss=score.loss,
        own_accuracy=own,
        consensus_distance=score.consensus_distance,
        samples_seen=step * spec.batch_size,
        steps=step,
        rounds=rounds,
    )
    log.write("end", counters=read_node_counters().values())


def _join(spec: Experiment, rank: int) -> None:
    """Meet the other workers; the address of node 0 comes from the environment, as torchrun has it."""
    if spec.workers == 1:
        return
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "eth0")
    dist.init_process_group(
        "gloo",
        init_method="env://",
        rank=rank,
        world_size=spec.workers,
        timeout=datetime.timedelta(seconds=TIMEOUT_S),
    )


def _enter(log: EventLog, phase: str, epoch: int | None, workers: int) -> None:
    """A border: nobody's bytes are in flight while the counters are read."""
    if workers > 1:
        dist.barrier()
    log.write("phase", phase=phase, epoch=epoch, counters=read_node_counters().values())
    if workers > 1:
        dist.barrier()
