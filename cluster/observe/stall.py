"""A run without progress: a slow node is told to the user, a deadlock of all ends the run.

A deadlock is a run in which every node is alive, and none makes a step, computes or sends for a
long time. Times are the caller's clock.
"""

from collections.abc import Mapping, Sequence

from cluster.observe.liveness import Signs
from cluster.observe.units import list_names, seconds_text
from cluster.spec import synthetic
from cluster.spec.documents.events import Event, Step
from cluster.spec.experiment import Experiment
from cluster.spec.launchers import LAUNCHERS

SLOW_S = 10.0
DEADLOCK_S = 60.0
TIMES_LONGEST = 5
"""A step is slow, and a deadlock possible, after this many times the longest step so far."""
POLLING_DEADLOCK_S = 120.0
"""For launchers whose waiting nodes compute, namely poll: without a step of any node."""
LOOK_S = 2.0
BUSY_SHARE = 0.05
"""Of a core: a process that uses less computes nothing; Gloo's and Horovod's threads poll."""
QUIET_BYTES_PER_S, POLLING_BYTES_PER_S = 1e3, 1e5
"""What a node sends at most while nothing is exchanged, by torch and by Horovod."""


class StallWatch:
    def __init__(self, experiment: Experiment, names: Sequence[str], now: float) -> None:
        self._names = names
        self._polls = not LAUNCHERS[experiment.launcher].is_torch
        self._quiet_rate = POLLING_BYTES_PER_S if self._polls else QUIET_BYTES_PER_S
        self._longest_s = _emulated_s(experiment)
        self._is_told = False
        self._looked_at = now
        self._quiet_at = now
        self._cpu_s: dict[int, float] = {}

    def note_event(self, event: Event) -> None:
        if isinstance(event, Step):
            self._longest_s = max(self._longest_s, event.step_s)

    def tell_slow(self, signs: Mapping[int, Signs], now: float) -> str | None:
        """Once a run: which nodes take far longer than usual for a step, and what they do."""
        limit_s = max(SLOW_S, TIMES_LONGEST * self._longest_s)
        training = {r: node for r, node in signs.items() if node.phase == "train" and node.step}
        late = {rank: node for rank, node in training.items() if now - node.event_at >= limit_s}
        if not late or self._is_told:
            return None
        self._is_told = True
        most_s = max(node.cpu_s for node in late.values())
        computing = {r: node for r, node in late.items() if node.cpu_s > max(1.0, most_s / 2)}
        return self._describe(computing or late, "computing" if computing else "waiting", now)

    def _describe(self, slow: Mapping[int, Signs], doing: str, now: float) -> str:
        names = list_names([self._names[rank] for rank in slow])
        verb = "is" if len(slow) == 1 else "are"
        first = min(slow.values(), key=lambda node: node.event_at)
        since = seconds_text(now - first.event_at)
        return f"  {names} {verb} slow: {doing} in step {first.step + 1} for {since}"

    def find_deadlock(
        self, signs: Mapping[int, Signs], sent_rates: Mapping[int, float], now: float
    ) -> str | None:
        """What no node has done for so long that they must wait for each other."""
        if now - self._looked_at >= LOOK_S:
            self._look(signs, sent_rates, now)
        longest_s = TIMES_LONGEST * self._longest_s
        if signs and now - self._quiet_at >= max(DEADLOCK_S, longest_s):
            return f"none has computed or sent anything for {seconds_text(DEADLOCK_S)}"
        is_training = all(node.phase == "train" and node.step for node in signs.values())
        if signs and self._polls and is_training:
            silent_s = now - max(node.event_at for node in signs.values())
            if silent_s >= max(POLLING_DEADLOCK_S, longest_s):
                return f"none has ended a step for {seconds_text(silent_s)}"
        return None

    def _look(
        self, signs: Mapping[int, Signs], sent_rates: Mapping[int, float], now: float
    ) -> None:
        elapsed_s, self._looked_at = now - self._looked_at, now
        cpu_s = {rank: n.heartbeat.cpu_s if n.heartbeat else -1 for rank, n in signs.items()}
        is_quiet = (
            cpu_s.keys() == self._cpu_s.keys()
            and all(
                used >= 0 and used - self._cpu_s[rank] < BUSY_SHARE * elapsed_s
                for rank, used in cpu_s.items()
            )
            and all(rate < self._quiet_rate for rate in sent_rates.values())
            and all(now - node.event_at > elapsed_s for node in signs.values())
        )
        self._cpu_s = cpu_s
        if not is_quiet:
            self._quiet_at = now


def explain_hang(program: str, names: Sequence[str], waiting: Mapping[int, Signs]) -> str:
    """Which nodes of a program hang: those that never joined the others, else all that run."""
    beats = {rank: signs.heartbeat for rank, signs in waiting.items()}
    alone = [rank for rank, beat in beats.items() if beat and beat.has_joined is False]
    if alone and len(alone) < len(names):
        listed = list_names([names[rank] for rank in alone])
        return f"{program} on {listed} never joined the others, which wait"
    listed = list_names([names[rank] for rank in waiting])
    ended = [name for rank, name in enumerate(names) if rank not in waiting]
    over = f" ({list_names(ended)} ended before)" if ended else ""
    return f"{program} hangs on {listed}{over}"


def _emulated_s(experiment: Experiment) -> float:
    """Emulated compute of a step: the node sleeps for so long."""
    if not experiment.model.startswith(synthetic.PREFIX):
        return 0.0
    model = synthetic.parse(experiment.model)
    return (model.forward_s + model.backward_s) * experiment.slowdown
