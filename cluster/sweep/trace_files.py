"""Files of link traces, read into the option: 2:lte.csv becomes 2:0s=31mbit/1s=28mbit/..."""

from pathlib import Path
from typing import Any

from cluster.spec.errors import FileError
from cluster.spec.link_trace import FORM, parse_place, read_trace, write_traces
from cluster.spec.links import NONE

Options = dict[str, Any]
MOST_BYTES = 20_000_000


def read_into(options: Options) -> Options:
    """The options of a run, with traces in place of the names of their files."""
    given = options.get("link_trace")
    if given is None:
        return options
    return {**options, "link_trace": ",".join(map(_read, str(given).split(",")))}


def _read(part: str) -> str:
    place, _, name = (piece.strip() for piece in part.partition(":"))
    if "=" in name:  # the trace itself
        return part.strip()
    if not name:
        raise FileError(f"link-trace {part.strip()!r} is not {FORM}")
    try:
        with Path(name).expanduser().open("rb") as file:
            text = file.read(MOST_BYTES).decode()
        return write_traces({parse_place(place): read_trace(text)})
    except OSError as error:
        raise FileError(f"link-trace {name} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise FileError(f"link-trace {name}: {error}") from None


def beside(preset: Path, value: str) -> str:
    """An option of a sweep file: files are named relative to it."""
    if value == NONE:
        return value
    parts = (part.partition(":") for part in value.split(","))
    return ",".join(
        f"{place}:{name if '=' in name else preset.parent / name.strip()}"
        for place, _, name in parts
    )
