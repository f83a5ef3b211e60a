"""The process that outlives generations: it forks the training process of each.

A training process that waits for a dead peer cannot be called back, so it is killed: its last
completed steps are in memory that this process shares with it (committed.py). What is to be done
follows from membership.json alone (`next_order`), which the host writes.
"""

import ctypes
import os
import select
import signal
from enum import Enum
from pathlib import Path

from cluster.spec.documents.codec import DocumentError
from cluster.spec.documents.events import Held, Phase
from cluster.spec.documents.heartbeat import BEAT_S, exit_code
from cluster.spec.documents.membership import Membership
from cluster.spec.documents.run_folder import RunFolder, read_document
from workloads.child import fork_child
from workloads.elastic.committed import Committed
from workloads.elastic.seat import Seat
from workloads.elastic.tally import READ, numbers_in
from workloads.event_log import EventLog
from workloads.heartbeat import Pulse
from workloads.part import Participant
from workloads.stacks import StackChannel
from workloads.telling import telling_failures

LOOK_S = 0.05
"""How often membership.json is looked at: a look costs some microseconds."""
PR_SET_PDEATHSIG = 1
NEVER = -1


class Order(Enum):
    NONE = "go on"
    START = "start training in the present generation"
    HOLD = "stop, and say where"
    LEAVE = "the run is over"


def next_order(membership: Membership, rank: int, started: int, told: int) -> Order:
    """`started` and `told` are the last generations in which this node began to train, and of
    which it has said where it stopped; NEVER where there is none."""
    if membership.is_over:
        return Order.LEAVE
    present = membership.present
    if told == present.number:
        return Order.NONE
    if rank not in present.members or membership.is_held:
        return Order.HOLD
    return Order.START if started < present.number else Order.NONE


def keep(folder: RunFolder, participant: Participant) -> None:
    """Until the run is over, or this node has done its part."""
    keeper = _Keeper(folder, participant)
    try:
        keeper.run()
    finally:
        keeper.kill()
        keeper.pulse.close()


class _Keeper:
    def __init__(self, folder: RunFolder, participant: Participant) -> None:
        self._participant, self._log, self._rank = participant, participant.log, participant.rank
        self._membership = _Watched(folder.membership)
        self._committed = Committed()
        self._stacks = StackChannel()
        self.pulse = Pulse(folder, self._rank, os.getpid(), self._stacks)
        self._child: int | None = None
        self._started = self._told = NEVER
        self._first_port = int(os.environ["MASTER_PORT"])

    def run(self) -> None:
        """Look at the membership often, and beat now and then."""
        code: int | None = None
        looks = 0
        while True:
            order = self._look()
            if order == Order.LEAVE:
                return
            if order != Order.NONE:
                code = None
            if looks % round(BEAT_S / LOOK_S) == 0:
                self.pulse.beat(code)
            looks += 1
            if (ended := self._await_child()) is not None:
                code = ended
                if code == 0:
                    self.pulse.beat()
                    return
                self.pulse.beat(code)  # at once: the host waits for it

    def _look(self) -> Order:
        membership = self._membership.read()
        if membership is None:
            return Order.NONE
        order = next_order(membership, self._rank, self._started, self._told)
        if order == Order.HOLD:
            self._hold(membership)
        elif order == Order.START:
            self._start(membership)
        return order

    def _hold(self, membership: Membership) -> None:
        """Stop, and say where; what a node knows that the others left behind does not count."""
        self.kill()
        if self._started != NEVER:
            _end_line(self._log)
            self._log.boundary(Phase, phase="recover")
        if self._rank not in membership.present.members:
            self._committed.clear()
        self._told = membership.present.number
        latest, before = self._committed.latest, self._committed.before
        read = numbers_in(self._committed.tensor(READ), latest.epoch) if latest else []
        self._log.write(Held(generation=self._told, latest=latest, before=before, read=read))

    def _start(self, membership: Membership) -> None:
        self.kill()
        seat = Seat(self._participant, membership, self._committed)
        self._stacks.close()
        self._stacks = StackChannel()

        def work() -> None:
            die_with_parent()
            os.environ |= seat.meet_at(self._first_port)
            with telling_failures(self._log, self._participant.spec):
                self._participant.take_part(seat)

        self._child = fork_child(work, self._stacks)
        self._started = membership.present.number
        self.pulse.follow(self._child, self._stacks, self._started)

    def _await_child(self) -> int | None:
        """For a short time; the exit code of a child that has ended."""
        if self._child is None:
            select.select([], [], [], LOOK_S)
            return None
        ended = os.pidfd_open(self._child)
        try:
            poll = select.poll()
            poll.register(ended, select.POLLIN)
            if not poll.poll(LOOK_S * 1000):
                return None
        finally:
            os.close(ended)
        code = exit_code(os.waitpid(self._child, 0)[1])
        self._child = None
        return code

    def kill(self) -> None:
        if self._child is not None:
            os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)
            self._child = None


class _Watched:
    """membership.json, read when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._membership: Membership | None = None

    def read(self) -> Membership | None:
        """None while there is none."""
        try:
            status = os.stat(self._path)
            seen = (status.st_ino, status.st_mtime_ns)
            if seen != self._seen:
                self._membership = read_document(self._path, Membership)
                self._seen = seen
        except (OSError, DocumentError):
            pass  # it is being replaced; the next look finds it
        return self._membership


def die_with_parent() -> None:
    """A training process without the process that keeps it would go on unseen."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_line(log: EventLog) -> None:
    """Remove the beginning of a line that a killed process did not end: nobody has read it."""
    if log.file is None:
        return
    path = log.file.name
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        tail = min(end, 1 << 16)
        file.seek(end - tail)
        text = file.read()
    if text and not text.endswith(b"\n"):
        os.truncate(path, end - len(text) + text.rfind(b"\n") + 1)
