"""One run on one worker: join, train, exchange, evaluate, and log every phase boundary."""

import contextlib
import gc
import hashlib
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from cluster.spec.clock import now
from cluster.spec.documents.events import End, Epoch, Hello, Phase, RankOrder, Result, Step
from cluster.spec.documents.membership import Place
from cluster.spec.documents.node_files import NodeFiles
from cluster.spec.experiment import Experiment
from cluster.spec.faults.checks import CONTINUE
from cluster.spec.learning_rate import learning_rate
from cluster.spec.own_code import is_own
from workloads.comm.exchanger import bucket_bytes
from workloads.comm.flat import FlatModel
from workloads.comm.half import wire_bytes
from workloads.comm.pace import InStep, Pace
from workloads.comm.peers import Preparation, enter_phase
from workloads.counters.cpu import CpuClock
from workloads.counters.cpu_pace import CpuPace
from workloads.counters.interfaces import full_segment_bytes, network_id
from workloads.data.batches import Batch, Shard
from workloads.data.samples import Samples
from workloads.device import Device, Mark, open_device
from workloads.evaluate import own_accuracy, score_consensus, take_average
from workloads.event_log import EventLog
from workloads.faults import FaultPoints
from workloads.launchers import join
from workloads.models.networks import model_of
from workloads.objective import Objective, objective_of
from workloads.optimizers import Optimizer, make_optimizer
from workloads.own.learning import samples_of
from workloads.own.loading import verify
from workloads.own.strategy import own_schedule
from workloads.part import Deck, Part
from workloads.state import load, save, state_of
from workloads.steady import compute_steadily

EVALUATION_SAMPLES = 2000
"""Test samples scored after each epoch; the last epoch's score uses all (--test-size)."""

DIGITS = 16
OWN_SAMPLES = 1000
"""Test samples on which each worker scores its own model at the end."""


@dataclass(frozen=True)
class Worker:
    """What a worker makes before it joins the others. Implements part.Participant."""

    spec: Experiment
    rank: int
    log: EventLog
    files: NodeFiles | None
    """Receive the final model and timeline; None keeps nothing."""
    device: Device
    model: nn.Module
    flat: FlatModel
    optimizer: Optimizer
    data: Samples
    objective: Objective
    shard: Shard

    @property
    def model_bytes(self) -> int:
        return wire_bytes(self.flat, self.spec.compress)

    def rows(self, epoch: int) -> Sequence[Tensor]:
        return self.shard.rows(epoch).unbind()

    def deck(self, epoch: int) -> Deck:
        return self.shard.deck(epoch)

    def take_part(self, part: Part) -> None:
        take_part(self, part)


def set_up(
    spec: Experiment, rank: int, data_root: Path, log: EventLog, files: NodeFiles | None
) -> Worker:
    """Make the model, read the data, and say hello."""
    log.boundary(Phase, phase="setup")
    verify(spec)
    # Imported objects stay: exclude them from collections, which in a fork would copy their pages.
    gc.freeze()
    compute_steadily()
    device = open_device(spec.device)
    model = model_of(spec, data_root).to(device.torch_device)
    flat = FlatModel(model)
    optimizer = make_optimizer(spec, flat)
    data, objective = samples_of(spec, data_root), objective_of(spec)
    shard = Shard(spec, rank, data)
    worker = Worker(spec, rank, log, files, device, model, flat, optimizer, data, objective, shard)
    log.write(
        Hello(
            node=log.node,
            rank=rank,
            workers=spec.workers,
            host=socket.gethostname(),
            network=network_id(),
            workers_on_host=log.workers_on_host,
            segment_bytes=full_segment_bytes(1 < log.workers_on_host == spec.workers),
            model_bytes=worker.model_bytes,
            bucket_bytes=bucket_bytes(flat, spec),
            buffer_bytes=sum(buffer.nbytes for buffer in flat.buffers),
            parameters=flat.parameter_count,
            labels=shard.label_counts(),
        )
    )
    if rank == 0 and is_own(spec.strategy):
        planned = own_schedule(spec, flat, worker.model_bytes)
        if planned:
            log.write(planned)
    return worker


