"""single: one worker, no exchange. Sends 0 bytes. The baseline every course report starts from."""

from __future__ import annotations

from torch import Tensor

from workloads.strategies.round import Round


def exchange(flat: Tensor, round: Round) -> None:
    """Nobody to talk to."""
