"""The user's own files of a run, found and checked on the host, where they are never imported.

What was typed becomes the folder that the files have in common, which nodes see read-only, their
names in it, and a digest of their text.
"""

import os
from pathlib import Path
from typing import Any

from cluster.host import user_folders
from cluster.spec import own_code
from cluster.spec.errors import SpecError
from cluster.sweep import sites_file, trace_files

Options = dict[str, Any]


def locate(options: Options) -> Options:
    """The options of a run with `folder` and names relative to it; SpecError for a wrong file."""
    files = own_code.files_of(options)
    pretrained = own_code.pretrained_folder(options.get("model"))
    if options.get("program") is not None or not (files or pretrained):
        return options
    owns = {option: own_code.parse(option, options[option]) for option in files}
    paths = {option: user_folders.find_file(option, own.file) for option, own in owns.items()}
    texts = [own_code.check_source(option, owns[option], paths[option]) for option in files]
    if pretrained:
        paths["model"] = user_folders.find_folder("model", pretrained)
    folder = _folder(options.get("folder"), paths)
    named = {option: _named(options[option], paths[option], folder) for option in files}
    if pretrained:
        named["model"] = f"hf:{paths['model'].relative_to(folder)}"
    sha256 = {"code_sha256": own_code.digest(texts)} if texts else {}
    return {**options, **named, "folder": str(folder), **sha256}


def _folder(given: str | None, paths: dict[str, Path]) -> Path:
    """What nodes see: the folder that was asked for, or the one that the files have in common."""
    option, path = next(iter(paths.items()))
    if given is None:
        common = os.path.commonpath([path.parent for path in paths.values()])
        return user_folders.find_folder(f"{option} {path.name}: folder", common)
    folder = user_folders.find_folder("folder", given)
    for option, path in paths.items():
        if not path.is_relative_to(folder):
            raise SpecError(f"folder {folder} does not hold the {option}'s file {path}")
    return folder


def _named(value: str, path: Path, folder: Path) -> str:
    _, colon, name = value.partition(":")
    return f"{path.relative_to(folder)}{colon}{name}"


def beside(preset: Path, name: str, value: Any) -> Any:
    """An option of a sweep file: files of one's own are named relative to it."""
    if isinstance(value, list):
        return [beside(preset, name, item) for item in value]
    if name == "sites" and sites_file.is_file(value):
        return str(preset.parent / value)
    if name == "link_trace":
        return trace_files.beside(preset, str(value))
    if name not in own_code.OPTIONS:
        return value
    return str(preset.parent / value) if own_code.is_own(value) else value
