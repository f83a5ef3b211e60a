"""A process group of torch.distributed whose ranks are threads of this process.

Strategies, codecs and outer optimisers call torch.distributed as they do on nodes; here a message
is a copy. One thread runs at a time (the turn), and hands over where it waits for a message: what
is computed does not depend on who runs when. Messages from one rank to another arrive in the
order in which they were sent, by tag.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import HashStore

BACKEND = "threads"
Key = tuple[int, int, int, int]
"""Of a message: source, destination, tag, number."""
REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "SUM": torch.add,
    "AVG": torch.add,
    "PRODUCT": torch.mul,
    "MAX": torch.maximum,
    "MIN": torch.minimum,
}


class Abandoned(Exception):
    """Another worker has failed: this one's messages will not come."""


class _Done(dist.Work):
    """A message that is on its way or, with `finish`, to be waited for."""

    def __init__(self, finish: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._finish = finish

    def wait(self, timeout: object = None) -> bool:
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
        return True

    def is_completed(self) -> bool:
        return self._finish is None


class _Meeting:
    """A collective: the tensors of those who have come."""

    def __init__(self) -> None:
        self.tensors: dict[int, Any] = {}
        self.is_over = False


class ThreadGroup(dist.ProcessGroup):
    """Of `size` threads, each of which runs inside `as_rank`."""

    def __init__(self, size: int) -> None:
        super().__init__(0, size)  # type: ignore[call-arg]
        self._size = size
        self._own = threading.local()
        self._turn = threading.Lock()
        self._places = [threading.Condition(self._turn) for _ in range(size)]
        self._mail: dict[Key, Tensor] = {}
        self._numbers: Counter[tuple[object, ...]] = Counter()
        self._meetings: dict[tuple[int, int], _Meeting] = {}
        self._waiting: set[int] = set()
        self._running = size
        self.failure: BaseException | None = None

    @contextmanager
    def as_rank(self, rank: int) -> Iterator[None]:
        """This thread is the rank, and it is its turn, but for while it waits for a message."""
        self._own.rank = rank
        with self._turn:
            self._own.random = torch.get_rng_state()
            try:
                yield
            except BaseException as error:
                self._fail(error)
                raise
            finally:
                self._running -= 1
                self._check_for_deadlock()

    def rank(self) -> int:
        return int(getattr(self._own, "rank", 0))

    def size(self) -> int:
        return self._size

    def getBackendName(self) -> str:
        return BACKEND

    def send(self, tensors: list[Tensor], to: int, tag: int) -> dist.Work:
        self._mail[self._numbered("sent", self.rank(), to, tag)] = tensors[0].detach().clone()
        self._wake(to)
        return _Done()

    def recv(self, tensors: list[Tensor], source: int, tag: int) -> dist.Work:
        key = self._numbered("received", source, self.rank(), tag)

        def finish() -> None:
            self._wait_until(lambda: key in self._mail)
            tensors[0].copy_(self._mail.pop(key))

        return _Done(finish)

    def allreduce(self, tensors: Any, options: Any = None) -> dist.Work:  # type: ignore[override]
        asked = dist.ReduceOp.SUM if options is None else options.reduceOp
        how = next((name for name in REDUCTIONS if asked == getattr(dist.ReduceOp, name)), "")
        if not how:
            raise ValueError(f"virtual workers reduce by {', '.join(REDUCTIONS)} alone")
        self.reduce_among(self._size, tensors[0], how)
        return _Done()

    def reduce_among(self, workers: int, tensor: Tensor, how: str = "SUM") -> None:
        """All-reduce among the first ranks."""

        def finish(tensors: list[Tensor]) -> None:
            total = reduced_as_by_a_ring(tensors, REDUCTIONS[how])
            if how == "AVG":
                total.div_(workers)
            for each in tensors:
                each.copy_(total.view_as(each))

        self._meet(workers, tensor, finish)

    def broadcast(self, tensors: Any, options: Any = None) -> dist.Work:  # type: ignore[override]
        root = 0 if options is None else options.rootRank

        def finish(found: list[Tensor]) -> None:
            for rank, tensor in enumerate(found):
                if rank != root:
                    tensor.copy_(found[root])

        self._meet(self._size, tensors[0], finish)
        return _Done()

    def broadcast_among(self, workers: int, tensor: Tensor) -> None:
        """Everyone of the first ranks takes rank 0's."""
        self._meet(workers, tensor, lambda found: [each.copy_(found[0]) for each in found[1:]])

    def allgather(self, outputs: Any, inputs: Any, options: Any = None) -> dist.Work:
        self._gather(inputs[0], outputs[0])
        return _Done()

    def all_gather_single(self, output: Tensor, own: Tensor, options: Any = None) -> dist.Work:
        self._gather(own, list(output.view(self._size, *own.shape)))
        return _Done()

    def _gather(self, own: Tensor, places: list[Tensor]) -> None:
        def finish(found: list[tuple[Tensor, list[Tensor]]]) -> None:
            for _, outputs in found:
                for output, (source, _) in zip(outputs, found, strict=True):
                    output.copy_(source)

        self._meet(self._size, (own, places), finish)

    def barrier(self, opts: Any = None) -> dist.Work:
        self._meet(self._size, None, lambda _: None)
        return _Done()

    def _numbered(self, what: str, *ends: int) -> Key:
        source, to, tag = ends
        number = self._numbers[what, *ends]
        self._numbers[what, *ends] += 1
        return source, to, tag, number

    def _meet(self, workers: int, tensor: Any, finish: Callable[[Any], object]) -> None:
        """Wait for the others; the last to come does the work for all."""
        rank = self.rank()
        number = self._numbers["meeting", workers, rank]
        self._numbers["meeting", workers, rank] += 1
        meeting = self._meetings.setdefault((workers, number), _Meeting())
        meeting.tensors[rank] = tensor
        if len(meeting.tensors) < workers:
            self._wait_until(lambda: meeting.is_over)
            return
        finish([meeting.tensors[each] for each in range(workers)])
        del self._meetings[workers, number]
        meeting.is_over = True
        for each in range(workers):
            self._wake(each)

    def _wait_until(self, ready: Callable[[], bool]) -> None:
        """Let others run; torch's random numbers are this thread's own."""
        rank = self.rank()
        if ready():
            return
        random = torch.get_rng_state()
        while not ready():
            if self.failure is not None:
                raise Abandoned
            self._waiting.add(rank)
            self._check_for_deadlock()
            if self.failure is None:
                self._places[rank].wait()
        torch.set_rng_state(random)

    def _wake(self, rank: int) -> None:
        if rank in self._waiting:
            self._waiting.discard(rank)
            self._places[rank].notify()

    def _check_for_deadlock(self) -> None:
        if self._running and len(self._waiting) == self._running and self.failure is None:
            named = ", ".join(map(str, sorted(self._waiting)[:8]))
            self._fail(
                RuntimeError(
                    f"virtual workers {named} wait for messages that nobody sends: who sends to"
                    " whom does not fit together"
                )
            )

    def _fail(self, error: BaseException) -> None:
        if self.failure is None and not isinstance(error, Abandoned):
            self.failure = error
        for rank in list(self._waiting):
            self._wake(rank)


def reduced_as_by_a_ring(
    tensors: Sequence[Tensor], reduce: Callable[..., Tensor] = torch.add
) -> Tensor:
    """With the rounding of a ring: piece j of N is summed from rank j on, round the ring."""
    stacked = torch.stack([tensor.reshape(-1) for tensor in tensors])
    workers, length = stacked.shape
    size, longer = divmod(length, workers)
    edge = longer * (size + 1)
    parts = []
    # The first pieces are one longer, as torch.tensor_split makes them.
    for first, count, part in (
        (0, longer, stacked[:, :edge]),
        (longer, workers - longer, stacked[:, edge:]),
    ):
        pieces = part.reshape(workers, count, -1) if count else part.reshape(workers, 0, 0)
        starts, places = torch.arange(first, first + count), torch.arange(count)
        total = pieces[starts, places]
        for hop in range(1, workers):
            reduce(total, pieces[(starts + hop) % workers, places], out=total)
        parts.append(total.reshape(-1))
    return torch.cat(parts)


def open_group(size: int) -> ThreadGroup:
    """The default group of torch.distributed from now on."""
    group = ThreadGroup(size)
    dist.Backend.register_backend(BACKEND, lambda *_: group, devices=["cpu"])
    dist.init_process_group(BACKEND, rank=0, world_size=size, store=HashStore())
    return group
