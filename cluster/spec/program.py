"""A user's program as an experiment: which options it takes, and what its command means.

./measure.sh [OPTION ...] -- train.py ARGS      the script, in its own folder
./measure.sh [OPTION ...] -- python -m pkg ARGS   a module, in the current folder

It is stored as one text, quoted as for a shell, without `python`. How it trains is its own matter:
options of our training are refused, and null in its spec.json.
"""

from __future__ import annotations

import dataclasses
import functools
import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cluster.spec import own_code
from cluster.spec.errors import SpecError

if TYPE_CHECKING:
    from cluster.spec.experiment import Experiment

GROUPS = ("cluster", "program")
"""Groups of options that apply to a program; of the others, only ALSO."""
ALSO = ("strategy", "seed")
EXCEPT = ("gpu", "timeline", "virtual")
LAUNCHERS = ("torch", "horovod")
ISOLATED, HOST_ACCESS = "isolated", "host-access"
NETWORKS = {
    ISOLATED: "the other nodes and nothing else",
    HOST_ACCESS: "also this host, as host.docker.internal, and what it reaches",
}
FORMS = "train.py ARGS, python train.py ARGS or python -m MODULE ARGS"
PYTHON = re.compile(r"python3?(\.\d+)?")
MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
WITHOUT = {"model": "none", "dataset": "none", "epochs": 1}
"""What stands in a program's Experiment for options that it does not have."""


def applies(field: dataclasses.Field[Any]) -> bool:
    """Whether an option applies to programs."""
    is_ours = field.metadata["group"] in GROUPS or field.name in ALSO
    return is_ours and field.name not in EXCEPT


def words(program: str) -> list[str]:
    """The command's words after `python`: FILE.py ARGS, or -m MODULE ARGS. SpecError otherwise."""
    try:
        found = shlex.split(program)
    except ValueError as error:
        raise SpecError(f"program {program!r} is no command: {error}") from None
    return plain_words(found)


def plain_words(command: Sequence[str]) -> list[str]:
    found = list(command)
    if found and PYTHON.fullmatch(posixpath.basename(found[0])):
        found = found[1:]
    if not found:
        raise SpecError(f"program: there is no command after --; use -- {FORMS}")
    if found[0] == "-m":
        if len(found) < 2 or not MODULE.fullmatch(found[1]):
            raise SpecError(f"program: -m takes the name of a module; use -- {FORMS}")
    elif not found[0].endswith(".py"):
        raise SpecError(f"program {found[0]!r} is no Python file or module; use -- {FORMS}")
    return found


def name(program: str) -> str:
    """What tables call it: train.py, or -m pkg."""
    first, *rest = words(program)
    return f"-m {rest[0]}" if first == "-m" else posixpath.basename(first)


def arguments(program: str) -> str:
    """What follows the program's name, as it is typed."""
    first, *rest = words(program)
    return shlex.join(rest[1:] if first == "-m" else rest)


def tells_apart(option: str, specs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether runs with these options differ in this one, as far as it applies to them.

    Programs of different names are told apart by them, those of one name by their arguments.
    """
    if option == "program":
        given = {(spec["strategy"], spec.get(option)) for spec in specs if spec.get(option)}
        return len(given) > len({strategy for strategy, _ in given})
    of = [spec for spec in specs if not spec.get("program") or option in _taken()]
    usual = ISOLATED if option == "network" else None  # of runs older than the option
    values = [usual if spec.get(option) is None else spec[option] for spec in of]
    return any(value != values[0] for value in values)


@functools.cache
def _taken() -> frozenset[str]:
    from cluster.spec.experiment import Experiment

    return frozenset(field.name for field in dataclasses.fields(Experiment) if applies(field))


def complete(experiment: Experiment) -> None:
    """Fill in what a program has, and refuse what it does not take."""
    assert experiment.program is not None
    called = name(experiment.program)
    for field in dataclasses.fields(experiment):
        given = getattr(experiment, field.name)
        if not applies(field) and given not in (field.default, WITHOUT.get(field.name), None):
            raise SpecError(
                f"{field.name} does not apply to a program, which trains as it likes; leave it"
                f" out, or hand it to {called} among its own arguments"
            )
    if experiment.strategy not in (type(experiment).strategy, called):
        raise SpecError(f"strategy {experiment.strategy} does not apply to the program {called}")
    if experiment.launcher not in LAUNCHERS:
        raise SpecError(
            f"launcher {experiment.launcher} does not apply to a program: use"
            f" {' or '.join(LAUNCHERS)}"
        )
    if experiment.folder is None:
        raise SpecError("program needs the folder that it is in")
    for option, value in {**WITHOUT, "strategy": called}.items():
        object.__setattr__(experiment, option, value)


def refuse_alone(experiment: Experiment) -> None:
    """SpecError for options of programs where there is none."""
    named = own_code.files_of({name: getattr(experiment, name) for name in own_code.OPTIONS})
    named |= {"model": ""} if own_code.pretrained_folder(experiment.model) else {}
    alone = ("nproc_per_node", "network")
    for option in alone if named else ("folder", *alone):
        default = type(experiment).__dataclass_fields__[option].default
        if getattr(experiment, option) != default:
            raise SpecError(f"{option} is for a program: use it with -- {FORMS}")
