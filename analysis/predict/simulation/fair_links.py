"""Max-min fair shares of links: what each message on its way gets of them. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from analysis.predict.simulation.nodes import NO_PATHS, Background, Node, Paths

DATA_ROWS = 5
"""Of what a message uses: its sender's link, its receiver's, the host, the path between their
sites, and of background traffic its own rate. Then come links that carry its acknowledgements,
which take their share but hold nothing up."""
LINE_RATE = 5e9
"""Bytes per second where nothing limits a message: memory."""
LEAST_RATE = 1e-9
"""Of a message, where all of a link is taken by others' acknowledgements."""
MOST_REMEMBERED = 10_000
"""Sets of messages whose shares are kept."""
RELATIVE = 1e-9
"""What differs by less, relative to it, is equal."""
Ends = tuple[int, int, tuple[int, int, int]]
"""Of a message: sender, receiver, and how many are like it, of the sender, of the receiver, of
all."""


class Links:
    """Max-min fair shares of links with token buckets, and of what the host copies."""

    def __init__(
        self,
        nodes: Sequence[Node],
        host: float,
        paths: Paths = NO_PATHS,
        background: Sequence[Background] = (),
    ) -> None:
        self.rate = [*(node.up for node in nodes), *(node.down for node in nodes)]
        bursts = [node.burst_bytes for node in nodes] * 2
        self.tokens = {
            link: burst
            for link, burst in enumerate(bursts)
            if burst > 0 and not math.isinf(self.rate[link])
        }
        """Of links that have a bucket."""
        self.burst = dict(self.tokens)
        self.host = host
        self.site = np.array([node.site for node in nodes])
        sites = int(self.site.max()) + 1
        self.path_rate = [math.inf, *(path.rate for path in paths.values())]
        """The first is that of messages between sites without a path."""
        self.path_number = {pair: number for number, pair in enumerate(paths, 1)}
        self.path_of = np.zeros((sites, sites), dtype=np.int64)
        for pair, number in self.path_number.items():
            self.path_of[pair] = number
        self.ack_share = np.array([node.ack_share for node in nodes])
        self.background = [(flow.source, flow.destination, (1, 1, 1)) for flow in background]
        self.own_rate = [math.inf, *(flow.rate for flow in background)]
        """Of background traffic; the first is that of messages, which have none."""
        self.used: list[float] = []
        self._found: dict[tuple[Any, ...], tuple[list[float], list[float]]] = {}
        """The same messages are on their way again and again."""

    def change(self, node: int, up: float, down: float) -> None:
        """Of a link."""
        self.rate[node], self.rate[node + len(self.rate) // 2] = up, down
        self._found.clear()

    def change_path(self, pair: tuple[int, int], rate: float) -> None:
        self.path_rate[self.path_number[pair]] = rate
        self._found.clear()

    def share(self, ends: tuple[Ends, ...]) -> list[float]:
        """Bytes per second of each message that is on its way."""
        key = ends, tuple([tokens > 0 for tokens in self.tokens.values()])
        if key not in self._found:
            if len(self._found) >= MOST_REMEMBERED:
                self._found.clear()
            rates, used = self._shares((*ends, *self.background))
            self._found[key] = rates[: len(ends)], used
        rates, self.used = self._found[key]
        return rates

    def _shares(self, ends: tuple[Ends, ...]) -> tuple[list[float], list[float]]:
        """Also what each link carries. The last messages are background traffic."""
        source = np.array([of for of, _, _ in ends], dtype=np.int64)
        destination = np.array([to for _, to, _ in ends], dtype=np.int64)
        counts = np.array([weight for _, _, weight in ends], dtype=float).reshape(-1, 3).T
        host = len(self.rate)
        own = host + 1 + len(self.path_rate)
        resources = own + len(self.own_rate)
        own_of = np.full_like(source, own)
        own_of[len(source) - len(self.background) :] += np.arange(1, len(self.own_rate))
        capacity = np.array([*self.rate, self.host, *self.path_rate, *self.own_rate])
        capacity[[link for link, tokens in self.tokens.items() if tokens > 0]] = math.inf
        half = len(self.rate) // 2
        of = np.stack(
            [
                *(source, destination + half, np.full_like(source, host)),
                host + 1 + self.path_of[self.site[source], self.site[destination]],
                own_of,
                *(destination, source + half),  # where acknowledgements go
                host + 1 + self.path_of[self.site[destination], self.site[source]],
            ]
        )
        acks = self.ack_share[destination]
        to_acks = np.vstack([acks * counts[1], acks * counts[0], acks * counts[2]])
        weights = np.vstack([counts, counts[2], np.ones(len(source)), to_acks])
        rates = np.full(len(source), math.inf)
        undecided = np.ones(len(source), dtype=bool)
        while undecided.any():
            data, count = (
                np.bincount(
                    of[:rows, undecided].ravel(), weights[:rows, undecided].ravel(), resources
                )
                for rows in (DATA_ROWS, len(of))
            )
            with np.errstate(divide="ignore", invalid="ignore"):
                fair = np.where(data > 0, capacity / count, math.inf)
            least = fair.min()
            if math.isinf(least):
                break
            tight = fair <= least * (1 + RELATIVE)
            decided = undecided & tight[of[:DATA_ROWS]].any(axis=0)
            rates[decided] = least
            np.subtract.at(capacity, of[:, decided].ravel(), least * weights[:, decided].ravel())
            capacity = np.maximum(capacity, 0.0)
            undecided &= ~decided
        shown = np.where(np.isinf(rates), LINE_RATE, rates)
        used = np.concatenate(
            [
                np.bincount(np.append(source, destination), np.tile(shown, 2) * sent, half)
                for sent, (source, destination) in (
                    (np.append(weights[0], to_acks[0]), (source, destination)),
                    (np.append(weights[1], to_acks[1]), (destination, source)),
                )
            ]
        )
        return np.maximum(shown, LEAST_RATE).tolist(), used.tolist()

    def until_empty(self) -> float:
        draining = [
            tokens / (self.used[link] - self.rate[link])
            for link, tokens in self.tokens.items()
            if tokens > 0 and self.used[link] > self.rate[link]
        ]
        return min(draining, default=math.inf)

    def pass_time(self, seconds: float) -> None:
        for link, tokens in self.tokens.items():
            left = tokens + (self.rate[link] - self.used[link]) * seconds
            burst = self.burst[link]
            self.tokens[link] = 0.0 if left < burst * RELATIVE else min(left, burst)
