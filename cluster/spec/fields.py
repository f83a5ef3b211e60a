"""What all checks of an Experiment use: its fields are set, and an option's text is parsed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from cluster.spec.errors import SpecError

if TYPE_CHECKING:
    from cluster.spec.experiment import Experiment

T = TypeVar("T")


def set_fields(experiment: Experiment, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(experiment, name, value)


def parsed(option: str, parse: Callable[[str], T], text: str) -> T:
    """SpecError, which names the option, where the text is none of what it takes."""
    try:
        return parse(text)
    except ValueError as error:
        raise SpecError(f"{option}: {error}") from None
