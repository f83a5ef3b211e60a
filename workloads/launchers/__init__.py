"""Launchers on the nodes: each provides the Peers of workloads/comm/peers.py."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from cluster.spec.experiment import Experiment
from cluster.spec.launchers import LAUNCHERS

VIRTUAL_PEERS = "workloads.virtual.peers"

if TYPE_CHECKING:
    from workloads.comm.peers import Peers


def join(spec: Experiment, rank: int, model_bytes: int) -> Peers:
    """Connect to the other nodes through the run's launcher."""
    name = VIRTUAL_PEERS if spec.virtual else LAUNCHERS[spec.launcher].peers
    module = importlib.import_module(name)
    peers: Peers = module.join(spec, rank, model_bytes)
    return peers
