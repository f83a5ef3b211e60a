"""Lossy codecs of --compress: one file each, encode(tensor) -> bytes and decode.

A codec turns a float32 tensor into a uint8 tensor of exactly `encoded_bytes` bytes
(cluster/spec/exchange/codecs.py) and back, the same on every worker. How encoded tensors are
exchanged, and what is done about the loss, is in workloads/comm/encoded_exchange.py.
"""

import functools

from cluster.spec.exchange.codecs import QUANTISED_BITS, parse_codec
from workloads.comm.codecs import int4, int8, sign, topk, two_bit
from workloads.comm.codecs.packing import TensorCodec

QUANTISERS = {
    "int8": TensorCodec(int8.encode, int8.decode),
    "int4": TensorCodec(int4.encode, int4.decode),
    "2bit": TensorCodec(two_bit.encode, two_bit.decode),
    "sign": TensorCodec(sign.encode, sign.decode),
}
assert QUANTISERS.keys() == QUANTISED_BITS.keys()


def open_codec(text: str) -> TensorCodec:
    """The codec that --compress names, of those whose encoded tensors cannot be added up."""
    codec = parse_codec(text)
    if codec.name in QUANTISERS:
        return QUANTISERS[codec.name]
    assert codec.name == "topk", codec
    assert codec.share is not None
    values = QUANTISERS[codec.values] if codec.values else topk.AS_FLOATS
    return TensorCodec(
        functools.partial(topk.encode, share=codec.share, values=values),
        functools.partial(topk.decode, share=codec.share, values=values),
    )
