"""What is above the answers: the preset or what was compared, the date, the command."""

import contextlib
import shlex
import tomllib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from analysis.report.context import Report
from analysis.report.page import Headline
from analysis.report.references.papers import Preset, papers, preset_of
from analysis.tables.labels import in_common
from cluster.observe.units import list_names

PRESETS = Path(__file__).resolve().parents[3] / "workloads" / "presets"
MOST_NAMES = 6


def headline(report: Report) -> Headline:
    sessions = [str(name) for name in report.runs.table["session"].unique()]
    environment = report.environments.get(sessions[0]) if len(sessions) == 1 else None
    about = [_dates(sessions), _runs(report)]
    about += [in_common(report.runs.completed)]
    command = _command(environment.command) if environment else ""
    preset = preset_of(environment.command if environment else ())
    title = _preset_title(preset) if preset.name else _compared(report, len(sessions))
    return Headline(title, ". ".join(filter(None, about)) + ".", command)


def _command(words: Sequence[str]) -> str:
    """Without --output: where the files are is not what was run."""
    kept = [
        word
        for before, word in zip(["", *words], words, strict=False)
        if "--output" not in (before, word.partition("=")[0])
    ]
    return shlex.join(kept)


def _dates(sessions: list[str]) -> str:
    """A session's name begins with its date: 20261118-070637-19c2."""
    days = []
    for session in sessions:
        try:
            days.append(datetime.strptime(session[:15], "%Y%m%d-%H%M%S"))
        except ValueError:
            return ""
    first, last = (f"{day.day} {day:%B %Y}" for day in (min(days), max(days)))
    if len(days) == 1:
        return f"{first}, {days[0]:%H:%M}"
    return first if first == last else f"{first} to {last}"


def _runs(report: Report) -> str:
    """How many runs and configurations."""
    runs, kinds = len(report.runs.table), len(report.configurations)
    text = f"{runs} run{'' if runs == 1 else 's'}"
    if 1 < kinds < runs:
        text += f" of {kinds} configurations"
    lost = runs - len(report.runs.completed)
    return text + (f", {lost} of them not completed" if lost else "")


def _preset_title(preset: Preset) -> str:
    """The preset's own words, and whose table it fills."""
    name = Path(preset.name).stem
    quick = " (quick)" if preset.is_quick else ""
    about = next((paper.title for paper in papers() if name.startswith(paper.preset)), "")
    with contextlib.suppress(OSError, ValueError, KeyError):  # a preset of the user's own
        about = str(tomllib.loads((PRESETS / f"{name}.toml").read_text("utf-8"))["title"])
    return f"{name}{quick}: {about}" if about else f"Preset {name}{quick}"


def _compared(report: Report, sessions: int) -> str:
    table = report.runs.table
    strategies = [str(name) for name in table["strategy"].dropna().unique()]
    names = f"{len(strategies)} strategies"
    if 0 < len(strategies) <= MOST_NAMES:
        names = list_names(strategies)
    models = [str(name) for name in table["model"].dropna().unique()]
    text = f"{names}, {models[0]}" if len(models) == 1 else names
    return f"{text}: {sessions} sessions" if sessions > 1 else text
