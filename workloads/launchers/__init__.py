"""Launchers on the nodes: each provides the Peers of workloads/comm/peers.py."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from cluster.spec.experiment import Experiment
from cluster.spec.launchers import LAUNCHERS

if TYPE_CHECKING:
    from workloads.comm.peers import Peers


def join(spec: Experiment, rank: int, model_bytes: int) -> Peers:
    """Connect to the other nodes through the run's launcher."""
    module = importlib.import_module(LAUNCHERS[spec.launcher].peers)
    peers: Peers = module.join(spec, rank, model_bytes)
    return peers
