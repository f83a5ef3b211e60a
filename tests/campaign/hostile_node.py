"""What a hostile node does in place of training: one act per run, by the run's number.

It runs in the node instead of workloads.worker (tests/campaign/hostile_measure.py puts it there):
as an entry module of namespaces, and as a program of containers, hence by what is on a node alone.
"""

import os
import resource
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from cluster.spec.documents.events import Hello, Step
from workloads import worker

RANK = 1
FAILED = 7
"""The exit code after an act that the host does not notice by itself."""


def in_place_of_events(put: Callable[[Path], None]) -> None:
    """Put something else where the event log is; the node's user may be unable to."""
    own = Path(os.environ["GRADWIRE_NODE_FOLDER"], "events.jsonl")
    own.unlink()
    put(own)


def fifo() -> None:
    in_place_of_events(os.mkfifo)


def link_to_zeros() -> None:
    in_place_of_events(lambda path: path.symlink_to("/dev/zero"))


def link_to_a_host_file() -> None:
    in_place_of_events(lambda path: path.symlink_to("/etc/passwd"))


def device() -> None:
    in_place_of_events(lambda path: os.mknod(path, 0o020666, os.makedev(1, 5)))


def write_events(*pieces: bytes) -> None:
    """And stay: the host must find out by what is written."""
    with open(Path(os.environ["GRADWIRE_NODE_FOLDER"], "events.jsonl"), "ab") as file:
        for piece in pieces:
            file.write(piece)
    time.sleep(60)


def long_line() -> None:
    write_events(*[b"x" * 1_000_000] * 300)


def garbage() -> None:
    write_events(os.urandom(100_000), b"\n")


def forged() -> None:
    write_events(Hello(rank=0, node="node0", workers=2).line().encode())


def flood() -> None:
    step = Step(step_s=1, data_s=0, compute_s=1, exchange_s=0).line().encode()
    write_events(*[step * 1000] * 300)


def fork_bomb() -> None:
    """Until the limit; every child only waits."""
    children = 0
    try:
        while children < 5_000:
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            children += 1
    except OSError:
        print(f"children: {children}", file=sys.stderr, flush=True)


def sleep() -> None:
    """With a FIFO in place of events, if possible, and no end."""
    try:
        fifo()
    except OSError as error:
        print(f"no FIFO: {error}", file=sys.stderr, flush=True)
    time.sleep(600)


def attempt(what: str, act: Callable[[], object]) -> None:
    """Print what succeeded: a breach."""
    try:
        act()
    except OSError as error:
        print(f"refused: {what}: {error.strerror}", file=sys.stderr, flush=True)
    else:
        print(f"BREACH: {what}", file=sys.stderr, flush=True)


def append_to(path: Path) -> None:
    open(path, "a").close()


def connect(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def exceed_file_size() -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    with open(Path(os.environ["GRADWIRE_NODE_FOLDER"], "node.log"), "r+b") as file:
        file.truncate(limit + 1 if limit > 0 else 1 << 40)


def probe(run: Path) -> None:
    """All that a node must not be able to do."""
    own = Path(os.environ["GRADWIRE_NODE_FOLDER"])
    attempt("read shadow", lambda: open("/etc/shadow").close())
    attempt("reach Docker", lambda: connect("/var/run/docker.sock"))
    attempt("write the session", lambda: (run.parent / "x").touch())
    for path in ("events/node0.jsonl", "logs/node0.log", "model/consensus.pt", "spec.json"):
        attempt(f"write {path}", partial(append_to, run / path))
    attempt("write another's", partial(append_to, own.parent / "node0" / "events.jsonl"))
    attempt("make another's", lambda: (own.parent / "node0" / "x").touch())
    attempt("write the code", partial(append_to, Path(worker.__file__)))
    attempt("write /etc", lambda: Path("/etc/x").touch())
    attempt("write a large file", exceed_file_size)
    attempt("become root", lambda: os.setuid(0) if os.getuid() else os.chown("/tmp", 1, 1))
    attempt("make a device", lambda: os.mknod("/tmp/device", 0o020666, os.makedev(1, 5)))
    others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    strangers = [name for name in others if not _descends(name)]
    print(f"{'BREACH' if strangers else 'refused'}: see {strangers}", file=sys.stderr, flush=True)
    for home in ("/root", "/home"):
        seen = os.listdir(home) if os.access(home, os.R_OK) else []
        print(f"seen in {home}: {sorted(seen)}", file=sys.stderr, flush=True)


def _descends(process: str) -> bool:
    """A container's first process is its init, which is no stranger."""
    return process == "1"


FAILING = (
    *(fifo, link_to_zeros, link_to_a_host_file, device),
    *(long_line, garbage, forged, flood, fork_bomb),
)
"""Acts that end the run, one way or the other."""
ACTS: dict[str, Callable[[], None]] = {act.__name__: act for act in (*FAILING, sleep)}


def main() -> int:
    """The act of this run's number in GRADWIRE_HOSTILE: act,act,...; after the last, honest."""
    acts = os.environ.get("GRADWIRE_HOSTILE", "").split(",")
    run = Path(os.environ["GRADWIRE_RUNS"].splitlines()[0])
    number = int(run.name[:3])
    if int(os.environ["RANK"]) != RANK or number > len(acts):
        return worker.main()
    worker.appears(run / "spec.json")
    worker.log_to(Path(os.environ["GRADWIRE_NODE_FOLDER"], "node.log"))
    if acts[number - 1] == "probe":
        probe(run)
        return worker.main()
    ACTS[acts[number - 1]]()
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
