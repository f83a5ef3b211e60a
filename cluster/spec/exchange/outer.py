"""The outer optimiser (--outer): what is done with the mean of the workers' local training.

A worker trains locally from the anchor, its parameters after the last round. The outer delta is
the mean of the parameters now less the anchor; the outer optimiser takes it as minus a gradient:

    sgd:LR                  anchor + LR delta
    nesterov:LR:MOMENTUM    v = MOMENTUM v + delta;  anchor + LR (delta + MOMENTUM v)

sgd:1 takes the mean itself, which is what `none` does.
"""

from dataclasses import dataclass

FORMS = ("none", "sgd:LR", "nesterov:LR:MOMENTUM")
MOST_LR = 100.0


@dataclass(frozen=True)
class Outer:
    lr: float
    momentum: float = 0.0

    @property
    def takes_the_mean(self) -> bool:
        return self.lr == 1 and self.momentum == 0


def parse_outer(text: str) -> Outer | None:
    """None for `none`; ValueError for what is no outer optimiser."""
    if text == "none":
        return None
    name, *numbers = text.split(":")
    wanted = {"sgd": 1, "nesterov": 2}.get(name)
    if wanted is None or len(numbers) != wanted:
        raise ValueError(f"must be one of {', '.join(FORMS)}, not {text!r}")
    try:
        values = [float(number) for number in numbers]
    except ValueError:
        raise ValueError(f"must be one of {', '.join(FORMS)}, not {text!r}") from None
    if not 0 < values[0] <= MOST_LR:
        raise ValueError(f"LR must be above 0 and up to {MOST_LR:g}, not {numbers[0]}")
    if wanted == 2 and not 0 <= values[1] < 1:
        raise ValueError(f"MOMENTUM must be at least 0 and below 1, not {numbers[1]}")
    return Outer(*values)
