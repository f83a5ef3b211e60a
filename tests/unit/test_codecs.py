"""Laws of lossy codecs, error feedback and the outer optimiser."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

from analysis.theory.predicted_bytes import predict
from cluster.spec.errors import SpecError
from cluster.spec.exchange.codecs import CHUNK, factors, parse_codec
from cluster.spec.experiment import Experiment
from cluster.spec.schedules.messages import Setting
from tests.loopback import on_workers
from workloads.comm.codecs import open_codec, randk, topk
from workloads.comm.codecs.powersgd import PowerIteration
from workloads.comm.encoded_exchange import Feedback, RandomlyChosen, SomeAveraged
from workloads.comm.encoded_server import PulledChanges
from workloads.comm.outer import stateful_exchange
from workloads.comm.round import Round
from workloads.strategies import STRATEGIES

CODECS = (
    *("int8", "int4", "2bit", "sign"),
    *("topk:0.01", "topk:0.3", "topk:1", "topk:0.1:2bit", "topk:0.2:int8"),
)
SIZES = (0, 1, 2, 7, 255, 256, 257, 4096, 4097, 21_841)
ROUNDS = 3
HERE = "tests.unit.test_codecs"


def values(rank: int, size: int, index: int = 0) -> Tensor:
    seeded = torch.Generator().manual_seed(1000 * rank + 10 * size + index)
    return torch.randn(size, generator=seeded)


def plainly_decoded(codec: str, x: Tensor) -> Tensor:
    """Chunk by chunk, number by number where that is short, in double precision."""
    name, _, share = codec.partition(":")
    share, _, quantiser = share.partition(":")
    if quantiser:
        return _plainly_quantised(f"topk:{share}", quantiser, x)
    chunks = x.double().split(4096 if share else 256)
    return torch.cat([_plain_chunk(name, share, chunk) for chunk in chunks])


def _plainly_quantised(codec: str, quantiser: str, x: Tensor) -> Tensor:
    """The values that top-k keeps, in the order in which it sends them, then quantised."""
    decoded = plainly_decoded(codec, x)
    chunks = [at + torch.zeros(int(c.count_nonzero())) for at, c in enumerate(decoded.split(4096))]
    starts = 4096 * torch.cat(chunks).long()
    codes = open_codec(codec).encode(x)[4 * len(starts) :]
    places = topk.unpack_places(codes, len(starts)) + starts
    assert torch.equal(places.sort().values, decoded.nonzero().flatten())
    return decoded.index_copy(0, places, plainly_decoded(quantiser, x[places]))


def _plain_chunk(name: str, share: str, x: Tensor) -> Tensor:
    if not len(x):
        return x
    if share:
        kept = x.abs().argsort(descending=True)[: max(1, round(float(share) * len(x)))]
        return torch.zeros_like(x).index_copy(0, kept, x[kept])
    if name == "sign":
        return torch.where(x >= 0, 1.0, -1.0).double() * x.abs().mean()
    if name == "2bit":
        large = x.abs() >= 0.9816 * x.square().mean().sqrt()
        levels = torch.where(large, 1.510, 0.4528).double() * torch.where(x >= 0, 1.0, -1.0)
        return levels * (x @ levels) / (levels @ levels)
    scale = x.abs().max() / {"int8": 127, "int4": 7}[name]
    return (x / scale).round() * scale


@pytest.mark.parametrize("codec", CODECS)
def test_a_decoded_tensor_is_the_plain_one_from_exactly_the_stated_bytes(codec: str) -> None:
    for size in SIZES:
        x = values(0, size)
        encoded = open_codec(codec).encode(x)
        assert encoded.dtype == torch.uint8
        assert encoded.numel() == parse_codec(codec).encoded_bytes(size)
        decoded = open_codec(codec).decode(encoded, size)
        assert torch.allclose(decoded.double(), plainly_decoded(codec, x), rtol=1e-4, atol=1e-5)
        assert torch.equal(encoded, open_codec(codec).encode(x))


@pytest.mark.parametrize("codec", CODECS)
def test_the_error_is_never_longer_than_the_tensor(codec: str) -> None:
    spike = torch.zeros(300)
    spike[5] = -3e30
    for x in (spike, torch.zeros(300), values(0, 300), values(1, 300) * 1e-30):
        decoded = open_codec(codec).decode(open_codec(codec).encode(x), 300).double()
        assert float((x.double() - decoded).norm()) <= 1.00001 * float(x.double().norm())


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_not_finite_are_refused(codec: str, bad: float) -> None:
    x = values(0, 5000)
    x[4097] = bad
    with pytest.raises(ValueError, match="not finite"):
        open_codec(codec).encode(x)


@pytest.mark.parametrize("codec", CODECS)
def test_what_was_sent_and_the_residual_are_the_input(codec: str) -> None:
    state = Feedback(codec, 1.0, torch.zeros(1000))
    given, sent = torch.zeros(1000), torch.zeros(1000)
    for index in range(20):
        x = values(0, 1000, index)
        given += x
        sent = sent + state.decode(state.encode(x), 1000)
    assert torch.allclose(sent + state.residual, given, rtol=0, atol=1e-4)


def _experiment(workers: int, **options: Any) -> Experiment:
    return Experiment(workers=workers, train_size=60_000, **options)


def exchanged(rank: int, workers: int) -> dict[tuple[str, int], list[Tensor]]:
    """Of several rounds, so that residuals count."""
    found: dict[tuple[str, int], list[Tensor]] = {}
    for codec in CODECS:
        spec = _experiment(workers, compress=codec, error_feedback=0.9)
        for size in (1, 7, 5001):
            exchange = stateful_exchange(STRATEGIES["allreduce"].exchange, spec, torch.zeros(size))
            found[codec, size] = rounds = []
            for index in range(ROUNDS):
                flat = values(rank, size, index)
                exchange(flat, Round(spec, rank, index))
                rounds.append(flat)
    return found


def _feedback(codec: str, like: Tensor) -> Feedback:
    return Feedback(codec, 0.9, torch.zeros_like(like))


def plainly_exchanged(codec: str, workers: int, size: int) -> list[Tensor]:
    """By one process: a state for each sender and piece, and one for each owner."""
    if workers == 1:
        return [values(0, size, index) for index in range(ROUNDS)]
    parts = 1 if workers == 2 else workers
    zeros = torch.tensor_split(torch.zeros(size), parts)
    senders = [[_feedback(codec, zero) for zero in zeros] for _ in range(workers)]
    owners = [_feedback(codec, zero) for zero in zeros]
    results = []
    for index in range(ROUNDS):
        pieces = []
        for part, zero in enumerate(zeros):
            sent = []
            for rank in range(workers):
                piece = torch.tensor_split(values(rank, size, index), parts)[part]
                state = senders[rank][part]
                sent.append(state.decode(state.encode(piece), len(zero)))
            mean = torch.stack(sent).double().mean(0).float()
            owner = owners[part]
            pieces.append(mean if parts == 1 else owner.decode(owner.encode(mean), len(zero)))
        results.append(torch.cat(pieces))
    return results


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 5, 6])
def test_an_encoded_exchange_is_the_plain_one_in_equal_bits(workers: int, tmp_path: Path) -> None:
    found = on_workers(f"{HERE}:exchanged", workers, tmp_path)
    for (codec, size), rounds in found[0].items():
        plain = plainly_exchanged(codec, workers, size)
        for index in range(ROUNDS):
            assert all(torch.equal(rounds[index], each[codec, size][index]) for each in found)
            # The last bit of a mean may move a number to the next level, as far as its codec errs.
            close = torch.isclose(rounds[index], plain[index], rtol=1e-4, atol=1e-5)
            assert close.float().mean() > 0.99, (codec, size, index)


@pytest.mark.parametrize("share", [0.001, 0.05, 1 / 3, 1.0])
def test_random_places_are_as_many_as_counted_and_the_same_everywhere(share: float) -> None:
    often = torch.zeros(1000)
    for size in SIZES:
        found = [randk.places(size, share, (1, 2, 0), torch.device("cpu")) for _ in range(2)]
        assert torch.equal(*found)
        assert 4 * len(found[0]) == parse_codec(f"randk:{share}").encoded_bytes(size)
        assert len(found[0].unique()) == len(found[0])
        assert all(0 <= place < size for place in found[0].tolist())
    for index in range(3000):
        often[randk.places(1000, share, (1, index, 0), torch.device("cpu"))] += 1
    expected = 3000 * max(1, round(1000 * share)) / 1000
    assert float((often - expected).abs().max()) <= 6 * expected**0.5 + 1e-6


def carried(rank: int, workers: int) -> dict[tuple[str, str], list[Tensor]]:
    """By every strategy that carries a codec, several rounds."""
    found: dict[tuple[str, str], list[Tensor]] = {}
    for codec in CARRIED:
        for strategy in parse_codec(codec).carriers:
            if strategy in ("local-sgd", "ddp", "pairwise", "parameter-server"):
                continue
            sites = f"a:{workers - 1},b:1" if strategy == "hierarchical" else None
            options = {"error_feedback": 0.9, "strategy": strategy, "sites": sites}
            spec = _experiment(workers, compress=codec, **options)
            exchange = stateful_exchange(STRATEGIES[strategy].exchange, spec, torch.zeros(501))
            found[strategy, codec] = rounds = []
            for index in range(ROUNDS):
                flat = values(rank, 501, index)
                exchange(flat, Round(spec, rank, index))
                rounds.append(flat)
    return found


CARRIED = ("int8", "topk:0.3", "randk:0.2")


def plainly_carried(strategy: str, codec: str, workers: int) -> list[Tensor]:
    """By one process. The root of a star encodes the mean once more."""
    senders = [torch.zeros(501) for _ in range(workers)]
    root = torch.zeros(501)

    def encoded(tensor: Tensor, index: int) -> Tensor:
        if codec.startswith("randk"):
            places = randk.places(501, 0.2, (1, index, 0), torch.device("cpu"))
            return torch.zeros(501).index_copy(0, places, tensor[places])
        return open_codec(codec).decode(open_codec(codec).encode(tensor), 501)

    results = []
    for index in range(ROUNDS):
        sent = []
        for rank in range(workers):
            whole = values(rank, 501, index) + 0.9 * senders[rank]
            sent.append(encoded(whole, index))
            senders[rank] = whole - sent[-1]
        mean = torch.stack(sent).mean(0)
        if strategy == "gather-scatter" and not codec.startswith("randk"):
            whole = mean + 0.9 * root
            mean = encoded(whole, index)
            root = whole - mean
        results.append(mean)
    return results


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_every_carrier_leaves_the_plain_mean_in_equal_bits(workers: int, tmp_path: Path) -> None:
    found = on_workers(f"{HERE}:carried", workers, tmp_path)
    assert len(found[0]) == 3 + 3 + 7
    for (strategy, codec), rounds in found[0].items():
        two_phases = strategy == "allreduce" and workers > 2 and not codec.startswith("randk")
        for index in range(ROUNDS):
            assert all(torch.equal(rounds[index], each[strategy, codec][index]) for each in found)
            if not two_phases:
                plain = plainly_carried(strategy, codec, workers)[index]
                close = torch.isclose(rounds[index], plain, rtol=1e-3, atol=1e-4)
                assert close.float().mean() > 0.99, (strategy, codec, index)


def served(rank: int, nodes: int) -> dict[str, list[Tensor]]:
    """A worker's copies of the parameters after each round, and the server's own; the last rank is
    the server, whose model moves by a tenth of the mean gradient."""
    workers, found = nodes - 1, dict[str, list[Tensor]]()
    for codec in CODECS:
        spec = _experiment(workers, strategy="parameter-server", compress=codec, error_feedback=0.9)
        exchange = stateful_exchange(
            STRATEGIES["parameter-server"].exchange, spec, torch.zeros(501)
        )
        own = values(9, 501)
        pulled = PulledChanges(codec, [own])

        def update(_where: slice, mean: Tensor, own: Tensor = own) -> Tensor:
            return own.sub_(0.1 * mean)

        found[codec] = rounds = []
        for index in range(ROUNDS):
            if rank == workers:
                pulled.serve(0, Round(spec, rank, index), update)
                rounds.append(pulled.tensors()["0.copies"].clone())
                continue
            flat = values(rank, 501, index)
            exchange(flat, Round(spec, rank, index))
            rounds.append(own.add_(flat).clone())
        rounds.append(own)
    return found


def plainly_served(codec: str, workers: int) -> list[Tensor]:
    """By one process: the copies after each round, then the server's model."""
    senders = [_feedback(codec, torch.zeros(501)) for _ in range(workers)]
    model, copies, results = values(9, 501), values(9, 501), []
    for index in range(ROUNDS):
        sent = [state.encode(values(rank, 501, index)) for rank, state in enumerate(senders)]
        decoded = [open_codec(codec).decode(codes, 501) for codes in sent]
        model = model - 0.1 * torch.stack(decoded).mean(0)
        change = open_codec(codec).encode(model - copies)
        copies = copies + open_codec(codec).decode(change, 501)
        results.append(copies)
    return [*results, model]


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_of_a_server_have_equal_copies_and_it_forgets_nothing(
    workers: int, tmp_path: Path
) -> None:
    *found, server = on_workers(f"{HERE}:served", workers + 1, tmp_path)
    for codec in CODECS:
        *plain, model = plainly_served(codec, workers)
        *copies, own = server[codec]
        for index in range(ROUNDS):
            assert all(torch.equal(copies[index], each[codec][index]) for each in found)
            close = torch.isclose(copies[index], plain[index], rtol=1e-4, atol=1e-5)
            assert close.float().mean() > 0.99, (codec, index)
        assert torch.isclose(own, model, rtol=1e-4, atol=1e-5).float().mean() > 0.99, codec


