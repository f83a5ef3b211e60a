"""Seeded random mutations of documents, files and command lines: the same seed, the same input.

rng = random.Random(7)
mutated_json(rng, document)       text that may not be JSON any more
mutated_file(rng, name, data)     bytes, by the kind of file: .json, .jsonl, .csv, any
command_line(rng, parser, known)  arguments for a parser, made from its own options
"""

from __future__ import annotations

import argparse
import copy
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

RAW = {
    "@nested@": "[" * 100_000 + "]" * 100_000,
    "@unclosed@": '{"a":' * 5_000,
    "@digits@": "9" * 5_000,
    "@400 digits@": "9" * 400,
    "@1e400@": "1e400",
    "@NaN@": "NaN",
    "@-Infinity@": "-Infinity",
    "@surrogate@": '"\\ud800"',
    "@NUL@": '"\\u0000"',
}
"""Placeholder -> what stands in the text for it: json.dumps writes none of these."""
TEXTS = (
    *("", " ", "x", "none", "null", "1", "-1", "0", "1e400", "nan", "4\n5", "a\tb", "\x1b[31m"),
    *("\u0666", "\u2028", "\u202e", "é", "<script>alert(1)</script>", "{{7*7}}", "${HOME}"),
    *("../../etc/passwd", "javascript:alert(1)", "%s%n", "'; --", "9" * 400, "x" * 10_000),
)
NUMBERS = (0, 1, -1, 0.5, -0.0, 1e308, 1e-308, 255, 2**31, 2**63, 2**64, 10**30)
VALUES: tuple[Any, ...] = (
    *(None, True, False, [], {}, [[]], {"": None}, ["x"], {"x": {"x": 1}}),
    *NUMBERS,
    *TEXTS,
    *RAW,
)
"""What may stand for any value of a document."""
WORDS = (
    *TEXTS,
    *map(str, NUMBERS),
    *("2,4", "1,2,", ",", "-", "--", "=", "1_000", "0x10", "1e3", "5%", "yes", "no", "auto"),
    *("200K", "1m", "4MB", "20mbit", "20Mbit", "1:0.5", "2:20mbit", "0:1gbit,1:1mbit", "6g"),
    *("synthetic:4M", "synthetic:" + "9" * 400, "synthetic:4M:" + "9" * 400, "synthetic:"),
    *("100mbit/5ms/0.1%", "100mbit/" + "9" * 400 + "ms", "dirichlet:0.5", "dirichlet:1e400"),
    "\udcff",  # a byte of an argument that is not UTF-8
    ",".join(map(str, range(1, 300))),
)
"""What may stand for any value of a command line."""
Steps = tuple[str | int, ...]


def mutated_json(rng: random.Random, document: Any, changes: int = 3) -> str:
    """The document's text after 1 to `changes` changes: keys deleted, replaced, nested, retyped."""
    made = copy.deepcopy(document)
    for _ in range(rng.randint(1, changes)):
        made = _changed(rng, made)
    text = json.dumps(made)
    for placeholder, raw in RAW.items():
        text = text.replace(json.dumps(placeholder), raw)
    return text


def mutated_bytes(rng: random.Random, data: bytes) -> bytes:
    """Cut off, or with some bytes replaced, inserted, repeated or taken out."""
    start = rng.randrange(len(data) + 1)
    end = min(len(data), start + rng.choice((1, 4, 100)))
    inserted = rng.choice((b"\0", b"\xff\xfe", b"\n", b"{", b'"', b"9" * 400, data[start:end] * 50))
    return rng.choice(
        (
            data[:start],
            data[start:],
            data[:start] + data[end:],
            data[:start] + inserted + data[start:],
            data[:start] + inserted + data[end:],
            rng.randbytes(min(len(data), 1_000)),
            b"",
        )
    )


def mutated_file(rng: random.Random, name: str, data: bytes) -> bytes:
    """A file's bytes, mutated as fits its kind, or as any bytes."""
    kind = name.rpartition(".")[2]
    if kind == "json" and rng.random() < 0.8:
        return mutated_json(rng, json.loads(data)).encode()
    if kind in ("jsonl", "csv", "log") and data and rng.random() < 0.8:
        return _mutated_lines(rng, kind, data)
    return mutated_bytes(rng, data)


