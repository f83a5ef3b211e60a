"""hierarchical: an all-reduce in two levels, inside sites and between them (--sites).

Bytes sent per worker and round: 2(N-1)/N M, as with a ring, where all S sites have as many workers.
Only 2(S-1)/S M leave a site, by all of its workers' links at once, and few messages wait for each
other between sites (cluster/spec/schedules/hierarchical.py has the pieces and their owners).
"""

from torch import Tensor

from cluster.spec.schedules.hierarchical import owners, pieces_of
from workloads.comm.messages import reused_buffer, sendrecv
from workloads.comm.ring import ring_average
from workloads.comm.round import Round


def exchange(flat: Tensor, round: Round) -> None:
    spec, rank = round.experiment, round.rank
    if spec.workers == 1:
        return
    sites = list(spec.site_members.values())
    members = next(site for site in sites if rank in site)
    others = [member for member in members if member != rank]
    owned_by, own = owners(sites), pieces_of(sites)
    pieces = flat.tensor_split(len(owned_by))
    starts = [0, *(piece.numel() for piece in pieces)]
    for at in range(len(pieces)):
        starts[at + 1] += starts[at]
    blocks = {m: flat[starts[own[m].start] : starts[own[m].stop]] for m in members}

    memory = reused_buffer("hierarchical", flat.numel() * len(members), flat.dtype, flat.device)
    inbox = memory.split(flat.numel()) if flat.numel() else [memory] * len(members)
    received = [inbox[at][: blocks[rank].numel()] for at in range(len(others))]
    sendrecv(((blocks[m], m) for m in others), zip(received, others, strict=True))
    for addend in received:
        blocks[rank].add_(addend)
    for piece in own[rank]:
        ring_average(pieces[piece], owned_by[piece], rank, round.divisor)
    sendrecv(((blocks[rank], m) for m in others), ((blocks[m], m) for m in others))
