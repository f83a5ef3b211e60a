"""The node's heartbeat, written beside the training process and without traffic.

The process that waits for the forked run writes it, so neither a long step nor a held GIL stops it.
It sends a probe only for a reason: the node's events have stopped, and TCP has retransmitted the
same bytes three times without an acknowledgement. A connection to a closed port of every other node
then tells who is cut off.
"""

import contextlib
import os
import select
import threading
from collections.abc import Iterator

from cluster.spec.documents.heartbeat import (
    BEAT_S,
    MOST_UNREACHABLE,
    Heartbeat,
    LinkState,
    exit_code,
)
from cluster.spec.documents.run_folder import RunFolder, node_name
from workloads.counters.interfaces import read_tcp
from workloads.counters.reachability import is_retransmitting, probe, read_link
from workloads.counters.sockets import read_node_connections
from workloads.program.processes import ask_programs, read_node
from workloads.stacks import StackChannel

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Pulse:
    """Writes the heartbeat of one run; `beat` is called every BEAT_S."""

    def __init__(self, folder: RunFolder, rank: int, process: int, stacks: StackChannel) -> None:
        """`process` is the training process."""
        self._folder, self._rank, self._process, self._stacks = folder, rank, process, stacks
        files = folder.files_of(node_name(rank)).to_write()
        self._events, self._stack_request = str(files.events), str(folder.stack_request)
        self._file = os.open(files.heartbeat, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._beats = 0
        self._generation: int | None = None
        self._is_program = folder.spec.exists() and folder.read_experiment().program is not None
        self._has_joined = self._is_asked = False
        self._has_link = read_link() == LinkState.UP
        self._events_bytes = -1
        self._timeouts: int | None = None
        self._probe: threading.Thread | None = None
        self._answers: tuple[int, list[int]] | None = None

    def follow(self, process: int, stacks: StackChannel, generation: int) -> None:
        """From now on the training process is another one, of this generation."""
        self._process, self._stacks, self._generation = process, stacks, generation

    def beat(self, exit_code: int | None = None) -> None:
        """`exit_code` is that of the training process, when it has ended."""
        self._beats += 1
        is_stopped, cpu_s = read_node() if self._is_program else read_process(self._process)
        is_unanswered = self._is_unanswered()
        if is_unanswered:
            self._start_probe()
        else:
            self._answers = None
        reached, unreachable = self._answers or (None, [])
        heartbeat = Heartbeat(
            beat=self._beats,
            is_stopped=is_stopped,
            exit_code=exit_code,
            generation=self._generation,
            cpu_s=cpu_s,
            has_joined=self._read_joined(),
            link=read_link() if self._has_link else LinkState.UP,
            is_unanswered=is_unanswered,
            reached=reached,
            unreachable=unreachable[:MOST_UNREACHABLE],
        )
        with contextlib.suppress(OSError):  # a full disk: the run's own error says more
            os.pwrite(self._file, heartbeat.record(), 0)
        if os.path.exists(self._stack_request):
            self._stacks.request(self._process)
            if self._is_program and not self._is_asked:
                self._is_asked = True
                ask_programs(self._process)

    def close(self) -> None:
        os.close(self._file)

    def _read_joined(self) -> bool | None:
        if not self._is_program:
            return None
        self._has_joined = self._has_joined or bool(read_node_connections())
        return self._has_joined

    def _is_unanswered(self) -> bool:
        """Whether the node's events have stopped, and TCP retransmits without an answer.

        While events go on, only their file's size is read.
        """
        try:
            size = os.stat(self._events).st_size
        except FileNotFoundError:
            size = 0
        if size != self._events_bytes:
            self._events_bytes, self._timeouts = size, None
            return False
        timeouts = read_tcp("TCPTimeouts")
        if self._timeouts is None:
            self._timeouts = timeouts
        return timeouts > self._timeouts and is_retransmitting()

    def _start_probe(self) -> None:
        if self._probe is None or not self._probe.is_alive():
            self._probe = threading.Thread(target=self._ask_others, daemon=True)
            self._probe.start()

    def _ask_others(self) -> None:
        others = set(range(self._folder.read_experiment().nodes)) - {self._rank}
        reached = probe({rank: node_name(rank) for rank in others})
        self._answers = len(reached), sorted(others - reached)


def wait_beating(child: int, pulse: Pulse) -> int:
    """Wait for the end of a child and beat meanwhile; its exit code, or 128 + signal."""
    ended = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        pulse.beat()
        while not poll.poll(BEAT_S * 1000):
            pulse.beat()
        code = exit_code(os.waitpid(child, 0)[1])
        pulse.beat(code)  # the host learns it from here before the node itself has ended
    finally:
        os.close(ended)
        pulse.close()
    return code


@contextlib.contextmanager
def beating(folder: RunFolder, rank: int) -> Iterator[None]:
    """Beat by a thread, where the training process is not a fork of ours (Spark's tasks)."""
    stacks = StackChannel()
    stacks.serve()
    pulse = Pulse(folder, rank, os.getpid(), stacks)
    is_over = threading.Event()

    def beat() -> None:
        pulse.beat()
        while not is_over.wait(BEAT_S):
            pulse.beat()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        pulse.close()


def read_process(process: int) -> tuple[bool, float]:
    """Whether a process is stopped, and its CPU time; not stopped and 0 where it has ended."""
    try:
        with open(f"/proc/{process}/stat", "rb", buffering=0) as file:
            stat = file.read()
    except OSError:
        return False, 0.0
    fields = stat.rpartition(b")")[2].split()
    return fields[0] in b"Tt", (int(fields[11]) + int(fields[12])) / TICKS_PER_S
