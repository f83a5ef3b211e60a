"""BERT for sequence classification, in plain torch: a node needs no transformers library.

Its tensors have the names and shapes of transformers' BertForSequenceClassification, so that
pretrained weights load into it. No dropout: random masks would make N workers differ from one
worker with N times the batch, and tests rely on that equality.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor, nn
from torch.nn import functional

from workloads.data.dataset import DataError


@dataclass(frozen=True)
class Size:
    vocabulary: int = 30_522
    hidden: int = 384
    inner: int = 1_536
    layers: int = 6
    heads: int = 12
    positions: int = 512


MINILM = Size()
BASE_CASED = Size(vocabulary=28_996, hidden=768, inner=3_072, layers=12)

SPREAD = 0.02
"""Standard deviation of random weights, as in the original BERT."""


class Bert(nn.Module):
    """Input: n x 2 x length numbers, tokens (0 is padding) and the sentence, 0 or 1, of each."""

    def __init__(self, size: Size, classes: int = 2) -> None:
        super().__init__()
        self.heads = size.heads
        self.bert: Any = _modules(
            embeddings=_modules(
                word_embeddings=nn.Embedding(size.vocabulary, size.hidden),
                position_embeddings=nn.Embedding(size.positions, size.hidden),
                token_type_embeddings=nn.Embedding(2, size.hidden),
                LayerNorm=_norm(size),
            ),
            encoder=_modules(layer=nn.ModuleList(_layer(size) for _ in range(size.layers))),
            pooler=_modules(dense=nn.Linear(size.hidden, size.hidden)),
        )
        self.classifier = nn.Linear(size.hidden, classes)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=SPREAD)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        tokens, sentences = inputs[:, 0], inputs[:, 1]
        parts = self.bert["embeddings"]
        x = parts["word_embeddings"](tokens) + parts["token_type_embeddings"](sentences)
        x = x + parts["position_embeddings"].weight[: tokens.shape[1]]
        x = parts["LayerNorm"](x)
        seen = (tokens != 0)[:, None, None, :]
        for layer in self.bert["encoder"]["layer"]:
            x = self._apply_layer(layer, x, seen)
        first = torch.tanh(self.bert["pooler"]["dense"](x[:, 0]))
        scores: Tensor = self.classifier(first)
        return scores

    def _apply_layer(self, layer: Any, x: Tensor, seen: Tensor) -> Tensor:
        attention, inner, output = layer["attention"], layer["intermediate"], layer["output"]
        query, key, value = (
            attention["self"][name](x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for name in ("query", "key", "value")
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        mixed = attention["output"]["dense"](mixed.transpose(1, 2).flatten(2))
        x = attention["output"]["LayerNorm"](mixed + x)
        wide = functional.gelu(inner["dense"](x))
        after: Tensor = output["LayerNorm"](output["dense"](wide) + x)
        return after


def _norm(size: Size) -> nn.LayerNorm:
    return nn.LayerNorm(size.hidden, eps=1e-12)


def _layer(size: Size) -> nn.ModuleDict:
    hidden = size.hidden
    square = {name: nn.Linear(hidden, hidden) for name in ("query", "key", "value")}
    return _modules(
        attention=_modules(
            self=_modules(**square),
            output=_modules(dense=nn.Linear(hidden, hidden), LayerNorm=_norm(size)),
        ),
        intermediate=_modules(dense=nn.Linear(hidden, size.inner)),
        output=_modules(dense=nn.Linear(size.inner, hidden), LayerNorm=_norm(size)),
    )


def _modules(**modules: nn.Module) -> nn.ModuleDict:
    return nn.ModuleDict(modules)


def load_pretrained(model: Bert, path: Path) -> None:
    """Load all tensors but the classifier's, which stay random; every shape must match.

    workloads/data/tokens.py has written the file on the host.
    """
    own = {name: tensor for name, tensor in model.state_dict().items() if "classifier" not in name}
    try:
        with numpy.load(path) as arrays:
            for name, tensor in own.items():
                if name not in arrays or arrays[name].shape != tensor.shape:
                    raise DataError(f"{path} has no {name} of shape {tuple(tensor.shape)}")
                tensor.copy_(torch.from_numpy(arrays[name]))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
