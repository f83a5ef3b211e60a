"""README and docs/ name commands, flags, files and modules that exist, and leave out none."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import itertools
import re
import subprocess
import sys
import typing
from pathlib import Path

import nbclient
import nbformat
import pytest

from bench.__main__ import NAMES
from cluster import presets
from cluster.flags import make_parser, parse
from cluster.plan import make_experiments
from cluster.spec.catalogue import WORKLOADS
from cluster.spec.documents import summary
from cluster.spec.exchange.strategies import STRATEGIES
from cluster.spec.launchers import LAUNCHERS
from cluster.spec.schedules.consensus import SCHEDULE_CHOICES
from tests import documentation
from tests.documentation import PROJECT, Command

COMMANDS = documentation.commands()
MODULES = [command for command in COMMANDS if command.words[1:2] == ("-m",)]
OURS = ("analysis", "workloads", "cluster", "bench")
STOPS_EARLY = {"--help", "--help-all", "--version", "--doctor"}
WITH_FLAGS = [c for c in MODULES if c.flags and c.words[2].partition(".")[0] in OURS]
"""Commands of ours whose options are looked up in their help; others may know no --help."""
FOREIGN_FLAGS = {
    *("--exit-code-from", "--env-file", "--build", "--scale", "--detach", "--profile"),  # Compose
    *("--nnodes", "--nproc-per-node", "--node-rank", "--master-addr", "--master-port"),  # torchrun
}


@functools.cache
def help_of(*words: str) -> str:
    """What a program of ours says of its options."""
    command = [sys.executable, "-m", *words]
    return subprocess.run(
        command, cwd=PROJECT, capture_output=True, text=True, check=True, timeout=60
    ).stdout


def measure_flags() -> set[str]:
    return {flag for action in make_parser()._actions for flag in action.option_strings}


def flags_of(*words: str) -> set[str]:
    return set(re.findall(r"--[a-z][a-z-]*", help_of(*words)))


def program(command: Command) -> tuple[str, ...]:
    """The words that name a program and its part: bench links, workloads.data fetch."""
    module, *rest = command.words[2:]
    has_parts = module == "bench" or rest[:1] in (["fit"], ["need"], ["fetch"], ["status"])
    if not has_parts or not rest or rest[0].startswith("-"):
        return (module,)
    return (module, NAMES[0] if rest[0] == "NAME" else rest[0])


def test_the_pages_have_commands_of_every_kind() -> None:
    """Else the tests below would hold because nothing was found."""
    starts = {" ".join(command.words[:2]) for command in COMMANDS}
    assert {"python3 -m", "docker compose"} <= starts
    assert len([c for c in COMMANDS if c.words[0] == "./measure.sh"]) > 40


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.words[0] == "./measure.sh"], ids=str)
def test_a_measure_command_is_accepted(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its runs are planned; nothing is started. A program is any script of that name."""
    if "--" in command.words:
        monkeypatch.chdir(tmp_path)
        for name in (word for word in command.words if word.endswith((".py", ".txt"))):
            (tmp_path / name).write_text("einops\n")
            tmp_path.chmod(0o755)
        assert make_experiments(parse(list(command.words[1:])))
    elif set(command.flags) & STOPS_EARLY:
        assert set(command.flags) <= measure_flags()
    else:
        words = [word.replace("lab/mine.py", "docs/examples/star.py") for word in command.words]
        assert make_experiments(parse(words[1:]))


@pytest.mark.parametrize(
    ("page", "example"), [("strategy", "star"), ("strategy", "halved"), ("model", "net")]
)
def test_an_example_in_a_page_is_the_file_that_tests_run(page: str, example: str) -> None:
    text = (PROJECT / "docs" / "examples" / f"{example}.py").read_text().strip()
    assert f"```python\n{text}\n```" in (PROJECT / "docs" / f"your-own-{page}.md").read_text()


@pytest.mark.parametrize("command", MODULES, ids=str)
def test_programs_and_their_flags_exist(command: Command) -> None:
    words = program(command)
    assert command.words[0] != "python", "Debian and Ubuntu have only python3"
    assert importlib.util.find_spec(words[0])
    if command in WITH_FLAGS:
        assert set(command.flags) <= flags_of(*words, "--help")


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.words[0] == "docker"], ids=str)
def test_compose_files_and_profiles_exist(command: Command) -> None:
    words = command.words
    files = [Path(PROJECT, b) for a, b in itertools.pairwise(words) if a == "-f"]
    files = [file for file in files if file.parent != PROJECT and "runs" not in file.parts]
    text = "".join(file.read_text() for file in files)
    for flag, name in itertools.pairwise(words):
        if flag == "--profile":
            assert name in text


