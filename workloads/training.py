"""One run on one worker: join, train, exchange, evaluate, and log every phase boundary."""

import contextlib
import gc
import os
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

from cluster.spec.documents.events import End, Epoch, Hello, Phase, RankOrder, Result, Step
from cluster.spec.documents.node_files import NodeFiles
from cluster.spec.experiment import Experiment
from cluster.spec.learning_rate import learning_rate
from cluster.spec.own_code import is_own
from workloads.comm.exchanger import bucket_bytes
from workloads.comm.flat import FlatModel
from workloads.comm.half import wire_bytes
from workloads.comm.peers import Preparation, enter_phase
from workloads.counters.cpu import CpuClock
from workloads.counters.interfaces import full_segment_bytes, network_id
from workloads.data.batches import Batch, Shard
from workloads.data.samples import Samples
from workloads.device import Device, Mark, open_device
from workloads.evaluate import own_accuracy, score_consensus, take_average
from workloads.event_log import EventLog
from workloads.launchers import join
from workloads.models.networks import model_of
from workloads.objective import Objective, objective_of
from workloads.optimizers import Optimizer, make_optimizer
from workloads.own.learning import samples_of
from workloads.own.loading import verify
from workloads.own.strategy import own_schedule

EVALUATION_SAMPLES = 2000
"""Test samples scored after each epoch; the last epoch's score uses all (--test-size)."""

OWN_SAMPLES = 1000
"""Test samples on which each worker scores its own model at the end."""


def train(
    spec: Experiment, rank: int, data_root: Path, log: EventLog, files: NodeFiles | None
) -> None:
    """The whole run. `files` receive the final model and timeline; None keeps nothing."""
    log.boundary(Phase, phase="setup")
    verify(spec)
    # Imported objects stay: exclude them from collections, which in a fork would copy their pages.
    gc.freeze()
    torch.set_num_threads(1)
    device = open_device(spec.device)
    model = model_of(spec, data_root).to(device.torch_device)
    flat = FlatModel(model)
    optimizer = make_optimizer(spec, flat)
    data, objective = samples_of(spec, data_root), objective_of(spec)
    shard = Shard(spec, rank, data)
    model_bytes = wire_bytes(flat, spec.compress)
    log.write(
        Hello(
            node=log.node,
            rank=rank,
            workers=spec.workers,
            host=socket.gethostname(),
            network=network_id(),
            workers_on_host=log.workers_on_host,
            segment_bytes=full_segment_bytes(1 < log.workers_on_host == spec.workers),
            model_bytes=model_bytes,
            bucket_bytes=bucket_bytes(flat, spec),
            buffer_bytes=sum(buffer.nbytes for buffer in flat.buffers),
            parameters=flat.parameter_count,
            labels=shard.label_counts(),
        )
    )
    if rank == 0 and is_own(spec.strategy) and (planned := own_schedule(spec, flat, model_bytes)):
        log.write(planned)
    if spec.timeline and files is not None:
        os.environ["HOROVOD_TIMELINE"] = str(files.timeline)
    peers = join(spec, rank, model_bytes)
    if peers.order:
        log.write(RankOrder(order=peers.order))
    prepared = peers.prepare(model, flat, optimizer)
    called = device.data_parallel(prepared.model, spec.gpu)
    trainer = Trainer(spec, log, device, optimizer, prepared, called, objective)

    score = None
    for epoch in range(1, spec.epochs + 1):
        batches = shard.batches(epoch)
        enter_phase(log, "train", epoch, peers)
        trainer.run_epoch(epoch, batches)
        enter_phase(log, "evaluate", epoch, peers)
        size = _test_size(spec, data, epoch == spec.epochs)
        score = score_consensus(model, flat, data, size, peers, objective)
        log.write(Epoch(epoch=epoch, **asdict(score)))
    assert score is not None
    own_size = min(OWN_SAMPLES, _test_size(spec, data, last_epoch=True))
    own = own_accuracy(model, data, own_size, objective)

    enter_phase(log, "finish", None, peers)
    peers.measure_idle(log)
    take_average(flat, peers)
    # Before the process group is destroyed: as its last owner, DistributedDataParallel would wait
    # for the group's threads while holding the GIL, which they may need to end (torch 2.13).
    del trainer, prepared, called
    gc.collect()
    peers.leave()
    if rank == 0 and files is not None:
        torch.save(model.cpu().state_dict(), files.model)
    steps = spec.epochs * spec.steps_per_epoch
    log.write(
        Result(
            **asdict(score),
            own_accuracy=own,
            own_test_samples=own_size or None,
            samples_seen=steps * spec.batch_size,
            steps=steps,
            rounds=spec.epochs * spec.rounds_per_epoch,
        )
    )
    log.boundary(End)


