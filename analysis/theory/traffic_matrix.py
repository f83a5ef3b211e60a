"""The traffic matrix: bytes from node i to node j in a round, from the message schedule. Pure.

Rows send, columns receive: row sums are the bytes that a rank sends, column sums what it receives.
"""

from collections import Counter
from collections.abc import Iterator

from cluster.spec.exchange.strategies import facts_of, messages
from cluster.spec.schedules.messages import Amount, Messages, Setting, broadcast_of_buffers
from cluster.spec.schedules.pairwise import period
from cluster.spec.schedules.recorded import RecordedSchedule

Matrix = list[list[float]]


def matrix(
    strategy: str, setting: Setting, rounds: int = 1, recorded: RecordedSchedule | None = None
) -> Matrix:
    """Mean over rounds 0 to rounds-1, by rank; a server is the last.

    `recorded` is the message schedule of a strategy of the user's own.
    """
    counted: dict[tuple[Amount, int], Counter[tuple[int, int]]] = {}
    for flows, times in _rounds(strategy, setting, rounds, recorded):
        for flow in flows:
            pairs = zip(flow.sources, flow.destinations, strict=True)
            counted.setdefault((flow.pair_bytes, times), Counter()).update(pairs)
    nodes = setting.workers + facts_of(strategy).has_server
    found = [[0.0] * nodes for _ in range(nodes)]
    for (pair_bytes, times), counts in counted.items():
        mean = float(pair_bytes * times / rounds)
        for (source, destination), count in counts.items():
            found[source][destination] += mean * count
    return found


def _rounds(
    strategy: str, setting: Setting, rounds: int, recorded: RecordedSchedule | None
) -> Iterator[tuple[Messages, int]]:
    """Messages of rounds, and how many rounds have them."""
    if recorded is not None:
        yield from recorded.counted(rounds)
        yield broadcast_of_buffers(setting, 0), rounds
        return
    passes = setting.passes
    repeats = facts_of(strategy).repeat(setting).rounds
    if passes:  # with the same ranks; random groups never repeat
        repeats = period(setting.workers, passes, setting.resolved_schedule) or rounds
    for index in range(min(rounds, repeats)):
        yield messages(strategy, index, setting), (rounds - 1 - index) // repeats + 1