def by_ddp(rank: int, workers: int) -> dict[str, list[tuple[Tensor, Tensor]]]:
    """A gradient as ddp and as allreduce leave it: one bucket, so that pieces are the same."""
    found: dict[str, list[tuple[Tensor, Tensor]]] = {}
    for codec in ("int8", "topk:0.3", "randk:0.2", "powersgd:2"):
        spec = _experiment(workers, compress=codec, error_feedback=0.9, strategy="ddp")
        layer = nn.Parameter(torch.zeros(40, 30))
        wrap = STRATEGIES["ddp"].wrap
        assert wrap is not None
        wrapped = wrap(_Layers([layer]), spec)
        plain = replace(spec, strategy="allreduce")
        exchange = stateful_exchange(
            STRATEGIES["allreduce"].exchange, plain, torch.zeros(1200), [layer.shape]
        )
        found[codec] = []
        for index in range(ROUNDS):
            layer.grad = None
            gradient = values(rank, 1200, index)
            wrapped(gradient).backward()
            exchange(gradient, Round(plain, rank, index))
            found[codec].append((_gradient(layer).reshape(-1), gradient))
    return found


@pytest.mark.parametrize("workers", [2, 3])
def test_ddp_with_a_codec_is_allreduce_with_it(workers: int, tmp_path: Path) -> None:
    for codecs in on_workers(f"{HERE}:by_ddp", workers, tmp_path):
        for codec, rounds in codecs.items():
            for mine, plain in rounds:
                assert torch.equal(mine, plain), codec