def command_line(
    rng: random.Random,
    parser: argparse.ArgumentParser,
    known: Mapping[str, Sequence[str]],
    most: int = 8,
) -> list[str]:
    """Up to `most` options of a parser, some twice; `known` has values worth trying, by dest."""
    actions = list(parser._actions)
    words: list[str] = []
    for _ in range(rng.randint(0, most)):
        action = rng.choice(actions)
        if action.default is argparse.SUPPRESS and action.nargs == 0 and rng.random() < 0.95:
            continue  # it prints and exits, as --help does
        if isinstance(action, argparse._SubParsersAction):
            name = rng.choice(list(action.choices))
            return [*words, name, *command_line(rng, action.choices[name], known, most)]
        value = _value(rng, action, known.get(action.dest, ()))
        flag = _flag(rng, action)
        takes_one = action.nargs != 0
        if flag is None:
            words.append(value)
        elif rng.random() < 0.03 or not takes_one:
            words.append(flag)  # also a value that is missing
        else:
            words += [f"{flag}={value}"] if rng.random() < 0.5 else [flag, value]
    return words


def _flag(rng: random.Random, action: argparse.Action) -> str | None:
    """None for a positional argument; rarely misspelt."""
    if not action.option_strings:
        return None
    flag = rng.choice(action.option_strings)
    return flag[:-1] if rng.random() < 0.02 else flag


def _value(rng: random.Random, action: argparse.Action, known: Sequence[str]) -> str:
    likely = [*known, *map(str, action.choices or ())]
    if not likely or rng.random() < 0.15:
        return rng.choice(WORDS)
    return ",".join(rng.choice(likely) for _ in range(rng.choice((1, 1, 1, 2, 3))))


def _changed(rng: random.Random, document: Any) -> Any:
    """With one value changed, or its key taken away."""
    path = rng.choice(list(_paths(document)))
    if not path:
        return rng.choice((copy.deepcopy(rng.choice(VALUES)), [document], {"x": document}))
    parent = document
    for step in path[:-1]:
        parent = parent[step]
    key, value = path[-1], parent[path[-1]]
    change = rng.choice(("delete", "replace", "replace", "nest", "retype", "rename"))
    if change == "delete":
        del parent[key]
    elif change == "rename" and isinstance(parent, dict):
        parent[rng.choice(("", "x", f"{key} ", "schema", "\ud800"))] = parent.pop(key)
    elif change == "nest":
        parent[key] = rng.choice(([value], {"x": value}, [value] * 1_000))
    elif change == "retype":
        parent[key] = rng.choice((str(value), [value], bool(value), None, f"{value}x"))
    else:
        parent[key] = copy.deepcopy(rng.choice(VALUES))
    return document


def _paths(document: Any, above: Steps = ()) -> list[Steps]:
    """The way to every value; of a long list, to the first and last three."""
    found = [above]
    keys: Sequence[Any] = ()
    if isinstance(document, dict):
        keys = list(document)
    elif isinstance(document, list):
        keys = [k for k in range(len(document)) if k < 3 or k >= len(document) - 3]
    for key in keys:
        found += _paths(document[key], (*above, key))
    return found


def _mutated_lines(rng: random.Random, kind: str, data: bytes) -> bytes:
    """One line deleted, repeated, moved, or changed by itself."""
    lines = data.splitlines(keepends=True)
    place = rng.randrange(len(lines))
    line = lines.pop(place)
    change = rng.choice(("delete", "repeat", "move", "cut", "change", "change", "change"))
    if change == "repeat":
        lines[place:place] = [line] * 3
    elif change == "move":
        lines.insert(rng.randrange(len(lines) + 1), line)
    elif change == "cut":
        lines.insert(place, line[: rng.randrange(len(line))])
    elif change == "change":
        lines.insert(place, _changed_line(rng, kind, line))
    return b"".join(lines)


def _changed_line(rng: random.Random, kind: str, line: bytes) -> bytes:
    if kind == "jsonl":
        return mutated_json(rng, json.loads(line)).encode() + b"\n"
    if kind == "csv":
        cells = line.rstrip(b"\n").split(b",")
        word = rng.choice(WORDS).encode(errors="surrogateescape")
        cells[rng.randrange(len(cells))] = word
        return b",".join(cells) + b"\n"
    return mutated_bytes(rng, line)
