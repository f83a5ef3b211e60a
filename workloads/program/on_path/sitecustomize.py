"""Python imports this before a user's program on a node: it counts what the program cannot tell.

Bytes of connections are reported when they are closed, since the kernel forgets them then; calls
of torch's collectives and steps of its first optimizer are counted. Modules are changed when the
program imports them, a call costs a microsecond, and no result changes. Everything else of the
program is as it is elsewhere.
"""

import atexit
import faulthandler
import functools
import importlib.machinery
import importlib.util
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import gradwire_events as _events  # type: ignore[import-not-found]

CONTRIBUTED = {
    **dict.fromkeys(("all_reduce", "broadcast", "reduce", "gather", "scatter"), (0, "tensor")),
    **dict.fromkeys(("send", "isend", "recv", "irecv"), (0, "tensor")),
    "all_gather": (1, "tensor"),
    "all_gather_into_tensor": (1, "input_tensor"),
    "reduce_scatter": (1, "input_list"),
    "reduce_scatter_tensor": (1, "input"),
    "all_to_all": (1, "input_tensor_list"),
    "all_to_all_single": (1, "input"),
    "barrier": (99, ""),
}
"""Collective -> which argument is this process's own part, by place and by name."""
DDP = "all_reduce (DDP)"

_counts: dict[str, list[int]] = {}
_optimizers: list[Any] = []
"""The one whose steps count, and one that has stepped after it."""


def _count(name: str, size: int) -> None:
    entry = _counts.setdefault(name, [0, 0])
    entry[0] += 1
    entry[1] += size


def _bytes(value: Any) -> int:
    if isinstance(value, list | tuple):
        return sum(_bytes(part) for part in value)
    return int(getattr(value, "nbytes", 0))


def _counted(name: str, function: Any, place: int, keyword: str) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        own = args[place] if len(args) > place else options.get(keyword)
        _count(name, _bytes(own))
        return function(*args, **options)

    return call


def _watch_collectives(module: Any) -> None:
    for name, (place, keyword) in CONTRIBUTED.items():
        if hasattr(module, name):
            setattr(module, name, _counted(name, getattr(module, name), place, keyword))
    leave = module.destroy_process_group

    @functools.wraps(leave)
    def destroy_process_group(*args: Any, **options: Any) -> Any:
        _report_connections()
        return leave(*args, **options)

    module.destroy_process_group = destroy_process_group


def _watch_ddp(module: Any) -> None:
    """DistributedDataParallel all-reduces gradients in C++, once for every synchronized forward."""
    kind = module.DistributedDataParallel
    forward, sizes = kind.forward, dict[int, int]()

    @functools.wraps(forward)
    def counted(self: Any, *args: Any, **options: Any) -> Any:
        if self.require_backward_grad_sync and module.torch.is_grad_enabled():
            if id(self) not in sizes:
                sizes[id(self)] = sum(p.nbytes for p in self.parameters() if p.requires_grad)
            _count(DDP, sizes[id(self)])
        return forward(self, *args, **options)

    kind.forward = counted


def _watch_optimizer(module: Any) -> None:
    """Steps of one optimizer: a second that steps in turn with it would count each step again.

    One that steps twice in a row has taken over, as Horovod's from the one that it wraps.
    """

    depth = [0]

    def steps(optimizer: Any, args: Any, options: Any) -> None:
        depth[0] += 1

    def stepped(optimizer: Any, args: Any, options: Any) -> None:
        depth[0] -= 1
        if depth[0] > 0:
            return  # the step of a class below this one's, which both are told of
        if not _optimizers or _optimizers[-1] is optimizer:
            _optimizers[:] = [optimizer]
        elif _optimizers[0] is optimizer:
            del _optimizers[1:]
        else:
            _optimizers[1:] = [optimizer]
        if _optimizers == [optimizer]:
            _events.step_of_optimizer()

    module.register_optimizer_step_pre_hook(steps)
    module.register_optimizer_step_post_hook(stepped)


def _watch_sockets(module: Any) -> None:
    close = module.socket._real_close

    def _real_close(self: Any, *args: Any, **options: Any) -> Any:
        _report(self.fileno())
        return close(self, *args, **options)

    module.socket._real_close = _real_close


def _report(descriptor: int) -> None:
    import gradwire_tcp  # type: ignore[import-not-found]

    try:
        found = gradwire_tcp.read_connection(descriptor) if descriptor >= 0 else None
    except gradwire_tcp.UncountedError:
        return
    if found is not None and not found[1].startswith(("127.", "::1")):
        _events._tell(closed=found)


def _report_connections() -> None:
    for descriptor in os.listdir("/proc/self/fd"):
        _report(int(descriptor))


def _report_all() -> None:
    _report_connections()
    if _counts:
        _events._tell(operations=_counts)


WATCHED: dict[str, Callable[[Any], None]] = {
    "socket": _watch_sockets,
    "torch.distributed.distributed_c10d": _watch_collectives,
    "torch.nn.parallel.distributed": _watch_ddp,
    "torch.optim.optimizer": _watch_optimizer,
}


class _Finder:
    """Finds watched modules by the other finders, and changes them when they are loaded."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        watch = WATCHED.get(name)
        if watch is None:
            return None
        del WATCHED[name]
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            watch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _load_next() -> None:
    """The sitecustomize that would have been imported without this one."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [path for path in sys.path if os.path.abspath(path) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


if _events._path is not None:
    sys.meta_path.insert(0, _Finder())
    atexit.register(_report_all)
    faulthandler.register(signal.SIGUSR1, all_threads=True, chain=True)
_load_next()