SHAPES = ((40, 30), (40,), (6, 5), (16, 3, 5, 5))


def power_iterated(rank: int, workers: int) -> list[tuple[Tensor, Tensor]]:
    """Ours and torch's own communication hook, on the same gradients."""
    spec = _experiment(workers, compress="powersgd:2", error_feedback=1.0)
    layers = [nn.Parameter(torch.zeros(shape)) for shape in SHAPES]
    model = _Layers(layers)
    wrapped = nn.parallel.DistributedDataParallel(model)
    state = PowerSGDState(None, 2, start_powerSGD_iter=2, min_compression_rate=2)
    wrapped.register_comm_hook(state, powerSGD_hook)
    shapes = [layer.shape for layer in layers]
    size = sum(layer.numel() for layer in layers)
    ours = PowerIteration(STRATEGIES["allreduce"].exchange, 2, 1.0, shapes, 1)
    found = []
    for index in range(6):
        for layer in layers:
            layer.grad = None
        gradient = values(rank, size, index)
        wrapped(gradient).backward()
        if index == 2:  # torch averages twice before, and then draws its first Q
            ours.q = [q.squeeze(0).clone() for q in _first_q(shapes)]
        if index >= 2:
            mine = gradient.clone()
            ours(mine, Round(spec, rank, index))
            theirs = torch.cat([_gradient(layer).reshape(-1) for layer in layers])
            found.append((mine, theirs))
    return found


