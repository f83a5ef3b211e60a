"""The shortest all-reduce that any schedule could have on given links: a linear program. Pure.

Every node i has M bytes, a link that sends at most u_i and receives at most d_i bytes per second,
and wants the sum of all N. Look at one byte of the result. Call root the first node that holds its
sum. Before that, each of the other N-1 nodes has sent its part at least once, and those messages
were received somewhere; afterwards each of the others receives the sum at least once, and somebody
sent it. Let s_i be the share of the bytes whose root is i, a_i how often i receives parts, b_i how
often i sends sums (per byte of M, in the mean). Then T is at least the solution of

    minimise T
    M (1 - s_i + b_i)  <=  u_i T      what i sends: its own part unless it is the root, and sums
    M (1 - s_i + a_i)  <=  d_i T      what i receives: the sum unless it is the root, and parts
    a_i >= s_i,   b_i >= s_i          a root receives a part and sends the sum at least once
    sum s_i = 1,  sum a_i = sum b_i = N - 1

No schedule is shorter. In the limit of many small pieces it is also reached: any such s, a, b is a
mixture of trees (for each piece a root, and a tree whose degrees are the a_i and b_i), which work
at the same time. Left out are latency, costs of the host, and the network between the links, which
is taken to be free of bottlenecks. Solved by HiGHS (scipy).

    equal links         2(N-1)/N M / rate, which a ring reaches
    one slow node       the longer of M / its rate and 2(N-1) M / the sum of all rates: it sends its
                        part and receives the sum, and the others do the rest
"""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import block_array, csr_array, diags_array, identity


def all_reduce_bound_s(model_bytes: float, up: Sequence[float], down: Sequence[float]) -> float:
    """Seconds; rates are payload bytes per second, and may be infinite."""
    nodes, scale = len(up), min(*up, *down)
    if nodes < 2 or not model_bytes or np.isinf(scale):
        return 0.0
    # columns: s, a, b, and T in units of M / scale
    own, other = identity(nodes), csr_array((nodes, nodes))
    sent, received = (diags_array(scale / np.array(rates)) for rates in (up, down))
    time, no_time = csr_array(-np.ones((nodes, 1))), csr_array((nodes, 1))
    rows = block_array(
        [
            [-sent, other, sent, time],
            [-received, received, other, time],
            [own, -own, other, no_time],
            [own, other, -own, no_time],
        ]
    )
    limits = np.concatenate([-sent.diagonal(), -received.diagonal(), np.zeros(2 * nodes)])
    sums = csr_array(np.hstack([np.kron(np.eye(3), np.ones(nodes)), np.zeros((3, 1))]))
    goal = np.append(np.zeros(3 * nodes), 1.0)
    totals = [1, nodes - 1, nodes - 1]
    found = linprog(  # type: ignore[call-overload]  # takes sparse arrays, too
        goal, A_ub=rows, b_ub=limits, A_eq=sums, b_eq=totals, method="highs"
    )
    if not found.success:
        raise ArithmeticError(f"the linear program of the lower bound: {found.message}")
    return float(found.fun) * model_bytes / scale
