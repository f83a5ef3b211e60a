"""Which time dilation each run has: `auto` becomes a number, and is told once for each."""

from collections.abc import Callable

from cluster.engine import EngineUnavailable
from cluster.spec.dilation import AUTO, UNDILATED, least_dilation
from cluster.spec.experiment import Experiment


class Dilations:
    """Of the runs of a session, on an engine whose nodes share `cores()`."""

    def __init__(self, cores: Callable[[], int], say: Callable[[str], None]) -> None:
        self._cores, self._say = cores, say
        self._told: set[str] = set()

    def of(self, run: Experiment) -> float:
        if run.dilation != AUTO:
            if run.slowdown != 1:
                self._tell(f"dilation {run.slowdown:g}: {_meaning(run.slowdown)}")
                self._warn_of_too_little(run)
            return run.slowdown
        try:
            cores = self._cores()
        except EngineUnavailable as error:
            self._tell(f"dilation 1 (none), since {error.reason}")
            return UNDILATED
        node_cores = sum(run.cores_by_rank.values())
        found = least_dilation(node_cores, cores)
        if found != 1:
            self._tell(
                f"dilation {found:g}, since {run.nodes} nodes want {node_cores:g} cores and"
                f" {cores} are here: {_meaning(found)}"
            )
        return found

    def _warn_of_too_little(self, run: Experiment) -> None:
        try:
            least = least_dilation(sum(run.cores_by_rank.values()), self._cores())
        except EngineUnavailable:
            return  # the engine refuses it
        if run.slowdown < least and run.can_be_dilated:
            self._tell(
                f"warning: with dilation {run.slowdown:g} the {run.nodes} nodes may use more CPU"
                f" than there is; use --dilation auto, here {least:g}"
            )

    def _tell(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._say(line)


def _meaning(factor: float) -> str:
    return f"runs take {factor:g} times as long, and reported times are divided by it"