class _Layers(nn.Module):
    """Its gradient is what it is called with."""

    def __init__(self, layers: list[nn.Parameter]) -> None:
        super().__init__()
        self.layers = nn.ParameterList(layers)

    def forward(self, gradient: Tensor) -> Tensor:
        return torch.cat([layer.reshape(-1) for layer in self.layers]) @ gradient


def _gradient(layer: nn.Parameter) -> Tensor:
    assert layer.grad is not None
    return layer.grad


def _first_q(shapes: list[torch.Size]) -> list[Tensor]:
    """As torch draws them, in the order of its buckets: last layers first."""
    seed = np.random.RandomState(0).randint(1_000_000_000)
    generator = torch.Generator().manual_seed(int(seed))
    thin = [factors(shape, 2) for shape in reversed(shapes)]
    drawn = [torch.randn(1, f.columns, f.rank, generator=generator) for f in thin if f]
    return drawn[::-1]


@pytest.mark.parametrize("workers", [2, 3])
def test_powersgd_is_torchs_own_hook(workers: int, tmp_path: Path) -> None:
    for rounds in on_workers(f"{HERE}:power_iterated", workers, tmp_path):
        for mine, theirs in rounds:
            assert torch.allclose(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_models_of_other_types_are_encoded_as_float32(dtype: torch.dtype) -> None:
    spec = _experiment(2, compress="powersgd:2")
    seen: list[torch.dtype] = []

    def exchange(flat: Tensor, round: Round) -> None:
        seen.append(flat.dtype)

    flat = values(0, 1200).to(dtype)
    for change in (
        PowerIteration(exchange, 2, 1.0, [torch.Size((40, 30))], 1),
        RandomlyChosen(exchange, 0.1, 1.0, flat),
        SomeAveraged(exchange, 0.1),
    ):
        change(flat, Round(spec, 0, 0))
    assert flat.dtype is dtype
    assert set(seen) == {torch.float32}


def partly_averaged(rank: int, workers: int) -> dict[str, list[Tensor]]:
    found: dict[str, list[Tensor]] = {}
    for strategy in ("allreduce", "ring", "pairwise"):
        spec = _experiment(workers, strategy=strategy, average="parameters", compress="randk:0.1")
        exchange = stateful_exchange(STRATEGIES[strategy].exchange, spec, torch.zeros(500))
        flat = values(rank, 500)
        exchange(flat, Round(spec, rank, 4))
        found[strategy] = [flat]
    return found


def test_parameters_at_random_places_are_averaged_and_others_stay(tmp_path: Path) -> None:
    places = randk.places(500, 0.1, (1, 4, 0), torch.device("cpu"))
    own = [values(rank, 500) for rank in range(2)]
    for rank, found in enumerate(on_workers(f"{HERE}:partly_averaged", 2, tmp_path)):
        for (flat,) in found.values():
            expected = own[rank].index_copy(0, places, torch.stack(own).mean(0)[places])
            assert torch.allclose(flat, expected)


def locally_trained(rank: int, workers: int) -> dict[tuple[str, str], list[Tensor]]:
    found: dict[tuple[str, str], list[Tensor]] = {}
    for strategy in ("local-sgd", "pairwise"):
        for outer in ("none", "sgd:1", "sgd:0.5", "nesterov:0.7:0.9"):
            spec = _experiment(workers, strategy=strategy, outer=outer)
            flat = values(99, 500)
            exchange = stateful_exchange(STRATEGIES[strategy].exchange, spec, flat)
            found[strategy, outer] = rounds = []
            for index in range(ROUNDS):
                flat += values(rank, 500, index)
                exchange(flat, Round(spec, rank, index))
                rounds.append(flat.clone())
    return found


@pytest.mark.parametrize("workers", [1, 3, 4])
def test_the_outer_optimiser_is_torchs_on_the_mean_change(workers: int, tmp_path: Path) -> None:
    found = on_workers(f"{HERE}:locally_trained", workers, tmp_path)
    for result in found:
        for strategy in ("local-sgd", "pairwise"):
            for one, other in zip(*(result[strategy, o] for o in ("none", "sgd:1")), strict=True):
                assert torch.equal(one, other)
        for outer, lr, momentum in (("sgd:0.5", 0.5, 0.0), ("nesterov:0.7:0.9", 0.7, 0.9)):
            anchor = torch.nn.Parameter(values(99, 500))
            torchs = torch.optim.SGD([anchor], lr, momentum, nesterov=momentum > 0)
            for index in range(ROUNDS):
                local = [values(rank, 500, index) for rank in range(workers)]
                anchor.grad = -torch.stack(local).mean(0)
                torchs.step()
                assert torch.allclose(result["local-sgd", outer][index], anchor, atol=1e-5)


def test_two_phases_send_what_a_ring_would_and_two_workers_everything_once() -> None:
    """Pieces of whole chunks, so that they have no scales of their own beside the tensor's."""
    size = parse_codec("2bit").encoded_bytes(60 * CHUNK)
    for workers in range(1, 7):
        setting = Setting(workers=workers, model_bytes=size, compress="2bit")
        expected = 2 * (workers - 1) / workers * size
        assert predict("allreduce", setting).sent_mean == pytest.approx(expected)
        assert predict("local-sgd", setting).received_max == pytest.approx(expected)


@pytest.mark.parametrize("name", ["int8", "int4", "2bit", "sign", "topk:0.05", "topk:0.0001"])
@given(elements=st.integers(0, 10**7))
def test_sizes_tell_the_number_of_elements_up_to_those_of_the_same_size(
    name: str, elements: int
) -> None:
    codec = parse_codec(name)
    size = codec.encoded_bytes(elements)
    assert codec.encoded_bytes(codec.elements_of(size)) == size


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"compress": "topk:0"}, "above 0 and up to 1, such as topk:0.01, not 'topk:0'"),
        ({"compress": "topk"}, "such as topk:0.01"),
        ({"compress": "topk:0.1:3bit"}, "unknown values of topk .3bit.; there is: int8"),
        ({"compress": "randk:0.1:2bit"}, "not 'randk:0.1:2bit'"),
        ({"compress": "2bits"}, "did you mean 2bit"),
        ({"compress": "int8:3"}, "int8 takes no parameter"),
        ({"compress": "int8", "strategy": "ring"}, "these codes cannot be added up; use allred"),
        ({"compress": "2bit", "strategy": "pairwise"}, "no two workers have the same model to"),
        ({"compress": "2bit", "strategy": "sgp"}, "whose partners change every round"),
        ({"compress": "randk:0.1", "strategy": "parameter-server"}, "how every parameter changed"),
        ({"compress": "powersgd:0"}, "1 to 1024, such as powersgd:2, not 'powersgd:0'"),
        ({"compress": "int8", "launcher": "horovod"}, "whose own all-reduce adds up numbers"),
        ({"compress": "randk:2"}, "such as randk:0.01, not 'randk:2'"),
        ({"compress": "powersgd:2", "strategy": "pairwise"}, "use ring, halving-doubling,"),
        ({"compress": "powersgd:2", "average": "parameters"}, "makes no sense"),
        (
            {"compress": "randk:0.1", "average": "parameters", "error_feedback": 1.0},
            "nothing is lost",
        ),
        ({"algorithm": "diloco", "strategy": "ring"}, "a form of strategy local-sgd, not of ring"),
        ({"algorithm": "dilco"}, "did you mean diloco"),
        ({"compress": "int8", "average": "parameters"}, "makes no sense for averaged parameters"),
        ({"compress": "int8", "overlap": True}, "in one piece"),
        ({"compress": "int8", "strategy": "local-sgd", "outer": "none"}, "use --outer sgd:1"),
        ({"compress": "fp16", "error_feedback": 1.0}, "does not apply to compress fp16"),
        ({"compress": "int8", "error_feedback": 2.0}, "error_feedback must be between 0 and 1"),
        ({"outer": "sgd:1"}, "does not apply to strategy allreduce averaging gradients"),
        ({"strategy": "local-sgd", "outer": "adam:1"}, "outer: must be one of none, sgd:LR"),
        ({"strategy": "local-sgd", "outer": "sgd:nan"}, "LR must be above 0"),
        ({"strategy": "local-sgd", "outer": "nesterov:0.7:1"}, "MOMENTUM must be at least 0"),
    ],
)
def test_a_refusal_says_why(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        Experiment(**options)


def test_a_lossy_codec_has_error_feedback_and_local_sgd_an_outer_optimiser() -> None:
    spec = Experiment(strategy="local-sgd", compress="2bit")
    assert (spec.error_feedback, spec.outer) == (1.0, "sgd:1")
    assert Experiment.from_json(spec.to_json()) == spec
    plain = Experiment()
    assert (plain.error_feedback, plain.outer) == (None, "none")