def test_flags_named_in_prose_exist() -> None:
    ours = measure_flags().union(*(flags_of(*program(command), "--help") for command in WITH_FLAGS))
    unknown = {f for f in documentation.flags_in_prose() if f[1] not in ours | FOREIGN_FLAGS}
    assert unknown == set()


@pytest.mark.parametrize(
    ("page", "target"), documentation.links(), ids=lambda value: str(value).rpartition("/")[2]
)
def test_links_lead_somewhere(page: Path, target: str) -> None:
    path, _, anchor = target.partition("#")
    found = page.parent / path if path else page
    assert found.exists()
    assert not anchor or anchor in documentation.anchors(found)


def test_files_named_in_the_pages_exist() -> None:
    named = set(documentation.paths())
    assert {
        (page, path) for page, path in named if not list(PROJECT.glob(path.rstrip("/")))
    } == set()


def test_variables_named_in_the_pages_are_read_somewhere() -> None:
    sources = [*PROJECT.glob("*/**/*.py"), *PROJECT.glob("*/*.sh"), *PROJECT.glob("compose/*.yml")]
    text = "".join(path.read_text() for path in sources if ".venv" not in path.parts)
    for page in documentation.PAGES:
        for name in re.findall(r"GRADWIRE_[A-Z_]+", page.read_text()):
            assert name in text, page.name


def test_keys_of_the_summary_named_in_the_pages_exist() -> None:
    hints = typing.get_type_hints(summary.Summary)
    parts = {
        name: {field.name for part in typing.get_args(hint) for field in _fields(part)}
        for name, hint in hints.items()
    }
    for page in set(documentation.PAGES) - {PROJECT / "docs/run-folder.md"}:  # generated
        for name, key in re.findall(r"`(\w+)\.(?!json|csv|py)(\w+)`", page.read_text()):
            assert not parts.get(name) or key in parts[name], f"{page.name}: {name}.{key}"


def _fields(kind: object) -> tuple[dataclasses.Field[object], ...]:
    return (
        dataclasses.fields(kind)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind)
        else ()
    )


def test_the_tree_in_the_architecture_page_is_the_tree() -> None:
    """python3 -m tests.documentation writes it."""
    assert documentation.tree_in_page() == documentation.module_tree()


def test_the_readme_is_short_and_lists_every_page() -> None:
    readme = (PROJECT / "README.md").read_text()
    assert len(readme.splitlines()) <= 170
    for page in PROJECT.glob("docs/*.md"):
        assert f"(docs/{page.name})" in readme


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("docs/strategies.md", [*STRATEGIES, *SCHEDULE_CHOICES]),
        ("docs/workloads.md", [*WORKLOADS, *presets.names()]),
        ("docs/horovod-and-spark.md", [n for n, row in LAUNCHERS.items() if not row.on_hosts_only]),
        ("docs/several-hosts.md", [n for n, row in LAUNCHERS.items() if row.on_hosts_only]),
        ("README.md", STRATEGIES),
    ],
)
def test_a_page_leaves_out_no_name(page: str, names: list[str]) -> None:
    text = (PROJECT / page).read_text()
    assert [name for name in names if f"`{name}`" not in text] == []


def test_every_benchmark_has_a_section_with_date_and_command() -> None:
    text = (PROJECT / "docs/benchmarks.md").read_text()
    for name in NAMES:
        section = text.partition(f"<!-- bench {name} -->")[2].partition(f"<!-- end {name} -->")[0]
        assert f"python3 -m bench {name}" in section
        assert re.search(r"20\d\d-\d\d-\d\d", section) or "Not measured" in section


def test_the_notebook_of_the_report_page_runs(tmp_path: Path) -> None:
    """A real kernel executes the cells of docs/report.md on the recorded runs."""
    text = (PROJECT / "docs/report.md").read_text()
    cells = re.findall(r"<!-- notebook -->\n```python\n(.*?)```", text, re.DOTALL)
    assert len(cells) == 2
    (tmp_path / "runs").symlink_to(PROJECT / "tests" / "data" / "runs")
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell(cell)
            for cell in (f"import sys; sys.path.insert(0, {str(PROJECT)!r})", *cells)
        ]
    )
    client = nbclient.NotebookClient(
        notebook, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    (table,) = notebook.cells[1].outputs
    assert "allreduce" in table["data"]["text/html"]
    assert notebook.cells[2].outputs
