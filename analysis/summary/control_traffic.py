"""Training traffic apart from a launcher's control traffic. Pure.

Horovod's workers negotiate which tensors are ready every millisecond, on the same connections as
the gradients. Bytes alone cannot tell the two apart, but bytes and TCP segments can: control
messages travel in short segments, one each, gradients in full ones. With S segments and P bytes of
payload in a phase, F bytes in a full segment and c bytes in a control message (measured while
nothing is exchanged),

    S = K + (P - c K) / F      so      K = (S - P/F) / (1 - c/F)

is the number of control messages, and P - c K are gradients. A message of gradients ends in a
segment that is not full, which counts as control traffic in part: at most c bytes for each.

On hosts that are not gradwire's, other programs send over the same interfaces: a raylet, an agent's
heartbeats. They have connections of their own, so what the worker's connections carried in training
is the exchange, and what the interfaces counted beyond it is control traffic.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from analysis.summary import traffic_matrix
from analysis.summary.node_log import NodeLog, Span
from cluster.spec.documents.summary import ControlTraffic


@dataclass(frozen=True)
class NodeControl:
    """One node's control traffic."""

    message_bytes: float | None
    """Payload of one message; None where that is many programs' and says nothing."""
    train_bytes: float
    """Payload of all messages in the train phase."""
    seconds: float
    """How long that phase was."""


def of_node(log: NodeLog) -> NodeControl | None:
    """None where the launcher has no control traffic, or did not come to measure it."""
    if not log.idle_spans or log.hello is None:
        return None
    segments, payload = _sent(log.idle_spans)
    if not segments:
        return NodeControl(0.0, 0.0, 0.0)
    message, full = payload / segments, log.hello.segment_bytes
    segments, payload = _sent(log.spans("train"))
    messages = (segments - payload / full) / (1 - message / full)
    train_bytes = message * min(max(messages, 0.0), segments)
    return NodeControl(message, train_bytes, sum(log.seconds("train")))


def of_other_programs(log: NodeLog, payload: int, again: int | None) -> NodeControl | None:
    """What the interfaces sent in training (`payload`) beyond the worker's own connections.

    `again` is what TCP sent again of these. None where connections were not counted or were closed.
    """
    spans = log.spans("train")
    if again is None or any(end.connections is None for span in spans for end in span):
        return None
    own = traffic_matrix.carried(spans)
    if own.closed:
        return None
    beyond = payload - sum(own.sent.values()) - again
    return NodeControl(None, max(beyond, 0), sum(log.seconds("train")))


def mean(by_node: Sequence[NodeControl | None]) -> ControlTraffic | None:
    """The mean over nodes; None where one does not know."""
    known = [control for control in by_node if control is not None]
    if not known or len(known) < len(by_node):
        return None
    sent, seconds = fmean(control.train_bytes for control in known), known[0].seconds
    messages = [c.message_bytes for c in known if c.message_bytes is not None]
    return ControlTraffic(
        message_bytes=round(fmean(messages), 1) if messages else None,
        sent_mean_bytes=round(sent, 1),
        bytes_per_s=round(sent / seconds, 1) if seconds else None,
    )


def _sent(spans: Sequence[Span]) -> tuple[int, int]:
    """Data segments and their payload, without what TCP sent again."""
    segments = payload = 0
    for start, end in spans:
        segments += (end.sent_segments or 0) - (start.sent_segments or 0)
        payload += (end.counters - start.counters).sent_payload
        payload -= (end.retransmitted_bytes or 0) - (start.retransmitted_bytes or 0)
    return segments, payload
