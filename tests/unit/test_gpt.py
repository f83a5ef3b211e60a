"""The byte-level language model and its text: windows, causality, scores by byte."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch.nn import functional

from cluster.spec.catalogue import BYTES, WINDOW
from workloads.data.sets import sotu
from workloads.models.gpt import Gpt, Size

SMALL = Size(layers=2, hidden=32, heads=2)


def test_the_label_of_a_byte_is_the_byte_that_follows(tmp_path: Path) -> None:
    text = bytes(k % 251 for k in range(3 * WINDOW + 1))
    (tmp_path / sotu.TRAIN).write_bytes(text)
    (tmp_path / sotu.TEST).write_bytes(text[: 2 * WINDOW])  # its last window lacks a byte
    data = sotu.read(tmp_path)
    assert data.train_inputs[torch.arange(3)].flatten().tolist() == list(text[:-1])
    assert data.train_labels.flatten().tolist() == list(text[1:])
    assert data.test_labels.shape == (1, WINDOW)


def test_every_tenth_address_is_test_data(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{1790 + number}_president.txt").write_text(f"address {number}")
    sotu.join_speeches(tmp_path)
    assert (tmp_path / sotu.TEST).read_text() == "address 9"
    assert "address 9" not in (tmp_path / sotu.TRAIN).read_text()
    assert (tmp_path / sotu.TRAIN).read_text().count("address") == 11


def test_a_prediction_depends_on_no_later_byte() -> None:
    torch.manual_seed(1)
    model, text = Gpt(SMALL), torch.randint(0, BYTES, (1, 40))
    before = model(text)
    text[0, 25] = (text[0, 25] + 1) % BYTES
    changed = (model(text) != before).any(dim=1)[0]
    assert not changed[:25].any()
    assert changed[25:].all()


def test_it_begins_as_a_guess_and_learns_a_text_by_heart() -> None:
    torch.manual_seed(1)
    model, text = Gpt(SMALL), torch.randint(0, BYTES, (2, 33))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        loss = functional.cross_entropy(model(text[:, :-1]), text[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert abs(losses[0] - math.log(BYTES)) < 0.1
    assert losses[-1] < 0.1
