"""docs/run-folder.md: the keys of all documents, with type, unit and meaning, from their classes.

python3 -m tests.documentation        rewrites the tables of the page
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

from cluster.spec.documents import events
from cluster.spec.documents.codec import hints
from cluster.spec.documents.environment import Environment
from cluster.spec.documents.field_docs import field_docs
from cluster.spec.documents.links import Links
from cluster.spec.documents.membership import Membership
from cluster.spec.documents.records import GpuSample, HostSample, Sample
from cluster.spec.documents.session_plan import SessionPlan
from cluster.spec.documents.summary import Summary
from cluster.spec.experiment import Experiment

PAGE = Path(__file__).resolve().parents[1] / "docs" / "run-folder.md"
DOCUMENTS: dict[str, type] = {
    "spec": Experiment,
    "samples": Sample,
    "gpu_samples": GpuSample,
    "host": HostSample,
    "links": Links,
    "environment": Environment,
    "summary": Summary,
    "session": SessionPlan,
    "membership": Membership,
    "event": events.Event,
    "boundary": events.Boundary,
    **events.KINDS,
}
NAMES = {int: "integer", float: "number", str: "text", bool: "true or false"}
UNITS = {
    "bytes_per_s": "bytes/s",
    "_bytes": "bytes",
    "_bytes_by_node": "bytes",
    "sent_rate": "bytes/s",
    "received_rate": "bytes/s",
    "_s": "s",
    "seconds": "s",
    "interval": "s",
    "bucket_mb": "MiB",
    "_ms": "ms",
    "_mbit": "Mbit/s",
    "_percent": "%",
}
"""By the end of a key."""
MARKED = re.compile(r"(<!-- keys of (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
HEAD = "| key | type | unit | meaning |\n|---|---|---|---|\n"


def rewrite(page: str) -> str:
    """The page with its tables as the classes are now."""
    return MARKED.sub(lambda found: f"{found[1]}\n{tables(DOCUMENTS[found[2]])}\n{found[3]}", page)


def tables(kind: type) -> str:
    """A table of the keys; then one, with a heading, for each part that is a class of its own."""
    return "\n".join(_tables(kind, ""))


def _tables(kind: type, prefix: str) -> Iterator[str]:
    rows, parts = "", dict[type, list[str]]()
    for name, hint, meaning in _keys(kind):
        rows += _row(prefix + name, hint, meaning)
        if hasattr(part := without_null(hint), "__annotations__"):
            is_list = _type(hint).startswith("list")
            parts.setdefault(part, []).append(f"{name}[]" if is_list else name)
    yield HEAD + rows if rows else "No further keys.\n"
    for part, names in parts.items():
        heading = ", ".join(prefix + name.removesuffix("[]") for name in names)
        yield f"### {heading}\n\n{inspect.getdoc(part)}\n"
        yield from _tables(part, f"{prefix}{names[0] if len(names) == 1 else '*'}.")


def _keys(kind: type) -> Iterator[tuple[str, Any, str]]:
    """Key, type and meaning. In a row of a CSV file the keys of a part are columns, too."""
    docs = _docs(kind)
    for name, hint in hints(kind).items():
        if hasattr(kind, "COLUMNS") and hasattr(hint, "__annotations__"):
            yield from _keys(hint)
        elif name in docs:
            yield name, hint, docs[name]


def _docs(kind: type) -> dict[str, str]:
    """Key -> meaning; of an event only its own, without those of Event and Boundary."""
    ours = [each for each in kind.__mro__ if each.__module__ == kind.__module__]
    classes = [kind] if issubclass(kind, events.Event) else ours
    return {name: text for each in reversed(classes) for name, text in field_docs(each).items()}


def _row(key: str, hint: Any, meaning: str) -> str:
    text = meaning[0].upper() + meaning[1:].rstrip(".").replace("|", "\\|")
    kind = _type(hint)
    unit = "" if "object" in kind else _unit(key)
    return f"| `{key}` | {kind} | {unit} | {text} |\n"


def _unit(key: str) -> str:
    return "s" if key == "t" else next((u for end, u in UNITS.items() if key.endswith(end)), "")


def _type(hint: Any) -> str:
    """In words; what may be null says so."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _type(arguments[0])
    if origin is dict:
        return "object"
    if origin in (list, tuple):
        return f"list of {_type(arguments[0])}"
    if NoneType in arguments:
        return f"{_type(arguments[0])}, null"
    if arguments:
        return " or ".join(map(_type, arguments))
    return NAMES.get(hint, "array" if issubclass(hint, tuple) else "object")


def without_null(hint: Any) -> Any:
    """The type itself, without null, list and range."""
    while get_origin(hint) is not dict and get_args(hint):
        hint = get_args(hint)[0]
    return hint


def write() -> None:
    PAGE.write_text(rewrite(PAGE.read_text()))
