"""Watch a run until all nodes have ended, or find the node that failed first and why."""

import signal
import time
from collections.abc import Callable, Mapping, Sequence

from cluster.engine import Cluster
from cluster.observe.node_watch import POLL_S, NodeWatch, RunFailed
from cluster.observe.progress import Progress
from cluster.spec.documents.event_reader import most_bytes
from cluster.spec.documents.events import Failure, Hello, Notice
from cluster.spec.documents.links import MeasuredLink
from cluster.spec.documents.node_files import plain_text
from cluster.spec.documents.run_folder import RunFolder
from cluster.spec.experiment import Experiment
from cluster.spec.quantities import write_memory

GRACE_S = 3.0
"""After a node failed, how long the others have to report what they saw."""
FOLDER_REMOVED = "its run folder was removed while the session ran: nothing of it is kept"
SIGNALS = {128 + number for number in signal.Signals}
"""Exit codes of processes that a signal ended."""


def watch_run(
    experiment: Experiment,
    folder: RunFolder,
    cluster: Cluster,
    progress: Progress,
    warn_of_burst: Callable[[Sequence[MeasuredLink], int], None],
) -> None:
    """Until every node has ended its run; RunFailed when one cannot.

    `warn_of_burst` is called with the links and the model's bytes as soon as a worker reports them.
    """
    names = experiment.all_names
    writers = {rank: name for rank, name in enumerate(names) if name in experiment.event_writers}
    files = {rank: folder.events_of(name) for rank, name in writers.items()}
    nodes = NodeWatch(files, GRACE_S, most_bytes(experiment))
    while True:
        for rank, event in nodes.read():
            progress.event(rank, event)
            if isinstance(event, Hello) and rank == 0:
                warn_of_burst(cluster.links, event.model_bytes)
            elif isinstance(event, Notice):
                progress.say(f"  {names[rank]}: {plain_text(event.text)}")
        if not nodes.remaining:
            return
        if not folder.events(0).parent.is_dir():
            raise RunFailed(FOLDER_REMOVED)
        exits = cluster.exited()
        if nodes.is_overdue(bool(exits)):
            rank, cause = find_cause(exits, nodes.failures, cluster, experiment)
            raise RunFailed(f"{names[rank]} {cause}; see {folder.log_of(names[rank])}")
        progress.tick()
        time.sleep(POLL_S)


def find_cause(
    exits: Mapping[int, int],
    failures: Mapping[int, Failure],
    cluster: Cluster,
    experiment: Experiment,
) -> tuple[int, str]:
    """The rank that failed first and why: one that was killed, else the first that reported.

    When a node dies its peers report a closed connection; they are not the cause.
    """
    killed = sorted(rank for rank, code in exits.items() if code in SIGNALS)
    silent = sorted(set(exits) - set(failures))  # ended without a report: not because of another
    if starved := sorted(cluster.out_of_memory()):
        rank = starved[0]
        cause = "ran out of memory"
        if rank < experiment.nodes and experiment.memory_per_node is not None:
            limit = write_memory(experiment.memory_per_node)
            cause += f": the kernel ended it at its limit of {limit}; raise --total-memory"
    elif killed:
        rank = killed[0]
        name = signal.Signals(exits[rank] - 128).name
        hint = " (out of memory?)" if name == "SIGKILL" else ""
        cause = f"was ended by {name}{hint}"
    elif silent:
        rank = silent[0]
        words = cluster.exit_details(rank).strip().splitlines()
        cause = f"ended with code {exits[rank]}" + (f": {words[-1]}" if words else "")
    else:
        rank = min(failures, key=lambda rank: failures[rank].t)
        cause = failures[rank].message
    return rank, cause
