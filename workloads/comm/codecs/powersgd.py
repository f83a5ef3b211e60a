"""powersgd: the gradient of every layer as a product of two thin matrices (Vogels et al. 2019).

For a layer's gradient A, n x m (a convolution's kernel is n output channels x the rest), and Q of
the last round, m x r:

    P = mean of all workers' A Q,  made orthonormal;   Q = mean of all workers' A^T P;   A' = P Q^T

Both means are sums of floats, so every exchange carries them: first P of all layers, with layers
that are too small to gain from it as they are, then Q of all layers. Bytes: 4 (n + m) r a layer in
place of 4 n m. What A' lacks of A is kept for the next round (error feedback).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from cluster.spec.exchange.codecs import factors
from workloads.comm.codecs.packing import require_finite
from workloads.comm.round import Exchange, Round

Shape = Sequence[int]


class PowerIteration:
    """Implements round.Exchange for a bucket of layers with these shapes."""

    def __init__(
        self, exchange: Exchange, rank: int, decay: float, shapes: Sequence[Shape], seed: int
    ) -> None:
        self._exchange, self._decay = exchange, decay
        self._factors = [factors(shape, rank) for shape in shapes]
        self._sizes = [torch.Size(shape).numel() for shape in shapes]
        drawn = torch.Generator().manual_seed(seed)
        self.q = [torch.randn(f.columns, f.rank, generator=drawn) for f in self._factors if f]
        self.residual = torch.zeros(sum(self._sizes))

    def tensors(self) -> dict[str, Tensor]:
        return {"residual": self.residual, **{f"q.{at}": q for at, q in enumerate(self.q)}}

    def __call__(self, flat: Tensor, round: Round) -> None:
        if round.alone:
            return
        whole = torch.add(flat.float(), self.residual, alpha=self._decay, out=self.residual)
        require_finite(whole)
        layers = list(zip(whole.split(self._sizes), self._factors, strict=True))
        small = [layer for layer, of in layers if not of]
        matrices = [layer.view(of.rows, of.columns) for layer, of in layers if of]
        products = [a @ q for a, q in zip(matrices, self.q, strict=True)]
        means = self._means([*small, *products], round)
        thin = [torch.linalg.qr(product).Q for product in means[len(small) :]]
        own = [a.T @ p for a, p in zip(matrices, thin, strict=True)]
        for q, mean in zip(self.q, self._means(own, round), strict=True):
            q.copy_(mean)
        whole.sub_(self._joined(small, thin, own))
        flat.copy_(self._joined(means[: len(small)], thin, self.q))

    def _means(self, tensors: Sequence[Tensor], round: Round) -> list[Tensor]:
        """Over the workers: one exchange."""
        if not tensors:
            return []
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        self._exchange(flat, round)
        parts = flat.split([tensor.numel() for tensor in tensors])
        return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def _joined(
        self, small: Sequence[Tensor], thin: Sequence[Tensor], others: Sequence[Tensor]
    ) -> Tensor:
        """All layers, from those that were sent as they are and from the factors of the others."""
        plain, products = iter(small), (p @ q.T for p, q in zip(thin, others, strict=True))
        found = [next(products) if of else next(plain) for of in self._factors]
        return torch.cat([layer.reshape(-1) for layer in found])
