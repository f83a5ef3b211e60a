"""Background traffic of namespace nodes: a program beside the worker, in the node's network."""

import os
import signal
import sys
from dataclasses import dataclass, field

from cluster.links import background_sender
from cluster.links.background_sender import BEGIN, END, SenderPlan, involved
from cluster.namespaces import isolation
from cluster.namespaces.network import address, enter, name_process
from cluster.namespaces.protocol import BACKGROUND, SupervisorPlan
from cluster.spec.background import parse_background
from cluster.spec.documents.run_folder import node_name


@dataclass
class Senders:
    """The programs of a cluster: processes by the ranks of their nodes."""

    processes: dict[int, int] = field(default_factory=dict)

    @classmethod
    def start(cls, plan: SupervisorPlan, namespaces: list[int]) -> "Senders":
        """None of them has a limit of CPU: what they send is others', and so is what it costs."""
        ranks = involved(parse_background(plan.background)) if plan.background else []
        return cls({_fork(rank, plan, namespaces): rank for rank in ranks})

    def turn(self, is_on: bool) -> str | None:
        """Begin or end sending; what went wrong."""
        for process, rank in self.processes.items():
            try:
                os.kill(process, BEGIN if is_on else END)
            except ProcessLookupError:
                return f"the background traffic of {node_name(rank)} has ended by itself"
        return None


def _fork(rank: int, plan: SupervisorPlan, namespaces: list[int]) -> int:
    child = os.fork()
    if child != 0:
        return child
    code = 1
    try:
        for number in (BEGIN, END):
            signal.signal(number, signal.SIG_IGN)
        name_process(f"{node_name(rank)}-{BACKGROUND}")
        nothing = os.open("/dev/null", os.O_RDWR)
        for descriptor in (0, 1):
            os.dup2(nothing, descriptor)
        enter(namespaces[rank])
        for descriptor in namespaces:
            os.close(descriptor)
        isolation.drop_privileges(None)
        addresses = tuple(map(address, range(plan.nodes)))
        background_sender.work(SenderPlan(rank, plan.background, addresses, plan.dilation))
        code = 0
    except BaseException as error:
        print(f"background traffic of {node_name(rank)}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(code)
