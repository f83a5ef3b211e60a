"""One run on one worker: join the others, train, exchange, evaluate, and log every border."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from cluster.spec.experiment import Experiment
from cluster.spec.learning_rate import learning_rate
from cluster.spec.run_folder import RunFolder
from workloads.comm.codecs import wire_bytes
from workloads.comm.flat import FlatModel
from workloads.comm.rendezvous import enter, join
from workloads.counters.interfaces import full_segment, own_network
from workloads.data.readers import Samples, read_samples
from workloads.data.shard import Shard
from workloads.device.timing import open_device
from workloads.evaluate import own_accuracy, score_consensus, take_average
from workloads.event_log import EventLog
from workloads.models.networks import make_model, weights_of
from workloads.optimizers import make_optimizer

EVALUATION_PART = 2000
"""Test samples scored after each epoch; the last epoch's score takes all (--test-size)."""

OWN_PART = 1000
"""Test samples on which each worker scores its own model at the end."""


def train(
    spec: Experiment, rank: int, data_folder: Path, log: EventLog, folder: RunFolder | None
) -> None:
    """The whole run. `folder` is where the final model goes, or None to keep nothing."""
    log.border("phase", phase="setup", epoch=None)
    # What was imported stays. Else the collection at the end looks at every object of it, and in a fork copies them all.
    gc.freeze()
    torch.set_num_threads(1)
    device = open_device(spec.device)
    model = make_model(spec.model, spec.seed, data_folder).to(device.at)
    flat = FlatModel(model)
    optimizer = make_optimizer(spec, flat)
    data = read_samples(str(spec.dataset), data_folder, spec.train_size, weights_of(spec.model))
    shard = Shard(spec, rank, data)
    model_bytes = wire_bytes(flat, spec.compress)
    log.write(
        "hello",
        schema=1,
        node=log.node,
        rank=rank,
        role="worker",
        workers=spec.workers,
        host=socket.gethostname(),
        network=own_network(),
        sharers=log.sharers,
        segment_bytes=full_segment(1 < log.sharers == spec.workers),
        model_bytes=model_bytes,
        buffer_bytes=sum(buffer.nbytes for buffer in flat.buffers),
        parameters=flat.parameter_count,
        labels=shard.label_counts(),
    )
    if spec.timeline and folder is not None:
        os.environ["HOROVOD_TIMELINE"] = str(folder.timeline)
    peers = join(spec, rank, model_bytes)
    if peers.order:
        log.write("joined", order=peers.order)
    prepared = peers.prepare(model, flat, optimizer)
    exchanger = prepared.exchanger
    called = device.spread(prepared.model, spec.gpu)
    hidden = prepared.hides_exchange or called is not prepared.model

    step = rounds = 0
    pending = 0  # steps since the last exchange
    score = None
    for epoch in range(1, spec.epochs + 1):
        batches = shard.batches(epoch)
        enter(log, "train", epoch, peers)
        for index in range(1, spec.steps_per_epoch + 1):
            started = device.mark()
            inputs, labels = (tensor.to(device.at) for tensor in next(batches))
            fed = device.mark()

            step += 1
            pending += 1
            due = pending == spec.local_steps or index == spec.steps_per_epoch
            if due:
                exchanger.begin(rounds, pending)
            optimizer.lr = learning_rate(spec, step - 1)
            with _exchanging(prepared.model, due):
                outputs = called(inputs)
                loss = functional.cross_entropy(outputs, labels)
                loss.backward()
            loss = loss.detach()
            computed = device.mark()

            if spec.average == "parameters":
                optimizer.step()
                computed = device.mark()
                if due:
                    exchanger.complete()
                exchanged = device.mark()
            elif due:
                exchanger.complete()
                exchanged = device.mark()
                prepared.update()
            else:
                exchanged = computed
            if due:
                pending = 0
                rounds += 1
            done = device.mark()
            seconds = device.seconds
            log.write(
                "step",
                epoch=epoch,
                step=step,
                loss=round(float(loss), 6),
                correct=int((outputs.argmax(1) == labels).sum()),
                step_s=round(seconds(started, done), 6),
                data_s=round(seconds(started, fed), 6),
                compute_s=None
                if hidden
                else round(seconds(fed, computed) + seconds(exchanged, done), 6),
                exchange_s=None if hidden else round(seconds(computed, exchanged), 6),
            )
        enter(log, "evaluate", epoch, peers)
        size = _test_size(spec, data, epoch == spec.epochs)
        score = score_consensus(model, flat, data, size, peers)
        log.write(
            "epoch",
            epoch=epoch,
            accuracy=score.accuracy,
            loss=score.loss,
            consensus_distance=score.consensus_distance,
        )
    assert score is not None
    own = own_accuracy(model, data, min(OWN_PART, _test_size(spec, data, last_epoch=True)))

    enter(log, "finish", None, peers)
    peers.rest(log)
    take_average(flat, peers)
    # Before the group goes: as its last owner, DistributedDataParallel would wait for the group's threads
    # while it holds Python's lock, which such a thread may need to end (torch 2.13).
    del prepared, exchanger, called
    gc.collect()
    peers.leave()
    if rank == 0 and folder is not None:
        torch.save(model.cpu().state_dict(), folder.model)
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
    log.border("end")


def _exchanging(model: nn.Module, due: bool) -> contextlib.AbstractContextManager[None]:
    """A model that exchanges by itself is told when not to."""
    if isinstance(model, nn.parallel.DistributedDataParallel) and not due:
        return model.no_sync()
    return contextlib.nullcontext()


def _test_size(spec: Experiment, data: Samples, last_epoch: bool) -> int:
    available = len(data.test_labels)
    if spec.test_size is not None:
        available = min(available, spec.test_size)
    return available if last_epoch else min(EVALUATION_PART, available)