def take_part(worker: Worker, part: Part) -> None:
    """Join the others, train and evaluate to the end of the run."""
    spec, log, model, flat = part.spec, worker.log, worker.model, worker.flat
    data, objective = worker.data, worker.objective
    if spec.timeline and worker.files is not None:
        os.environ["HOROVOD_TIMELINE"] = str(worker.files.timeline)
    peers = join(spec, part.rank, worker.model_bytes)
    if peers.order:
        log.write(RankOrder(order=peers.order))
    prepared = peers.prepare(model, flat, worker.optimizer)
    state = state_of(model, flat, worker.optimizer, prepared.exchanger)
    if spec.continues is not None and worker.files is not None:
        load(worker.files.state, state)
    part.begin(peers, state)
    called = worker.device.data_parallel(prepared.model, spec.gpu)
    pace: Pace = prepared.pace or InStep()
    pace.begin(part)
    faults = FaultPoints(worker.spec, worker.rank, log)
    trainer = Trainer(part, worker, prepared, pace, called, faults)

    score, place = None, part.start
    for epoch in range(place.epoch, spec.epochs + 1):
        batches = pace.batches(worker.shard, spec.epochs_before + epoch)
        enter_phase(log, "train", epoch, peers)
        place = trainer.run_epoch(replace(place, epoch=epoch, done=0), batches)
        enter_phase(log, "evaluate", epoch, peers)
        if (done := pace.settle(epoch)) is not None:
            log.write(done.named(part.members))
        size = _test_size(spec, data, epoch == spec.epochs)
        score = score_consensus(model, flat, data, size, peers, objective)
        log.write(Epoch(epoch=epoch, **asdict(score)))
    assert score is not None
    own_size = min(OWN_SAMPLES, _test_size(spec, data, last_epoch=True))
    own = own_accuracy(model, data, own_size, objective)

    enter_phase(log, "finish", None, peers)
    peers.measure_idle(log)
    if spec.save_state and worker.files is not None:
        save(worker.files.state, state)
    digits = digits_of(flat) if spec.on_failure == CONTINUE else None
    take_average(flat, peers)
    pace.close()
    rounds = pace.rounds
    # Before the process group is destroyed: as its last owner, DistributedDataParallel would wait
    # for the group's threads while holding the GIL, which they may need to end (torch 2.13).
    del trainer, prepared, pace, called
    gc.collect()
    peers.leave()
    if worker.rank == 0 and worker.files is not None:
        torch.save(model.cpu().state_dict(), worker.files.model)
    log.write(
        Result(
            **asdict(score),
            own_accuracy=own,
            own_test_samples=own_size or None,
            samples_seen=part.samples_seen(place),
            steps=place.step,
            rounds=place.round if rounds is None else rounds,
            parameters_sha256=digits,
        )
    )
    log.boundary(End)


def digits_of(flat: FlatModel) -> str:
    """The first digits of SHA-256 of all parameters."""
    found = hashlib.sha256()
    for part in flat.parts:
        found.update(part.parameters.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    return found.hexdigest()[:DIGITS]


@dataclass(frozen=True)
class Trainer:
    """A worker's training steps."""

    part: Part
    worker: Worker
    prepared: Preparation
    pace: Pace
    called: nn.Module
    """The prepared model, or its wrapper that splits batches over several GPUs."""
    faults: FaultPoints

    def run_epoch(self, place: Place, batches: Iterator[Batch]) -> Place:
        """The new place."""
        spec, device, objective = self.part.spec, self.worker.device, self.worker.objective
        clock = CpuClock(of_threads=not spec.virtual)
        limits = {} if spec.virtual else spec.host_limits
        cpu_pace = CpuPace(limits.get(self.worker.rank, 1.0))
        for turn in self.pace.turns(place):
            pending, due = place.pending + 1, turn.due
            self.faults.at_step(place.step + 1)
            cpu_before = clock.read()
            cpu_pace.begin()
            started = device.mark()
            inputs, labels = (tensor.to(device.torch_device) for tensor in next(batches))
            fed = device.mark()
            if due:
                self.prepared.exchanger.begin_round(spec.rounds_before + place.round, pending)
                self.faults.begin_exchange(place.round + 1)
            self.worker.optimizer.lr = learning_rate(spec, spec.steps_before + turn.at)
            with _exchange_in_backward(self.prepared.model, due):
                outputs = self.called(inputs)
                loss = objective.mean(outputs, labels)
                (loss if turn.samples else 0.0 * loss).backward()
            loss = loss.detach()
            computed, exchanged = self._exchange_and_update(due, cpu_pace)
            if due:
                self.faults.end_exchange()
            done = device.mark()
            done_t = now()
            cpu = clock.read().since(cpu_before)
            seconds = device.seconds
            compute_s = seconds(fed, computed) + seconds(exchanged, done)
            hidden = self.prepared.hides_exchange or self.called is not self.prepared.model
            place = replace(
                place,
                done=place.done + 1,
                step=place.step + 1,
                round=place.round + (due and spec.rounds_per_epoch > 0),
                pending=0 if due else pending,
            )
            self.worker.log.write(
                Step(
                    epoch=place.epoch,
                    step=place.step,
                    of_all=turn.of_all,
                    loss=round(float(loss), 6),
                    correct=objective.correct(outputs, labels) if turn.samples else 0,
                    step_s=round(seconds(started, done), 6),
                    data_s=round(seconds(started, fed), 6),
                    compute_s=None if hidden else round(compute_s, 6),
                    exchange_s=None if hidden else round(seconds(computed, exchanged), 6),
                    ready_t=round(done_t - seconds(computed, done), 4)
                    if due and not hidden
                    else None,
                    samples=None if turn.samples == spec.batch_size else turn.samples,
                    paced_s=round(cpu_pace.reset(), 6),
                    **asdict(cpu),
                )
            )
            # after its event: a step that counts has been told
            self.part.commit(place, () if turn.of_all is None else (turn.of_all,))
        clock.close()
        return place

    def _exchange_and_update(self, due: bool, cpu_pace: CpuPace) -> tuple[Mark, Mark]:
        """Exchange where a round is due, and update; marks before and after the exchange."""
        device = self.worker.device
        if self.part.spec.average == "parameters":
            self.worker.optimizer.step()
            cpu_pace.wait()
            computed = device.mark()
            if due:
                self.prepared.exchanger.finish_round()
            elif self.prepared.after_local_step is not None:
                self.prepared.after_local_step()
            return computed, device.mark()
        cpu_pace.wait()
        computed = device.mark()
        if not due:
            return computed, computed
        self.prepared.exchanger.finish_round()
        exchanged = device.mark()
        cpu_pace.begin()
        self.prepared.update()
        cpu_pace.wait()
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
