"""A run of virtual workers: each trains as on a node of its own, in a thread of this process.

What every worker would write alike (phases, epochs) is written once, by worker 0. Steps, shards and
results are everyone's, with the worker's rank.
"""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch.distributed as dist

from cluster.spec.documents.events import Boundary, End, Event, Hello, Result, Step, VirtualWorker
from cluster.spec.documents.node_files import NodeFiles
from cluster.spec.experiment import Experiment
from workloads import server, training
from workloads.comm.messages import group_messages
from workloads.event_log import EventLog
from workloads.part import Whole
from workloads.virtual.group import Abandoned, ThreadGroup, open_group

STACK_BYTES = 1 << 20
"""Of a thread: a thousand of the usual 8 MiB would count as memory."""


class WorkerLog(EventLog):
    """What one virtual worker adds to the log of the node."""

    def __init__(self, log: EventLog, rank: int) -> None:
        super().__init__(None, log.node)
        self._log, self._rank = log, rank

    def boundary(self, kind: type[Boundary], **values: Any) -> None:
        if self._rank == 0 and kind is not End:
            self._log.boundary(kind, **values)

    def write(self, event: Event) -> None:
        if isinstance(event, Step):  # whether threads that take turns got a core says nothing
            step = replace(event, cpu_s=None, wait_s=None, throttled_s=None, worker=self._rank)
            self._log.write(step)
        elif isinstance(event, Result):
            self._log.write(replace(event, worker=self._rank))
        elif self._rank == 0:
            self._log.write(event)
        elif isinstance(event, Hello) and event.role == "worker":
            self._log.write(VirtualWorker(worker=self._rank, labels=event.labels))


def run_virtual(spec: Experiment, data_root: Path, log: EventLog, files: NodeFiles | None) -> None:
    """The whole run; the error of the first worker that failed."""
    group = open_group(spec.nodes)
    # Without a second thread for a relay, and without chunks: nothing is on its way here.
    group_messages(True)
    threading.stack_size(STACK_BYTES)
    threads = [
        threading.Thread(
            target=_be_worker, args=(group, rank, spec, data_root, log, files), daemon=True
        )
        for rank in range(spec.nodes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if group.failure is not None:
        raise group.failure
    dist.destroy_process_group()
    log.boundary(End)


def _be_worker(
    group: ThreadGroup,
    rank: int,
    spec: Experiment,
    data_root: Path,
    log: EventLog,
    files: NodeFiles | None,
) -> None:
    own = WorkerLog(log, rank)
    try:
        with group.as_rank(rank):
            make = training.set_up if rank < spec.workers else server.set_up
            participant = make(spec, rank, data_root, own, files)
            participant.take_part(Whole(participant))
    except Abandoned:
        pass
    except BaseException:
        if group.failure is None:
            raise
