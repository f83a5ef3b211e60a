"""local-sgd: workers train alone and average parameters every H steps (--local-steps H).

Bytes sent per worker: 2(N-1)/N M per round, hence 2(N-1)/N M/H per step. Also known as periodic
averaging or federated averaging; H = 1 averages parameters after every step.
"""

from workloads.strategies.allreduce import exchange

__all__ = ["exchange"]
