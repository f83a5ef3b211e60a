"""Background traffic that passed this node's interface, as the kernel counts its connections.

Payload that was acknowledged has crossed the wire once, and again where it was sent again; what
the node's own full queue drops counts as neither. A packet is a segment, since the program that
sends them keeps them apart (cluster/links/background_sender.py).
"""

from cluster.spec.background import PORT
from cluster.spec.documents.records import HEADER_BYTES, Counters, total
from workloads.counters.sockets import Ends, read_infos

ACKNOWLEDGED, RECEIVED, AGAIN = slice(120, 128), slice(128, 136), slice(208, 216)
PACKETS_OUT, PACKETS_IN = slice(136, 140), slice(140, 144)
"""Offsets of tcpi_bytes_acked, _bytes_received, _bytes_retrans, _segs_out and _segs_in in struct
tcp_info."""


def is_background(ends: Ends) -> bool:
    return PORT in (ends.local_port, ends.remote_port)


def read_background() -> Counters:
    """Of all its connections to other nodes since they were opened."""
    return total(_counters(info) for ends, info in read_infos() if is_background(ends))


def _counters(info: bytes) -> Counters:
    places = (ACKNOWLEDGED, AGAIN, RECEIVED, PACKETS_OUT, PACKETS_IN)
    sent, again, received, out, came = (int.from_bytes(info[place], "little") for place in places)
    return Counters(sent + again + HEADER_BYTES * out, out, received + HEADER_BYTES * came, came)
