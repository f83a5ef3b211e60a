"""Streaming: a round exchanges a fragment of the model while the worker trains on (--stream).

A fragment is an equal piece of the flat parameters. Its outer delta is exchanged by a second
thread; the worker takes the result some steps later, so that a slow link delays it only where the
exchange takes longer than these steps. Formulas are in cluster/spec/exchange/stream.py. At the end
of an epoch nothing is in flight.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from torch import Tensor

from cluster.spec.exchange.outer import parse_outer
from cluster.spec.exchange.stream import parse_stream
from cluster.spec.experiment import Experiment
from workloads.comm.exchanger import exchange_buffers
from workloads.comm.flat import FlatModel
from workloads.comm.outer import OuterStep, encoded_exchange
from workloads.comm.peers import Peers
from workloads.comm.round import Exchange, Round, tensors_of


class Piece:
    """A fragment's parameters of one type: its anchor, and its exchange with its memory."""

    def __init__(self, exchange: Exchange, spec: Experiment, parameters: Tensor) -> None:
        outer = parse_outer(spec.outer)
        assert outer is not None
        self.parameters = parameters
        self.step = OuterStep(outer, parameters)
        self.exchange = encoded_exchange(exchange, spec, parameters)

    def tensors(self) -> dict[str, Tensor]:
        return {**self.step.tensors(), **tensors_of(self.exchange)}


class StreamExchanger:
    """Implements peers.RoundExchanger."""

    def __init__(
        self,
        flat: FlatModel,
        spec: Experiment,
        peers: Peers,
        exchange: Exchange,
        exchange_buffer: Exchange,
    ) -> None:
        stream = parse_stream(spec.stream)
        assert stream is not None
        self.flat, self.spec, self.peers, self.stream = flat, spec, peers, stream
        self._exchange_buffer = exchange_buffer
        self._fragments = [
            [Piece(exchange, spec, parameters) for parameters in of]
            for of in flat.fragments(stream.fragments)
        ]
        self._round: Round | None = None
        self._pending: tuple[Round, Future[list[Tensor]]] | None = None
        self._steps = 0
        """Made since the pending exchange began."""
        self._thread = ThreadPoolExecutor(1, "stream")

    def tensors(self) -> dict[str, Tensor]:
        pieces = {
            f"{fragment}.{part}": piece
            for fragment, of in enumerate(self._fragments)
            for part, piece in enumerate(of)
        }
        return {f"{at}.{name}": t for at, of in pieces.items() for name, t in of.tensors().items()}

    def begin_round(self, index: int, steps: int) -> None:
        """The exchange begins when finish_round is called."""
        self._round = Round(self.spec, self.peers.rank, index)

    def finish_round(self) -> None:
        self._finish_pending()
        round = self._round
        assert round is not None
        pieces = self._fragments[round.index % len(self._fragments)]
        deltas = [piece.step.delta(piece.parameters) for piece in pieces]
        self._steps = 0
        self._pending = round, self._start(pieces, deltas, round)
        is_last = (round.index + 1) % self.spec.rounds_per_epoch == 0
        if is_last or not self.stream.delay:
            self._finish_pending()

    def _start(
        self, pieces: Sequence[Piece], deltas: list[Tensor], round: Round
    ) -> Future[list[Tensor]]:
        """By the second thread; of virtual workers, each a thread that has its turn, at once."""
        if not self.spec.virtual:
            return self._thread.submit(_exchange, pieces, deltas, round)
        done: Future[list[Tensor]] = Future()
        done.set_result(_exchange(pieces, deltas, round))
        return done

    def after_local_step(self) -> None:
        self._steps += 1
        if self._steps >= self.stream.delay:
            self._finish_pending()

    def _finish_pending(self) -> None:
        """Wait for the exchange, and take its result."""
        if self._pending is None:
            return
        (round, means), self._pending = self._pending, None
        kept, pieces = self.stream.kept, self._fragments[round.index % len(self._fragments)]
        for piece, mean in zip(pieces, means.result(), strict=True):
            anchor = piece.step.take(mean)
            if kept:
                piece.parameters.lerp_(anchor, 1 - kept)
            else:
                piece.parameters.copy_(anchor)
        exchange_buffers(self.flat, round, self.peers, self._exchange_buffer)


def _exchange(pieces: Sequence[Piece], deltas: list[Tensor], round: Round) -> list[Tensor]:
    """The deltas become their mean."""
    for part, (piece, delta) in enumerate(zip(pieces, deltas, strict=True)):
        piece.exchange(delta, replace(round, part=part))
    return deltas
