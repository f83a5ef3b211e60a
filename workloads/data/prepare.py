"""Prepare data for the nodes, on the host, before they start: fetch, verify, encode text.

The sha256 of every file is checked at every start (55 MB take 0.05 s), so no result is cached.
"""

import gzip
import hashlib
import zlib
from collections.abc import Sequence
from pathlib import Path

from workloads.data.dataset import DataError, Dataset, Say, count_missing, to_stderr
from workloads.data.fetch import fetch
from workloads.data.folders import default_data_dir, find_complete, locate, places
from workloads.data.sets import DATASETS
from workloads.data.tokens import encode, encoded_name
from workloads.models.pretrained import WEIGHTS

FILES = DATASETS | WEIGHTS
"""Everything that can be fetched, by name."""


def prepare(dataset: Dataset, data_dir: Path | str | None = None, *, say: Say = to_stderr) -> Path:
    """The folder with all files of a data set, each verified.

    Without `data_dir` missing files are fetched into the cache. A folder that the user named is
    only read: files that are missing or corrupt there are an error. If it has all files as .gz,
    they are unpacked into the cache, because such a folder is often shared and read-only.
    """
    if data_dir is None:
        return find_complete(dataset) or fetch(dataset, default_data_dir(), say=say)
    root = Path(data_dir).expanduser().absolute()
    folder, wrong = locate(dataset, root)
    if not wrong:
        return folder
    if count_missing(wrong) == len(wrong):
        for packed in places(dataset, root):
            if all((packed / f"{file.name}.gz").is_file() for file in dataset.files):
                _check_packed(dataset, packed)
                say(f"{dataset.name}: {packed} has it packed, using {default_data_dir()}")
                return fetch(dataset, default_data_dir(), source=packed, say=say)
    file, what = next(iter(wrong.items()))
    raise DataError(
        f"{folder / file.name} {what}, expected sha256 {file.sha256}: "
        f"put the right file there, or leave out --data-dir to have it fetched"
    )


def _check_packed(dataset: Dataset, folder: Path) -> None:
    """Check .gz files even if the cache has the right ones: the user named this folder."""
    for file in dataset.files:
        path = folder / f"{file.name}.gz"
        try:
            with gzip.open(path) as content:
                found = hashlib.file_digest(content, "sha256").hexdigest()
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path} cannot be unpacked: {error}") from error
        if found != file.sha256:
            raise DataError(
                f"{path} holds a file with sha256 {found}, expected {file.sha256}: put the right"
                " file there, or leave out --data-dir to have it fetched"
            )


def prepare_all(
    names: Sequence[str], data_dir: Path | str | None = None, *, say: Say = to_stderr
) -> Path:
    """One folder for the nodes, which holds what they read alone, or several by name.

    tokens.data_folder() finds each there. Data sets in different places are copied into the cache.
    Text is encoded with each of the given weights. Weights may be, but need not be, in `data_dir`.
    """
    found = {}
    for name in dict.fromkeys(names):
        is_absent = data_dir is not None and locate(FILES[name], Path(data_dir))[1]
        own_dir = None if name in WEIGHTS and is_absent else data_dir
        found[name] = prepare(FILES[name], own_dir, say=say)
    cache = default_data_dir().expanduser().absolute()
    folders = encode_text(found, cache, say)
    if len(folders) == 1:
        return next(iter(folders.values()))
    parents = {folder.parent for folder in folders.values()}
    if len(parents) == 1 and all(folder.name == name for name, folder in folders.items()):
        return parents.pop()
    for name, folder in folders.items():
        if folder != cache / name:
            fetch(FILES[name], cache, source=folder, say=say)
    return cache


def encode_text(found: dict[str, Path], cache: Path, say: Say) -> dict[str, Path]:
    """The folders that nodes read: text and weights are replaced by the encoded text."""
    weights = [name for name in found if name in WEIGHTS]
    folders = {}
    for name, folder in found.items():
        if name in weights:
            continue
        if not weights or FILES[name].read_sentences is None:
            folders[name] = folder
            continue
        for network in weights:
            encoded = encode(FILES[name], folder, WEIGHTS[network], found[network], cache, say)
            folders[encoded_name(name, network)] = encoded
    return folders or found
