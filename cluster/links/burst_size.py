"""The burst, the largest packet and the queue of a link's token bucket, in bytes. Pure.

A token bucket passes what has gathered in it (the burst) at once, and then the rate. A message no
larger than the burst never feels the link; one of M bytes takes (M - burst) / rate. The burst is
therefore small: 1 ms at the rate, at least 4 frames (12.5 kB at 100 Mbit/s). It has to cover how
late a timer of the kernel fires: a whole tick (4 ms at 250 Hz) without high-resolution timers.

The kernel hands TCP's data down in packets of up to 64 KiB. A bucket cuts packets that are larger
than its burst into frames. For two nodes at 100 Mbit/s both ways that took 0.28 of a core, without
it 0.01; and the receiver acknowledges every second frame, 2 % of a link that is full both ways. So
a node's packets are limited to half of the burst: one that needs a full bucket would lose the
tokens that arrive while it waits.

Above 300 Mbit/s cutting takes most of a core, and a busy host is late by more than 1 ms: with 1 ms,
1 Gbit/s measured 907 Mbit/s at a load of 20. There the burst is 4 ms and a largest packet of any
other node, 570 kB at 1 Gbit/s.

Measured on 2026-11-18 with other work on the machine: within 0.1 % of the rate from 10 to 200
Mbit/s; on a link that is full both ways 98.9 % of the payload that fits.

The queue holds 50 ms and one largest packet; packets beyond it are dropped. On a long way it holds
what comes during three round trips, too: after a pause TCP sends a whole window at once, and so do
all connections of a round. With one round trip three connections that share a path of 50 Mbit/s and
40 ms lost packets in every round: 706 ms instead of 520 (2026-11-19).
"""

FRAME_BYTES = 1514
"""A full Ethernet frame as the kernel counts it: 1,448 bytes of payload with TCP's options."""
LARGEST_PACKET = 64 * 1024
LARGEST_IN_FRAMES = 46 * FRAME_BYTES
"""What a bucket charges for it."""
BURST_S = 0.001
FEWEST_FRAMES = 4
FAST_BIT, FAST_BURST_S = 300_000_000, 0.004
QUEUE_S = 0.050
ROUND_TRIPS = 3
"""Of a link or path with a delay, that its queue holds beside."""


def burst_bytes(rate_bit: int, tick_s: float) -> int:
    """Bytes that a link passes at once before it throttles; `tick_s`: the timers' resolution."""
    rate = rate_bit / 8
    if rate_bit > FAST_BIT:
        return int(rate * (tick_s + FAST_BURST_S) + LARGEST_IN_FRAMES)
    return int(rate * tick_s + max(rate * BURST_S, FEWEST_FRAMES * FRAME_BYTES))


def packet_bytes(rate_bit: int, tick_s: float) -> int:
    """The largest packet that a node hands to its link: whole frames, half of the burst."""
    return min(LARGEST_PACKET, burst_bytes(rate_bit, tick_s) // 2 // FRAME_BYTES * FRAME_BYTES)


def queue_bytes(rate_bit: int, tick_s: float, delay_s: float = 0.0) -> int:
    """Bytes that may wait for the link; further packets are dropped."""
    rate = rate_bit / 8
    return int(rate * tick_s + LARGEST_PACKET + rate * (QUEUE_S + ROUND_TRIPS * 2 * delay_s))