@dataclass(frozen=True)
class Trainer:
    """A worker's training steps."""

    spec: Experiment
    log: EventLog
    device: Device
    optimizer: Optimizer
    prepared: Preparation
    called: nn.Module
    """The prepared model, or its wrapper that splits batches over several GPUs."""
    objective: Objective

    def run_epoch(self, epoch: int, batches: Iterator[Batch]) -> None:
        """A round ends after every `local_steps` steps, and with the epoch."""
        spec = self.spec
        round_index = (epoch - 1) * spec.rounds_per_epoch
        pending = 0  # steps since the last exchange
        clock = CpuClock()
        for index in range(1, spec.steps_per_epoch + 1):
            pending += 1
            due = pending == spec.local_steps or index == spec.steps_per_epoch
            cpu_before = clock.read()
            started = self.device.mark()
            inputs, labels = (tensor.to(self.device.torch_device) for tensor in next(batches))
            fed = self.device.mark()
            if due:
                self.prepared.exchanger.begin_round(round_index, pending)
                round_index, pending = round_index + 1, 0
            step = (epoch - 1) * spec.steps_per_epoch + index
            self.optimizer.lr = learning_rate(spec, step - 1)
            with _exchange_in_backward(self.prepared.model, due):
                outputs = self.called(inputs)
                loss = self.objective.mean(outputs, labels)
                loss.backward()
            loss = loss.detach()
            computed, exchanged = self._exchange_and_update(due)
            done = self.device.mark()
            cpu = clock.read().since(cpu_before)
            seconds = self.device.seconds
            compute_s = seconds(fed, computed) + seconds(exchanged, done)
            hidden = self.prepared.hides_exchange or self.called is not self.prepared.model
            self.log.write(
                Step(
                    epoch=epoch,
                    step=step,
                    loss=round(float(loss), 6),
                    correct=self.objective.correct(outputs, labels),
                    step_s=round(seconds(started, done), 6),
                    data_s=round(seconds(started, fed), 6),
                    compute_s=None if hidden else round(compute_s, 6),
                    exchange_s=None if hidden else round(seconds(computed, exchanged), 6),
                    **asdict(cpu),
                )
            )
        clock.close()

    def _exchange_and_update(self, due: bool) -> tuple[Mark, Mark]:
        """Exchange where a round is due, and update; marks before and after the exchange."""
        computed = self.device.mark()
        if self.spec.average == "parameters":
            self.optimizer.step()
            computed = self.device.mark()
            if due:
                self.prepared.exchanger.finish_round()
            return computed, self.device.mark()
        if not due:
            return computed, computed
        self.prepared.exchanger.finish_round()
        exchanged = self.device.mark()
        self.prepared.update()
        return computed, exchanged


def _exchange_in_backward(model: nn.Module, due: bool) -> contextlib.AbstractContextManager[None]:
    """DistributedDataParallel exchanges in every backward pass unless told otherwise."""
    if isinstance(model, nn.parallel.DistributedDataParallel) and not due:
        return model.no_sync()
    return contextlib.nullcontext()


def _test_size(spec: Experiment, data: Samples, last_epoch: bool) -> int:
    available = len(data.test_labels)
    if spec.test_size is not None:
        available = min(available, spec.test_size)
    return available if last_epoch else min(EVALUATION_SAMPLES, available)
