"""A byte-level GPT: a decoder-only transformer that predicts the next byte of a text.

The architecture of GPT-2 (Radford et al. 2019): learned positions, layer norm before attention and
before the dense part, GELU, the output layer shares the embedding's weights. No dropout: random
masks would make N workers differ from one worker with N times the batch.
"""

import math
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from cluster.spec.catalogue import BYTES, WINDOW

SPREAD = 0.02
"""Standard deviation of random weights, as in GPT-2."""


@dataclass(frozen=True)
class Size:
    layers: int
    hidden: int
    heads: int


TINY = Size(layers=5, hidden=128, heads=4)
SMALL = Size(layers=6, hidden=384, heads=6)


class Gpt(nn.Module):
    """Input: n x length bytes. Output: n x 256 x length scores of the byte that follows each."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.bytes = nn.Embedding(BYTES, size.hidden)
        self.positions = nn.Embedding(WINDOW, size.hidden)
        self.layers = nn.ModuleList(_Layer(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.hidden)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=SPREAD)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        for name, weight in self.named_parameters():
            if name.endswith("out.weight"):  # two for each layer are added to the residual path
                nn.init.normal_(weight, std=SPREAD / math.sqrt(2 * size.layers))

    def forward(self, text: Tensor) -> Tensor:
        x = self.bytes(text) + self.positions.weight[: text.shape[1]]
        for layer in self.layers:
            x = layer(x)
        scores = functional.linear(self.norm(x), self.bytes.weight)
        return scores.transpose(1, 2)


class _Layer(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        hidden = size.hidden
        self.heads = size.heads
        self.attention_norm, self.dense_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention_in = nn.Linear(hidden, 3 * hidden)
        self.attention_out = nn.Linear(hidden, hidden)
        self.dense_in = nn.Linear(hidden, 4 * hidden)
        self.dense_out = nn.Linear(4 * hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.attention_in(self.attention_norm(x)).chunk(3, dim=-1)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attention_out(mixed.transpose(1, 2).flatten(2))
        wide = functional.gelu(self.dense_in(self.dense_norm(x)))
        after: Tensor = x + self.dense_out(wide)
        return after
