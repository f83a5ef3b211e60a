"""What each pair of nodes carried, measured beside theory: how far they differ, in numbers and words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.theory.traffic_matrix import Matrix
from cluster.observe.units import bytes_text

FAR = 0.05
"""Beyond this a pair is not as theory says; below, it is the library's framing of small messages."""


@dataclass(frozen=True)
class Beside:
    """One run in training; rows send, columns receive."""

    label: str
    measured: Matrix
    """As the senders counted, without a launcher's talk."""
    predicted: Matrix
    counted: int
    """All pairs by their senders' counts, talk included."""
    differ: int
    """The most by which the sender's and the receiver's count of a pair differ."""
    payload: int
    """What the interfaces counted of the same, and its headers."""
    headers: int
    closed: int = 0
    talked: bool = False
    """Do its workers talk on while each reads its counts?"""

    @property
    def busiest(self) -> tuple[int, int]:
        return max(self._pairs(), key=lambda pair: self.measured[pair[0]][pair[1]])

    @property
    def furthest(self) -> tuple[int, int]:
        """Of the pairs that theory has send: the one whose measured bytes are furthest from it."""
        return max(
            (pair for pair in self._pairs() if self.predicted[pair[0]][pair[1]]),
            key=lambda pair: abs(self.ratio(pair) - 1),
        )

    @property
    def beside(self) -> float:
        """The most that a pair carried to which theory gives nothing, as a share of the busiest's."""
        i, j = self.busiest
        unpredicted = (self.measured[a][b] for a, b in self._pairs() if not self.predicted[a][b])
        return max(unpredicted, default=0.0) / self.measured[i][j] if self.measured[i][j] else 0.0

    def ratio(self, pair: tuple[int, int]) -> float:
        """Measured over theory."""
        i, j = pair
        return self.measured[i][j] / self.predicted[i][j]

    def _pairs(self) -> Iterator[tuple[int, int]]:
        nodes = range(len(self.measured))
        return ((i, j) for i in nodes for j in nodes if i != j)


def pair_name(pair: tuple[int, int]) -> str:
    return f"node{pair[0]} to node{pair[1]}"


def words(runs: Sequence[Beside]) -> list[str]:
    """Of those that were measured, at least one."""
    off = max(runs, key=lambda one: abs(one.ratio(one.furthest) - 1))
    far = abs(off.ratio(off.furthest) - 1)
    said = [
        f"Pairs of nodes carried what theory says to within {far:.1%}: furthest off is"
        f" {pair_name(off.furthest)} of {off.label}, {off.ratio(off.furthest):.3f} times theory."
        if far <= FAR
        else f"Not all pairs of nodes carried what theory says: {pair_name(off.furthest)} of {off.label}"
        f" {off.ratio(off.furthest):.3f} times as much. Small messages carry a library's framing, too."
    ]
    beside = max(runs, key=lambda one: one.beside)
    said.append(
        f"Where theory has nothing, a pair carried at most {beside.beside:.2%} of what the busiest pair of its run did"
        f" ({beside.label}): answers of the library, and barriers."
    )
    top = max(runs, key=lambda one: one.measured[one.busiest[0]][one.busiest[1]])
    i, j = top.busiest
    said.append(
        f"Most went from {pair_name(top.busiest)}, with {top.label}:"
        f" {bytes_text(top.measured[i][j])}, {top.measured[i][j] / top.counted:.0%} of all that was sent."
    )
    counted, payload = sum(one.counted for one in runs), sum(one.payload for one in runs)
    said.append(
        f"All pairs together are {counted / payload:.2%} of the payload that the interfaces counted in these runs, less what"
        f" TCP sent again; its packets' headers are {sum(one.headers for one in runs) / payload:.1%} more."
    )
    if quiet := [one.differ for one in runs if not one.talked]:
        said.append(
            f"Both ends of a connection counted the same to {bytes_text(max(quiet))} a pair."
        )
    if talking := [one.differ for one in runs if one.talked]:
        said.append(
            f"With Horovod the two counts of a pair differ by up to {bytes_text(max(talking))}: its workers talk on while"
            " each of them reads its own."
        )
    closed = [one for one in runs if one.closed]
    if closed:
        said.append(
            f"Connections that were closed in training are missing: {', '.join(f'{c.closed} of {c.label}' for c in closed)}."
        )
    return said
