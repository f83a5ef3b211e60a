"""The networks: their sizes, and equality with a forward pass written in another way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from cluster.spec.catalogue import MODELS
from workloads.comm.flat import FlatModel
from workloads.data.dataset import DataError
from workloads.data.tokens import read_weights
from workloads.models import networks
from workloads.models.bert import BASE_CASED, MINILM, Bert, Size, load_pretrained
from workloads.models.vision import VGG11, ResNet18, Vgg11

SMALL = Size(vocabulary=50, hidden=24, inner=40, layers=2, heads=3, positions=16)


def size(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_as_many_parameters_as_the_catalogue_says(name: str) -> None:
    with torch.device("meta"):
        assert size(networks.MODELS[name]()) == MODELS[name].parameters


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_buffers_where_the_catalogue_says(name: str) -> None:
    with torch.device("meta"):
        found = [b for b in networks.MODELS[name]().buffers() if b.is_floating_point()]
    assert bool(found) == MODELS[name].has_buffers


def test_the_counts_are_those_of_the_published_architectures() -> None:
    """torchvision 0.28: vgg11_bn's features 9,225,984; resnet18(num_classes=10) 11,181,642.

    transformers 5: BertForSequenceClassification with 2 labels, MiniLM-L6-H384 and bert-base-cased.
    """
    assert size(Vgg11()) == 9_225_984 + 512 * 10 + 10
    assert size(ResNet18()) == 11_181_642 - 3 * 64 * (7 * 7 - 3 * 3)
    assert size(Bert(MINILM)) == 22_713_986
    with torch.device("meta"):
        assert size(Bert(BASE_CASED)) == 108_311_810


def randomise(model: nn.Module) -> dict[str, Tensor]:
    """Weights and statistics without the ones and zeros in which a mistake could hide."""
    generator = torch.Generator().manual_seed(3)
    state = {}
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point():
            spread = 1 / max(1.0, tensor[0].numel() ** 0.5) if tensor.dim() > 1 else 0.2
            centre = 1.0 if tensor.dim() == 1 else 0.0
            drawn = torch.randn(tensor.shape, generator=generator) * spread + centre
            tensor.copy_(drawn.abs() if name.endswith("running_var") else drawn)
        state[name] = tensor
    return state


def norm(x: Tensor, state: dict[str, Tensor], name: str) -> Tensor:
    """Batch norm by its formula, with the running statistics."""
    mean, variance, weight, bias = (
        state[f"{name}.{field}"].view(-1, 1, 1)
        for field in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / torch.sqrt(variance + 1e-5) * weight + bias


def convolve(x: Tensor, weight: Tensor, stride: int = 1) -> Tensor:
    """As one matrix product over the patches."""
    width = weight.shape[-1]
    patches = functional.unfold(x, width, padding=width // 2, stride=stride)
    side = (x.shape[-1] - 1) // stride + 1
    rows: Tensor = weight.flatten(1) @ patches
    return rows.view(*rows.shape[:2], side, side)


def vgg11_by_hand(x: Tensor, state: dict[str, Tensor]) -> Tensor:
    at = 0
    for channels in VGG11:
        if channels == 0:
            x = x.unflatten(2, (-1, 2)).unflatten(4, (-1, 2)).amax((3, 5))
            at += 1
        else:
            x = convolve(x, state[f"features.{at}.weight"])
            x = x + state[f"features.{at}.bias"].view(-1, 1, 1)
            x = norm(x, state, f"features.{at + 1}").clamp(min=0)
            at += 3
    return x.flatten(1) @ state["classifier.weight"].T + state["classifier.bias"]


def resnet18_by_hand(x: Tensor, state: dict[str, Tensor]) -> Tensor:
    x = norm(convolve(x, state["conv1.weight"]), state, "bn1").clamp(min=0)
    for layer, block in [(layer, block) for layer in range(1, 5) for block in range(2)]:
        name = f"layer{layer}.{block}"
        stride = 2 if layer > 1 and block == 0 else 1
        around = x
        if f"{name}.downsample.0.weight" in state:
            around = convolve(x, state[f"{name}.downsample.0.weight"], stride)
            around = norm(around, state, f"{name}.downsample.1")
        x = norm(convolve(x, state[f"{name}.conv1.weight"], stride), state, f"{name}.bn1")
        x = norm(convolve(x.clamp(min=0), state[f"{name}.conv2.weight"]), state, f"{name}.bn2")
        x = (x + around).clamp(min=0)
    return x.mean((2, 3)) @ state["fc.weight"].T + state["fc.bias"]


@pytest.mark.parametrize(
    ("model", "by_hand"),
    [(Vgg11(), vgg11_by_hand), (ResNet18(), resnet18_by_hand)],
    ids=["vgg11", "resnet18"],
)
@torch.no_grad()
def test_a_vision_model_equals_a_forward_pass_by_hand(
    model: nn.Module, by_hand: Callable[[Tensor, dict[str, Tensor]], Tensor]
) -> None:
    state = randomise(model)
    images = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(4))
    expected = by_hand(images, state)
    found = model.eval()(images)
    assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()
    assert expected.std(dim=0).min() > 1e-3 * expected.abs().max()  # it depends on the image


def bert_by_hand(tokens: Tensor, sentences: Tensor, state: dict[str, Tensor], size: Size) -> Tensor:
    """One pair of sentences, head by head."""

    def dense(x: Tensor, name: str) -> Tensor:
        return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    def layer_norm(x: Tensor, name: str) -> Tensor:
        centred = x - x.mean(1, keepdim=True)
        scaled = centred / torch.sqrt(centred.square().mean(1, keepdim=True) + 1e-12)
        return scaled * state[f"{name}.weight"] + state[f"{name}.bias"]

    at = "bert.embeddings"
    x = state[f"{at}.word_embeddings.weight"][tokens]
    x = x + state[f"{at}.token_type_embeddings.weight"][sentences]
    x = x + state[f"{at}.position_embeddings.weight"][: len(tokens)]
    x = layer_norm(x, f"{at}.LayerNorm")
    width = size.hidden // size.heads
    for layer in range(size.layers):
        at = f"bert.encoder.layer.{layer}"
        query, key, value = (
            dense(x, f"{at}.attention.self.{name}") for name in ("query", "key", "value")
        )
        heads = []
        for head in range(size.heads):
            mine = slice(head * width, (head + 1) * width)
            scores = query[:, mine] @ key[:, mine].T / width**0.5
            scores[:, tokens == 0] = -torch.inf
            heads.append(scores.softmax(1) @ value[:, mine])
        mixed = dense(torch.cat(heads, 1), f"{at}.attention.output.dense")
        x = layer_norm(mixed + x, f"{at}.attention.output.LayerNorm")
        wide = dense(x, f"{at}.intermediate.dense")
        wide = wide * 0.5 * (1 + torch.erf(wide / 2**0.5))
        x = layer_norm(dense(wide, f"{at}.output.dense") + x, f"{at}.output.LayerNorm")
    return dense(torch.tanh(dense(x[:1], "bert.pooler.dense")), "classifier")[0]


@torch.no_grad()
def test_bert_equals_a_forward_pass_by_hand_whatever_the_padding() -> None:
    model = Bert(SMALL)
    state = randomise(model)
    tokens = torch.tensor([[5, 9, 6, 11, 6, 0, 0], [5, 9, 8, 7, 6, 40, 6]])
    sentences = torch.tensor([[0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1, 1]])
    found = model(torch.stack([tokens, sentences], dim=1))
    for row in range(2):
        expected = bert_by_hand(tokens[row], sentences[row], state, SMALL)
        assert (found[row] - expected).abs().max() <= 1e-5 * expected.abs().max()


def bare_name(name: str) -> str:
    """As all-MiniLM-L6-v2 has it."""
    return name.removeprefix("bert.")


def old_name(name: str) -> str:
    """As bert-base-cased has it."""
    new, old = ("LayerNorm.weight", "LayerNorm.bias"), ("LayerNorm.gamma", "LayerNorm.beta")
    for after, before in zip(new, old, strict=True):
        name = name.replace(after, before)
    return name


def convert(tensors: dict[str, Tensor], folder: Path) -> Path:
    """As the host does: a safetensors file, read and written for the nodes."""
    save_file({name: t.contiguous() for name, t in tensors.items()}, folder / "model.safetensors")
    numpy.savez(folder / "weights.npz", **read_weights(folder / "model.safetensors"))
    return folder / "weights.npz"


@pytest.mark.parametrize("named", [bare_name, old_name])
def test_pretrained_weights_are_all_loaded_except_the_classifier(
    named: Callable[[str], str], tmp_path: Path
) -> None:
    teacher, pupil = Bert(SMALL), Bert(SMALL)
    wanted = randomise(teacher)
    written = {named(k): v for k, v in wanted.items() if "classifier" not in k}
    written["cls.seq_relationship.weight"] = torch.zeros(2, 24)  # other heads are ignored
    own = pupil.classifier.weight.clone()
    load_pretrained(pupil, convert(written, tmp_path))
    for name, tensor in pupil.state_dict().items():
        assert torch.equal(tensor, own if name == "classifier.weight" else wanted[name]) or (
            name == "classifier.bias"
        )


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    path = convert({"pooler.dense.bias": torch.zeros(3)}, tmp_path)
    with pytest.raises(
        DataError, match=r"has no bert\.embeddings\.word_embeddings\.weight of shape"
    ):
        load_pretrained(Bert(SMALL), path)
    (tmp_path / "page").write_text("<html>Please log in</html>")
    with pytest.raises(DataError, match="cannot be read as a safetensors file"):
        read_weights(tmp_path / "page")


def test_bert_learns_a_handful_of_rows() -> None:
    torch.manual_seed(1)
    model = Bert(SMALL)
    flat = FlatModel(model)
    inputs = torch.randint(1, 50, (8, 2, 12))
    inputs[:, 1] = torch.arange(12) >= 6
    labels = torch.arange(8) % 2
    losses = []
    for _ in range(60):
        loss = functional.cross_entropy(model(inputs), labels)
        loss.backward()
        flat.parts[0].parameters.sub_(flat.parts[0].gradients, alpha=0.1)
        flat.parts[0].gradients.zero_()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]
