"""Throughput of the lossy codecs on one core, against a memory copy in the same run.

MB of float32 input per second, the best of several tries. Exchanges encode once and decode N
times the pieces of a tensor.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable

from bench.tools.session import count
from bench.tools.table import Table
from cluster.spec.exchange.codecs import parse_codec

CODECS = ("int8", "int4", "2bit", "sign", "topk:0.01")
TRIES = 7


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--elements", type=count, default=4_000_000, help="(default: %(default)s)")


def best_s(work: Callable[[], object]) -> float:
    """Of several tries after one that warms up."""
    work()
    times = []
    for _ in range(TRIES):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def run(args: argparse.Namespace) -> Table:
    import torch

    from workloads.comm.codecs import open_codec

    torch.set_num_threads(1)
    tensor = torch.randn(args.elements, generator=torch.Generator().manual_seed(1))
    megabytes = tensor.nbytes / 1e6
    copied = torch.empty_like(tensor)
    rows = [("memory copy", f"{megabytes / best_s(lambda: copied.copy_(tensor)):,.0f}", "-", "1")]
    for name in CODECS:
        codec = open_codec(name)
        encoded = codec.encode(tensor)
        encoding_s = best_s(functools.partial(codec.encode, tensor))
        decoding_s = best_s(functools.partial(codec.decode, encoded, args.elements))
        share = parse_codec(name).encoded_bytes(args.elements) / tensor.nbytes
        encoding, decoding = (f"{megabytes / s:,.0f}" for s in (encoding_s, decoding_s))
        rows.append((name, encoding, decoding, f"{share:.4f}"))
    return Table(
        f"{args.elements:,} float32 numbers, one core, MB of input per second",
        ("codec", "encode", "decode", "encoded bytes per byte"),
        rows,
    )
