"""Inside the sandbox: fork the workers of every case, wait for them, judge what they had.

Started by cluster/namespaces/sandbox.py with no privileges and a loopback of its own. Writes one
JSON line per number of workers to standard output: the laws that do not hold.
"""

import datetime
import faulthandler
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from cluster.spec.documents.codec import DocumentError
from cluster.spec.documents.node_files import read_piece
from cluster.spec.own_code import EXCHANGE, MESSAGES
from cluster.spec.schedules.messages import Setting
from workloads.check.cases import (
    CASES,
    COUNTED_ROUNDS,
    COUNTED_SIZE,
    ENDS,
    ITEM_BYTES,
    Case,
    Counted,
    Told,
)
from workloads.check.cases import MESSAGES as MESSAGES_LAW
from workloads.check.laws import Finding, broken_laws, values, wrong_bytes
from workloads.counters.connections import read_connections
from workloads.own.loading import OwnCodeError, describe, import_file
from workloads.own.strategy import OwnRound, WorkerRound, planned

GRACE_S = 2.0
"""For the others, when one worker has failed."""
MOST_BYTES = 1 << 24
COMPLAINTS = ("Connection closed", "Connection reset", "Broken pipe")
"""What a worker says when another has failed."""


def main(arguments: list[str]) -> int:
    """FOLDER WRITABLE FILE PATIENCE_S WORKERS..."""
    folder, writable, file, patience_s = arguments[:4]
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    for workers in map(int, arguments[4:]):
        place = Path(writable, str(workers))
        place.mkdir()
        case = Trial(Path(folder), file, workers, place, float(patience_s))
        findings = list(case.judge(case.run()))
        line = {"workers": workers, "broken": {f.law: f.text for f in findings}}
        print(json.dumps(line | {"has_messages": case.has_messages}), flush=True)
        if any(finding.law == ENDS for finding in findings):
            break  # with more workers it would wait as long again
    return 0


