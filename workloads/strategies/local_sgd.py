"""local-sgd: workers train by themselves and average their parameters every few steps.

Sends 2(N-1)/N M per worker and round, with a round every --local-steps H: 2(N-1)/N M/H per step. Also
known as periodic or federated averaging; H = 1 averages parameters after every step.
"""

from __future__ import annotations

from workloads.strategies.allreduce import exchange

__all__ = ["exchange"]
