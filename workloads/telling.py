"""A node that fails says why, in one line of its event log."""

import contextlib
from collections.abc import Iterator

from cluster.spec.documents.events import Failure
from cluster.spec.experiment import Experiment
from workloads.counters import memory
from workloads.event_log import EventLog
from workloads.own.loading import describe
from workloads.program.agent import ProgramFailed


@contextlib.contextmanager
def telling_failures(log: EventLog, experiment: Experiment | None) -> Iterator[None]:
    """Write an exception to the log, and raise it again."""
    try:
        yield
    except BaseException as error:
        message = describe(error, experiment.folder if experiment is not None else None)
        if isinstance(error, ProgramFailed):
            message = str(error)
        elif experiment is not None and memory.is_out_of_memory(error):
            message = memory.explain(error, experiment)
        log.write(Failure(message=message))
        raise