class Trial:
    """One number of workers."""

    def __init__(
        self, folder: Path, file: str, workers: int, place: Path, patience_s: float
    ) -> None:
        self.folder, self.file, self.workers = folder, file, workers
        self.place, self.patience_s = place, patience_s
        self.has_messages = False

    def run(self) -> list[int]:
        """Ranks of the workers that did not end in time."""
        running = {self._fork(rank): rank for rank in range(self.workers)}
        deadline = time.monotonic() + self.patience_s + GRACE_S
        while running and time.monotonic() < deadline:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child in running:
                del running[child]
                if status:  # the others may wait for it in vain
                    deadline = min(deadline, time.monotonic() + GRACE_S)
            else:
                time.sleep(0.01)
        late = sorted(running.values())
        for child in running:
            os.kill(child, signal.SIGKILL)
        for child in running:
            os.waitpid(child, 0)
        return late

    def _fork(self, rank: int) -> int:
        child = os.fork()
        if child:
            return child
        code = 1
        try:
            log = os.open(self.place / f"{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(log, stream)
            faulthandler.dump_traceback_later(self.patience_s)
            told = Worker(self, rank).work()
            Path(self.place, f"{rank}.json").write_text(json.dumps(told.to_json()))
            code = 0 if told.error is None else 1
        finally:
            sys.stdout.flush()
            os._exit(code)

    def judge(self, late: list[int]) -> Iterator[Finding]:
        told = [self._told(rank) for rank in range(self.workers)]
        failed = [(rank, worker.error) for rank, worker in enumerate(told) if worker.error]
        failed.sort(key=lambda found: any(word in found[1] for word in COMPLAINTS))
        with_workers = f"with {self.workers} worker{'s' * (self.workers > 1)}"
        is_cause = failed and not any(word in failed[0][1] for word in COMPLAINTS)
        if is_cause or (failed and not late):
            yield Finding(ENDS, f"{with_workers}, worker {failed[0][0]}: {failed[0][1]}")
            return
        if late:
            waits = "; ".join(self._waits(rank) for rank in late)
            yield Finding(ENDS, f"{with_workers} it did not end in {self.patience_s:g} s: {waits}")
            return
        self.has_messages = told[0].messages is not None
        results = [self._tensors(rank) for rank in range(self.workers)]
        yield from broken_laws(self.workers, results)
        is_counted = self.has_messages and all(worker.counted for worker in told)
        if is_counted and (text := wrong_bytes(self.workers, told)):
            yield Finding(MESSAGES_LAW, text)

    def _told(self, rank: int) -> Told:
        try:
            text = read_piece(self.place / f"{rank}.json", 0, MOST_BYTES)
            return Told.from_json(json.loads(text))
        except FileNotFoundError:
            return Told()  # it did not end
        except (ValueError, DocumentError) as error:
            return Told(error=f"ended without a result that can be read: {error}")

    def _waits(self, rank: int) -> str:
        """Where a worker that did not end was in the user's file."""
        log = read_piece(self.place / f"{rank}.log", 0, MOST_BYTES).decode(errors="replace")
        path = re.escape(str(self.folder / self.file))
        lines = re.findall(rf'File "{path}", line (\d+)', log)
        where = f" in {self.file}, line {lines[0]}" if lines else ""
        return f"worker {rank} waits{where}"

    def _tensors(self, rank: int) -> dict[Case, Tensor]:
        raw = read_piece(self.place / f"{rank}.raw", 0, MOST_BYTES)
        whole = torch.frombuffer(bytearray(raw), dtype=torch.float32)
        parts = whole.split([size for size, _ in CASES])
        return dict(zip(CASES, parts, strict=True))


class Worker:
    """One worker's exchanges: the only place where the user's code runs."""

    def __init__(self, trial: Trial, rank: int) -> None:
        self.trial, self.rank, self.workers = trial, rank, trial.workers

    def work(self) -> Told:
        folder = self.trial.folder
        try:
            module = import_file(folder, self.trial.file)
            self.exchange = getattr(module, EXCHANGE)
            dist.init_process_group(
                "gloo",
                init_method=f"file://{self.trial.place}/store",
                rank=self.rank,
                world_size=self.workers,
                timeout=datetime.timedelta(seconds=10 * self.trial.patience_s),
            )
            with open(self.trial.place / f"{self.rank}.raw", "wb") as file:
                for case in self.results():
                    file.write(case.numpy().tobytes())
            function = getattr(module, MESSAGES, None)
            messages = None
            if function is not None and self.rank == 0:
                setting = Setting(workers=self.workers, model_bytes=ITEM_BYTES * COUNTED_SIZE)
                messages = [
                    list(
                        planned(
                            function(OwnRound(k, self.workers), setting), setting, self.trial.file
                        )
                    )
                    for k in range(COUNTED_ROUNDS)
                ]
            return Told(messages=messages, counted=list(self.counted()))
        except OwnCodeError as error:
            return Told(error=str(error))
        except BaseException as error:
            return Told(error=describe(error, folder))

    def results(self) -> Iterator[Tensor]:
        """After every case; the rounds of a size share their memory."""
        memories: dict[int, dict[object, object]] = {}
        for case in CASES:
            tensor = values(self.rank, case)
            self._call(tensor, case[1], memories.setdefault(case[0], {}))
            yield tensor

    def counted(self) -> Iterator[Counted]:
        memory: dict[object, object] = {}
        for index in range(COUNTED_ROUNDS):
            tensor = values(self.rank, (COUNTED_SIZE, index))
            dist.barrier()
            before = read_connections()
            dist.barrier()
            self._call(tensor, index, memory)
            dist.barrier()
            after = read_connections()
            dist.barrier()
            if before is None or after is None:
                return
            yield Counted(before=[c.counted for c in before], after=[c.counted for c in after])

    def _call(self, tensor: Tensor, index: int, memory: dict[object, object]) -> None:
        returned = self.exchange(tensor, WorkerRound(index, self.workers, self.rank, memory))
        if returned is not None:
            raise OwnCodeError(
                f"{self.trial.file}: exchange returned {type(returned).__name__}: it must change"
                " the given tensor in place, such as tensor.copy_(mean), and return nothing"
            )
