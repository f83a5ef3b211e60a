"""Strategies without a barrier: workers exchange with one other node, whenever it suits both.

Gloo's messages want both sides to know when. These go over TCP connections of our own instead, in
frames whose bytes are exactly known (cluster/spec/schedules/unpaced.py). What a worker does here
depends on timing, but for its samples: step k of a worker has the same batch in every run.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.spec.experiment import Experiment
    from workloads.comm.flat import FlatModel
    from workloads.unpaced.addresses import Addresses
    from workloads.unpaced.pace import UnpacedExchanger

WORKERS = {
    "async-pairwise": "workloads.unpaced.pairs",
    "async-server": "workloads.unpaced.client",
    "quorum": "workloads.unpaced.client",
}
"""Strategy -> the module whose open_exchanger() connects a worker."""


def open_exchanger(
    spec: Experiment, rank: int, flat: FlatModel, addresses: Addresses
) -> UnpacedExchanger:
    module = importlib.import_module(WORKERS[spec.strategy])
    exchanger: UnpacedExchanger = module.open_exchanger(spec, rank, flat, addresses)
    return exchanger
