"""The laws of a strategy, judged from what workers had after its exchanges. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workloads.check.cases import CASES, MEAN, SAME, Case, Told

CLOSE = 1e-6
"""Relative and absolute; a sum of six float32 numbers is nearer to the exact one."""
ROUNDING = 1e-5
"""Differences up to this come from sums in another order."""
BYTES_SHARE = 0.01


def values(rank: int, case: Case) -> Tensor:
    """What a worker has before the exchange."""
    size, index = case
    generator = torch.Generator().manual_seed(1000 * rank + 10 * size + index)
    return torch.randn(size, generator=generator)


def mean_of(workers: int, case: Case) -> Tensor:
    """What every worker must have after it, in double precision."""
    return torch.stack([values(rank, case) for rank in range(workers)]).double().mean(0)


@dataclass(frozen=True)
class Finding:
    """A law that does not hold with so many workers."""

    law: str
    text: str


def broken_laws(workers: int, results: Sequence[dict[Case, Tensor]]) -> Iterator[Finding]:
    """Of the values that the workers ended with, by rank: the first case that breaks each law."""
    for law, judge in ((MEAN, _mean), (SAME, _same)):
        found = (judge(workers, case, [result[case] for result in results]) for case in CASES)
        if text := next(filter(None, found), None):
            yield Finding(law, text)


def _where(workers: int, case: Case) -> str:
    numbers = "1 number" if case[0] == 1 else f"{case[0]:,} numbers"
    return f"with {workers} worker{'s' * (workers > 1)} and {numbers}, round {case[1]}"


def _mean(workers: int, case: Case, held: Sequence[Tensor]) -> str | None:
    mean, stacked = mean_of(workers, case), torch.stack(list(held)).double()
    wrong = [rank for rank, row in enumerate(stacked) if not _close(row, mean)]
    if not wrong:
        return None
    where, names = _where(workers, case), _ranks(wrong)
    if all(_close(row, workers * mean) for row in stacked):
        return f"{where}: it leaves the sum, {workers} times the mean: divide by round.workers"
    if _close(stacked.mean(0), mean):
        return (
            f"{where}: {names} not have the mean of all; the mean over workers is kept, as by pairs"
            " or groups: train with --average parameters"
        )
    off = float((stacked - mean).abs().max())
    return f"{where}: {names} not have the mean: off by up to {off:.3g}"


def _same(workers: int, case: Case, held: Sequence[Tensor]) -> str | None:
    for rank, tensor in enumerate(held):
        differ = int((tensor != held[0]).sum() + (tensor.isnan() != held[0].isnan()).sum())
        if differ:
            by = float((tensor.double() - held[0].double()).abs().max())
            order = ": add in the same order on every worker, or send one worker's result"
            return (
                f"{_where(workers, case)}: workers 0 and {rank} differ in {differ:,} of them, by up"
                f" to {by:.2g}{order if by < ROUNDING else ''}"
            )
    return None


def _close(tensor: Tensor, to: Tensor) -> bool:
    return torch.allclose(tensor, to, rtol=CLOSE, atol=CLOSE)


def _ranks(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"worker {ranks[0]} does"
    return f"workers {', '.join(map(str, ranks))} do"


def wrong_bytes(workers: int, told: Sequence[Told]) -> str | None:
    """The first pair whose bytes are not those of messages(), in one sentence."""
    planned = told[0].messages or []
    for index, messages in enumerate(planned):
        expected: Counter[tuple[int, int]] = Counter()
        for message in messages:
            expected[message.source, message.destination] += round(message.bytes)
        sent = sent_by_pair(told, index)
        busiest = max([*expected.values(), *sent.values()], default=0)
        for pair in sorted(expected | sent):
            allowed = BYTES_SHARE * max(expected[pair], busiest / 2)
            if abs(sent[pair] - expected[pair]) > allowed:
                return (
                    f"with {workers} workers, round {index}: worker {pair[0]} sent {sent[pair]:,}"
                    f" bytes to worker {pair[1]}, and messages() says {expected[pair]:,}"
                )
    return None


def sent_by_pair(told: Sequence[Told], index: int) -> Counter[tuple[int, int]]:
    """Payload from worker to worker in a round: both ends of a connection name each other."""
    owners: dict[tuple[str, str], int] = {}
    for rank, worker in enumerate(told):
        for row in worker.counted[index].after:
            owners[row.local, row.remote] = rank
    found: Counter[tuple[int, int]] = Counter()
    for rank, worker in enumerate(told):
        before = {(row.local, row.remote): row.sent_bytes for row in worker.counted[index].before}
        for row in worker.counted[index].after:
            other = owners.get((row.remote, row.local))
            if other is not None and other != rank:
                found[rank, other] += row.sent_bytes - before.get((row.local, row.remote), 0)
    return found
