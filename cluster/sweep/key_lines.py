"""In which line of a TOML file each key is, which tomllib does not tell. Pure."""

import re

KeyPath = tuple[str | int, ...]
"""From the top: ("runs", 2, "epochs") is the key `epochs` of the third table in `runs`."""

TOKEN = re.compile(
    r"""
    (?:\A|\n)[ \t]*(?P<header>\[\[?[^\[\]\n]+\]\]?)
    | \#[^\n]* | \"{3}(?:\\.|[^\\])*?\"{3} | '{3}.*?'{3}
    | (?P<key>(?:[\w-]+|"[^"\n]*"|'[^'\n]*')(?:\.(?:[\w-]+|"[^"\n]*"|'[^'\n]*'))*)[ \t]*=
    | "(?:\\.|[^"\\\n])*" | '[^'\n]*' | [\w.+-]+
    | (?P<bracket>[\[\]{},])
    """,
    re.VERBOSE | re.DOTALL,
)


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line of every table and key of a document that tomllib can read."""
    found: dict[KeyPath, int] = {}
    sizes: dict[KeyPath, int] = {}
    table: KeyPath = ()
    value: KeyPath = ()
    """Where the value belongs that comes next."""
    nested: list[tuple[str, KeyPath]] = []
    """Open brackets, and where their content belongs."""
    for token in TOKEN.finditer(text):
        line = text.count("\n", 0, token.end()) + 1
        if (header := token["header"]) and not nested:
            table = _table(header, sizes)
            found.setdefault(table, line)
        elif key := token["key"]:
            value = (nested[-1][1] if nested else table) + _parts(key)
            found[value] = line
        elif bracket := token["bracket"]:
            value = _follow(bracket, nested, value)
            if bracket == "{":
                found.setdefault(value, line)
    return found


def _follow(bracket: str, nested: list[tuple[str, KeyPath]], value: KeyPath) -> KeyPath:
    """Enter or leave an array or inline table; in an array a comma goes on to the next value."""
    if bracket in "[{":
        nested.append((bracket, value))
        return (*value, 0) if bracket == "[" else value
    if bracket in "]}":
        return nested.pop()[1]
    if nested and nested[-1][0] == "[":
        index = value[len(nested[-1][1])]
        assert isinstance(index, int)
        return (*nested[-1][1], index + 1)
    return value


def _table(header: str, sizes: dict[KeyPath, int]) -> KeyPath:
    """The path of [name] or [[name]]; inside an array of tables, its last one is meant."""
    path: KeyPath = ()
    *outer, last = _parts(header.strip("[] \t"))
    for part in outer:
        path += (part,)
        if path in sizes:
            path += (sizes[path] - 1,)
    path += (last,)
    if header.startswith("[["):
        sizes[path] = sizes.get(path, 0) + 1
        path += (sizes[path] - 1,)
    return path


def _parts(key: str) -> tuple[str, ...]:
    return tuple(part.strip(" \t\"'") for part in key.split("."))
