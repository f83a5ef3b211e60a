"""Which links this kernel can shape: every tc feature is tried in a temporary namespace."""

import subprocess
from collections.abc import Iterable

from cluster.engine import EngineUnavailable
from cluster.links.delay_line import DEVICE as HOLD
from cluster.links.tc import INGRESS_DEVICE
from cluster.spec.links import Link

MODULES = {
    "sch_tbf": "tc qdisc add dev lo root tbf rate 1mbit burst 4000 limit 8000",
    "ifb": f"ip link add {INGRESS_DEVICE} type ifb && ip link set {INGRESS_DEVICE} up",
    "sch_ingress": "tc qdisc add dev lo handle ffff: ingress",
    "cls_u32": "tc filter add dev lo parent ffff: protocol all prio 1 u32 match u32 0 0 flowid :1",
    "act_mirred": "tc filter add dev lo parent ffff: protocol all prio 2 u32 match u32 0 0"
    f" action mirred egress redirect dev {INGRESS_DEVICE}",
    "sch_netem": "tc qdisc replace dev lo root netem delay 1ms",
    "tun": f"ip tuntap add dev {HOLD} mode tap",
}
"""Kernel module -> a command that works only with it."""
FOR_RATES = tuple(name for name in MODULES if name not in ("sch_netem", "tun"))


def try_modules(in_new_namespace: list[str]) -> set[str]:
    """The modules that work where this command prefix starts a program, with CAP_NET_ADMIN."""
    trials = (f"{{ {tried}; }} && echo {name}" for name, tried in MODULES.items())
    script = "; ".join(["PATH=$PATH:/usr/sbin:/sbin; ip link set lo up", *trials])
    command = [*in_new_namespace, "sh", "-c", script]
    answer = subprocess.run(command, capture_output=True, text=True)
    return set(answer.stdout.split()) & set(MODULES)


def needs_delay_line(paths: Iterable[Link], modules: set[str]) -> bool:
    """Whether paths between sites are delayed in user space (cluster/links/delay_line.py)."""
    return any(path.delay_s for path in paths) and "sch_netem" not in modules


def check(links: Iterable[Link], modules: set[str], paths: Iterable[Link] = ()) -> None:
    """EngineUnavailable for a link, or a path between sites, that this kernel cannot shape."""
    for path in paths:
        held = path.delay_s and not path.loss and "tun" in modules
        check([path], modules | {"sch_netem"} if held else modules)
    for link in links:
        needed = (*FOR_RATES, "sch_netem") if link.needs_netem else FOR_RATES
        missing = [name for name in needed if name not in modules]
        if missing == ["sch_netem"]:
            raise EngineUnavailable(
                f"link {link}: delay and loss need the kernel module sch_netem (netem), which this"
                f" machine does not have; a rate alone works{_offer(modules)}"
            )
        if missing:
            raise EngineUnavailable(
                f"link {link}: this machine's kernel has no {', '.join(missing)}, without which no"
                " link can be shaped"
            )


def _offer(modules: set[str]) -> str:
    return ", and a delay between sites, too" if "tun" in modules else ""


def describe(modules: set[str]) -> str:
    """What links can have, in a few words; EngineUnavailable where none can be shaped."""
    missing = [name for name in FOR_RATES if name not in modules]
    if missing:
        raise EngineUnavailable(f"this kernel has no {', '.join(missing)}: links cannot be shaped")
    if "sch_netem" in modules:
        return "rate, delay and loss"
    if "tun" in modules:
        return "rate, and delay between sites; else no delay or loss (the kernel has no sch_netem)"
    return "rate; no delay or loss (the kernel has no sch_netem)"
