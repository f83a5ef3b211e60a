"""single: one worker, no exchange. Bytes sent: 0. The baseline of every comparison."""

from torch import Tensor

from workloads.comm.round import Round


def exchange(flat: Tensor, round: Round) -> None:
    """No-op: a single worker has nobody to exchange with."""
