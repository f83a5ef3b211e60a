"""Text is encoded once on the host, as BERT's own tokenizer does; nodes read numbers."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from tokenizers import BertWordPieceTokenizer

from cluster.spec.experiment import Experiment
from workloads.data import prepare as preparing
from workloads.data import tokens
from workloads.data.dataset import DataError, DataFile, Dataset
from workloads.data.prepare import prepare_all
from workloads.data.samples import read_samples
from workloads.data.sets import rte
from workloads.data.tokens import encode_pair, open_tokenizer

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "##s", "sleep", "!", "cafe", "un"]
PAIRS = """index\tsentence1\tsentence2\tlabel
0\t"the cat\tcats\tentailment
1\tcat\tun\tnot_entailment
"""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> BertWordPieceTokenizer:
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text("\n".join(VOCABULARY) + "\n")
    return open_tokenizer(path, cased=False)


def words(tokenizer: BertWordPieceTokenizer, text: str) -> list[int]:
    ids, _ = encode_pair(tokenizer, text, "", 20)
    return ids[1 : ids.index(3)]


def test_words_are_cut_into_the_longest_pieces_of_the_vocabulary(
    tokenizer: BertWordPieceTokenizer,
) -> None:
    assert words(tokenizer, "The cats sleep!") == [4, 5, 6, 7, 8]
    assert words(tokenizer, "Café\u200b  unknown\tcat") == [9, 1, 5]
    assert words(tokenizer, "") == []


@given(first=st.integers(0, 20), second=st.integers(0, 20), length=st.integers(5, 24))
def test_a_pair_is_truncated_from_the_longer_sentence_and_padded(
    tokenizer: BertWordPieceTokenizer, first: int, second: int, length: int
) -> None:
    found = encode_pair(tokenizer, "cat " * first, "the " * second, length)
    while first + second > length - 3:
        first, second = (first - 1, second) if first > second else (first, second - 1)
    padding = [0] * (length - 3 - first - second)
    assert found == (
        [2, *[5] * first, 3, *[4] * second, 3, *padding],
        [0] * (first + 2) + [1] * (second + 1) + padding,
    )


def test_sentence_pairs_are_read_without_quoting(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text(PAIRS)
    assert rte.read_pairs(tmp_path / "train.tsv") == [('"the cat', "cats", 0), ("cat", "un", 1)]
    (tmp_path / "page").write_text("<html>\nPlease log in\n</html>\n")
    with pytest.raises(DataError, match="no file of labelled sentence pairs"):
        rte.read_pairs(tmp_path / "page")


def record(name: str, folder: Path) -> Dataset:
    files = tuple(
        DataFile(
            name=path.name,
            size_bytes=path.stat().st_size,
            sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted(folder.iterdir())
    )
    read = rte.read_sentences if name == "rte" else None
    return Dataset(name=name, files=files, read_sentences=read)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with a tiny RTE and tiny weights."""
    for name in ("rte", "bert-minilm"):
        (tmp_path / name).mkdir()
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / "rte" / name).write_text(PAIRS)
    (tmp_path / "bert-minilm" / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    weights = {"pooler.dense.bias": torch.arange(3.0)}
    save_file(weights, tmp_path / "bert-minilm" / "model.safetensors")
    records = {name: record(name, tmp_path / name) for name in ("rte", "bert-minilm")}
    monkeypatch.setattr(preparing, "FILES", records)
    monkeypatch.setattr(preparing, "WEIGHTS", {"bert-minilm": records["bert-minilm"]})
    monkeypatch.setenv("GRADWIRE_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("GRADWIRE_DATA_PATH", raising=False)
    return tmp_path


def test_nodes_read_what_the_host_has_encoded(cache: Path) -> None:
    spec = Experiment(model="bert-minilm", dataset="rte", workers=2, train_size=2, batch_size=1)
    assert not tokens.is_complete(spec, cache)
    folder = prepare_all(["rte", "bert-minilm"], say=lambda _: None)
    for root in (folder, folder.parent):
        assert tokens.is_complete(spec, root)
        samples = read_samples(spec, root)
        inputs = samples.train_inputs[torch.tensor([0, 1])]
        assert inputs.shape == (2, 2, 128)
        assert inputs[0, 0, :8].tolist() == [2, 1, 4, 5, 3, 5, 6, 3]
        assert samples.test_labels.tolist() == [0, 1]


def test_encoded_text_is_made_once_and_again_when_it_is_damaged_or_its_sources_change(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    names = ["rte", "bert-minilm"]
    folder = prepare_all(names, say=said.append)
    prepare_all(names, say=said.append)
    assert len(said) == 1
    content = (folder / tokens.TOKENS).read_bytes()
    (folder / tokens.TOKENS).write_bytes(content[:-1] + b"?")
    prepare_all(names, say=said.append)
    assert len(said) == 2
    made = json.loads((folder / tokens.MADE).read_text())
    (cache / "rte" / "dev.tsv").write_text(PAIRS + "2\tcat\tcat\tentailment\n")
    changed = {"rte": record("rte", cache / "rte")}
    monkeypatch.setattr(preparing, "FILES", preparing.FILES | changed)
    prepare_all(names, say=said.append)
    assert len(said) == 3
    assert json.loads((folder / tokens.MADE).read_text())["sources"] != made["sources"]
