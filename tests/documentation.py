"""The documentation as data: its pages, the commands and paths in them, and the tree of modules.

python3 -m tests.documentation        writes the tree of modules into docs/architecture.md, and the
                                     tables of docs/run-folder.md
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import run_folder_page

PROJECT = Path(__file__).resolve().parent.parent
PAGES = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted(PROJECT.glob("docs/*.md"))]
ARCHITECTURE = PROJECT / "docs" / "architecture.md"
PACKAGES = ("cluster", "workloads", "analysis")
START, END = "<!-- tree -->", "<!-- end tree -->"
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
BEGIN = re.compile(r"(\./measure\.sh|\./test\.sh|(\.venv/bin/)?python3? -m|docker compose) ")


@dataclass(frozen=True)
class Command:
    page: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}: {' '.join(self.words)}"

    @property
    def flags(self) -> list[str]:
        return [word.partition("=")[0] for word in self.words if word.startswith("--")]


def without_tree(page: Path) -> str:
    return re.sub(f"{START}.*?{END}", "", page.read_text(), flags=re.DOTALL)


def code_lines(text: str) -> Iterator[str]:
    """Lines of indented blocks, with continued lines joined, and code between backticks."""
    joined = re.sub(r"\\\n\s*", " ", text)
    for line in FENCE.sub("", joined).splitlines():
        if line.startswith("    "):
            yield line.strip()
        else:
            yield from CODE.findall(line)


def commands() -> list[Command]:
    """Every command of every page, from its name on, without comments and redirections."""
    found = {}
    for page in PAGES:
        for line in code_lines(without_tree(page)):
            begin = BEGIN.search(f"{line} ")
            if begin is None:
                continue
            text = re.split(r"\s{2,}#|\s#\s|[;|>]", line[begin.start() :])[0]
            command = Command(page.name, tuple(shlex.split(text)))
            found[str(command)] = command
    return list(found.values())


def flags_in_prose() -> Iterator[tuple[str, str]]:
    """Code between backticks that begins with a flag, such as `--link 20mbit`."""
    for page in PAGES:
        for code in CODE.findall(without_tree(page)):
            if match := re.match(r"--[a-z][a-z-]*", code):
                yield page.name, match[0]


def links() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for target in LINK.findall(without_tree(page)):
            if not target.startswith(("http://", "https://")):
                yield page, target


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def paths() -> Iterator[tuple[str, str]]:
    """Code between backticks or in blocks that names a file or folder of the project."""
    folders = "|".join((*PACKAGES, "bench", "docker", "compose", "docs", "tests"))
    pattern = re.compile(rf"(?<![\w/.~-])(?:{folders})/[\w./*-]*[\w/*]")
    for page in PAGES:
        for line in code_lines(without_tree(page)):
            for path in pattern.findall(line):
                yield page.name, path.replace("NAME", "*")


def module_tree() -> str:
    """Every package and module of the project with the first line of its docstring."""
    lines: list[str] = []
    for package in PACKAGES:
        lines += _folder(PROJECT / package, "")
    return "\n".join(lines)


def _folder(folder: Path, indent: str) -> list[str]:
    lines = [_entry(f"{indent}{folder.name}/", folder / "__init__.py")]
    modules = sorted(folder.glob("*.py"))
    lines += [_entry(f"{indent}  {path.name}", path) for path in modules if path.stem != "__init__"]
    for inner in sorted(folder.iterdir()):
        if (inner / "__init__.py").exists():
            lines += _folder(inner, f"{indent}  ")
    return lines


def _entry(name: str, path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return f"{name:<30} {docstring.partition(chr(10))[0].rstrip('.:')}".rstrip()


def tree_in_page() -> str:
    return ARCHITECTURE.read_text().partition(START)[2].partition(END)[0].strip().strip("`").strip()


def write_tree() -> None:
    text = ARCHITECTURE.read_text()
    before, after = text.partition(START)[0], text.partition(END)[2]
    ARCHITECTURE.write_text(f"{before}{START}\n```\n{module_tree()}\n```\n{END}{after}")


if __name__ == "__main__":
    write_tree()
    run_folder_page.write()
