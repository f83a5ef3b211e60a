"""Text for pretrained networks, encoded once on the host: nodes need no tokenizer.

A sentence pair becomes [CLS] first [SEP] second [SEP] in the network's own vocabulary, truncated or
padded to 128 tokens. The result is <cache>/DATASET-WEIGHTS with

    tokens.npz    train and test, n x 2 x 128: tokens, and 0 or 1 for the sentence; their labels
    weights.npz   the pretrained network's float32 tensors, by the names of workloads/models/bert.py
    made.json     sha256 of the files it was made from, and of these files

which are checked at every start, and made again where they differ.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cluster.spec.catalogue import MODELS
from cluster.spec.experiment import Experiment
from cluster.spec.own_code import is_foreign
from workloads.data.dataset import DataError, Dataset, Say, Sentences, problems, sha256_of
from workloads.data.fetch import locked
from workloads.data.folders import folder_of
from workloads.data.sets import DATASETS

if TYPE_CHECKING:
    from tokenizers import BertWordPieceTokenizer

LENGTH = 128
FORMAT = 1
"""Increase it when the files below change: existing ones are then made again."""
TOKENS, WEIGHTS, MADE = "tokens.npz", "weights.npz", "made.json"


def weights_of(model: str) -> str | None:
    """The name of the pretrained weights that a model starts from."""
    return MODELS[model].weights if model in MODELS else None


def encoded_name(dataset: str, weights: str) -> str:
    return f"{dataset}-{weights}"


def data_name(spec: Experiment) -> str:
    """The name of the folder that a run reads: a data set's, or that of its encoded text."""
    weights = weights_of(spec.model)
    return encoded_name(str(spec.dataset), weights) if weights else str(spec.dataset)


def data_folder(spec: Experiment, root: Path) -> Path:
    """The folder that a run reads, in a folder that holds it alone or beside others by name."""
    if spec.dataset == "none" or is_foreign(spec.dataset):
        return root
    if weights_of(spec.model) is None:
        return folder_of(DATASETS[str(spec.dataset)], root)
    own = root / data_name(spec)
    return own if (own / MADE).is_file() else root


def is_complete(spec: Experiment, root: Path) -> bool:
    """Are all files that a run reads there, each verified?"""
    if spec.dataset == "none" or is_foreign(spec.dataset):
        return True
    folder = data_folder(spec, root)
    if weights_of(spec.model) is not None:
        return is_intact(folder)
    return not problems(DATASETS[str(spec.dataset)], folder)


def is_intact(folder: Path, sources: dict[str, str] | None = None) -> bool:
    """Are all files there as they were made, and from these sources?"""
    try:
        made = json.loads((folder / MADE).read_text())
        if made["format"] != FORMAT or (sources is not None and made["sources"] != sources):
            return False
        return all(sha256_of(folder / name) == sha256 for name, sha256 in made["files"].items())
    except (OSError, ValueError, KeyError):
        return False


def encode(
    dataset: Dataset, text: Path, weights: Dataset, network: Path, cache: Path, say: Say
) -> Path:
    """The folder for nodes, made from the verified folders `text` and `network` where needed."""
    folder = cache / encoded_name(dataset.name, weights.name)
    sources = {
        f"{record.name}/{file.name}": file.sha256
        for record in (dataset, weights)
        for file in record.files
    }
    if is_intact(folder, sources):
        return folder
    with locked(folder, say):
        if not is_intact(folder, sources):
            say(f"{folder.name}: encoding the text for the nodes, once")
            import numpy

            assert dataset.read_sentences is not None
            train, test = dataset.read_sentences(text)
            tokenizer = open_tokenizer(network / "vocab.txt", cased=weights.name.endswith("-cased"))
            (folder / MADE).unlink(missing_ok=True)  # written last: it says that all is complete
            numpy.savez(folder / TOKENS, **encode_splits(tokenizer, train, test))
            numpy.savez(folder / WEIGHTS, **read_weights(network / "model.safetensors"))
            files = {name: sha256_of(folder / name) for name in (TOKENS, WEIGHTS)}
            made = {"format": FORMAT, "sources": sources, "files": files}
            (folder / MADE).write_text(json.dumps(made, indent=1))
            for name in (TOKENS, WEIGHTS, MADE):
                (folder / name).chmod(0o644)  # nodes run as another user
    return folder


def open_tokenizer(vocabulary: Path, *, cased: bool) -> BertWordPieceTokenizer:
    from tokenizers import BertWordPieceTokenizer

    return BertWordPieceTokenizer(str(vocabulary), lowercase=not cased)


def encode_splits(
    tokenizer: BertWordPieceTokenizer, train: Sentences, test: Sentences
) -> dict[str, Any]:
    import numpy

    arrays = {}
    for name, pairs in (("train", train), ("test", test)):
        encoded = [encode_pair(tokenizer, first, second) for first, second, _ in pairs]
        arrays[name] = numpy.array(encoded, numpy.int32).reshape(-1, 2, LENGTH)
        arrays[f"{name}_labels"] = numpy.array([label for _, _, label in pairs], numpy.uint8)
    return arrays


def encode_pair(
    tokenizer: BertWordPieceTokenizer, first: str, second: str, length: int = LENGTH
) -> tuple[list[int], list[int]]:
    """Tokens and sentence numbers of a pair.

    Tokens are removed from the longer sentence, from the second of equal ones, as BERT's own
    program does; the library's truncation differs in the latter.
    """
    sentences = [tokenizer.encode(text, add_special_tokens=False) for text in (first, second)]
    kept = [len(sentence.ids) for sentence in sentences]
    while sum(kept) > length - 3:
        kept[0 if kept[0] > kept[1] else 1] -= 1
    for sentence, count in zip(sentences, kept, strict=True):
        sentence.truncate(count)
    pair = tokenizer.post_process(*sentences)
    pair.pad(length)
    return pair.ids, pair.type_ids


def read_weights(path: Path) -> dict[str, Any]:
    """The float32 tensors of a safetensors file, by the names of workloads/models/bert.py."""
    import numpy
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path} cannot be read as a safetensors file: {error}") from error
    return {_own_name(name): t for name, t in tensors.items() if t.dtype == numpy.float32}


def _own_name(name: str) -> str:
    """Some files lack the prefix "bert."; old ones have gamma and beta for weight and bias."""
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
    name = name.replace("LayerNorm.beta", "LayerNorm.bias")
    return f"bert.{name.removeprefix('bert.')}"
