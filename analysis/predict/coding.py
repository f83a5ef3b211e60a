"""What lossy codecs cost a worker's core in a round: encoding, error feedback, decoding. Pure.

Calls and numbers, as the exchange makes them (workloads/comm/encoded_*.py), times what a call and a
number take. That differs between codecs by a factor of three either way; the constants
are the geometric means of int8, int4, sign and topk:0.05 with 1,333 to 600,000 numbers, measured
on one core of an idle machine on 2026-11-18. Half precision and codecs that add up cost little.
"""

from typing import NamedTuple

from cluster.spec.exchange.codecs import parse_codec, takes_two_phases

ENCODE_CALL_S, ENCODE_NUMBER_S = 8e-5, 5e-9
DECODE_CALL_S, DECODE_NUMBER_S = 3e-5, 7e-10


class Calls(NamedTuple):
    """Of a worker in a round: how often it encodes or decodes all of the model, or a piece."""

    encoded: float
    """Models."""
    encodings: int
    decoded: float
    decodings: int


def calls_of(strategy: str, compress: str, workers: int) -> Calls | None:
    """Of the busiest worker; None where nothing is encoded, or what can be added up."""
    codec = parse_codec(compress)
    if codec.adds_up or (workers == 1 and strategy != "parameter-server"):
        return None
    if strategy == "parameter-server":  # its server
        return Calls(1, 1, workers + 1, workers + 1)
    if strategy == "gather-scatter":  # its root
        return Calls(2, 2, workers + 1, workers + 1)
    if strategy == "allgather" or not takes_two_phases(codec, workers):
        return Calls(1, 1, workers, workers)
    return Calls(1 + 1 / workers, workers + 1, 2, 2 * workers)


def coding_s(strategy: str, compress: str, workers: int, numbers: int) -> float:
    """CPU time of the busiest worker."""
    calls = calls_of(strategy, compress, workers)
    if calls is None:
        return 0.0
    encoding_s = calls.encodings * ENCODE_CALL_S + calls.encoded * numbers * ENCODE_NUMBER_S
    decoding_s = calls.decodings * DECODE_CALL_S + calls.decoded * numbers * DECODE_NUMBER_S
    return encoding_s + decoding_s
