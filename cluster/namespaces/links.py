"""Links of namespace nodes: shaped and verified in the nodes' namespaces before workers are forked.

A process per node shapes and measures its link from inside the node's namespace. The reference of
the rate probe is the switch, which has an address only while links are verified.
"""

import contextlib
import json
import os
import selectors
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from cluster.host.process_state import how_ended
from cluster.links import rate_probe, setup
from cluster.namespaces.network import address, enter, inside, ip_batch, mac, name_process, tc_batch
from cluster.namespaces.protocol import HELPER, describe
from cluster.spec.documents.codec import Document
from cluster.spec.documents.heartbeat import exit_code
from cluster.spec.documents.links import LinkAnswer, LinkStatistics, MeasuredLink
from cluster.spec.documents.run_folder import node_name
from cluster.spec.links import parse_link

SWITCH_ADDRESS = "10.77.255.254"
SWITCH_MAC = mac(0xFFFD)
D = TypeVar("D", bound=Document)


def set_up_links(
    links: dict[int, str], namespaces: list[int], dilation: float = 1.0
) -> tuple[list[MeasuredLink], str | None]:
    """Shape and verify links; what was measured, in the order of ranks, and the first complaint.

    A helper that ends without an answer ends the others' measurements too.
    """
    told: dict[int, LinkAnswer] = {}
    with _switch_address([(rank, namespaces[rank]) for rank in links]):
        reference = rate_probe.Reference(SWITCH_ADDRESS)
        children = {
            rank: in_namespace(rank, namespaces, partial(_set_up, rank, text, dilation))
            for rank, text in links.items()
        }
        reference.start()  # starts threads, so after the forks; early connections wait in its queue
        for rank, answer, code in answers(LinkAnswer, children):
            if answer is None:
                helper = f"{describe(node_name(rank) + HELPER)} {how_ended(code)} before training"
                answer = LinkAnswer(complaint=helper)
            told[rank] = answer
            if code != 0:
                break
        reference.close()
    found = [told[rank] for rank in sorted(told)]
    measured = [answer.measured for answer in found if answer.measured]
    return measured, next((answer.complaint for answer in found if answer.complaint), None)


@contextlib.contextmanager
def _switch_address(nodes: list[tuple[int, int]]) -> Iterator[None]:
    """Give the switch an address for a while; neighbour entries are permanent, as between nodes."""
    neighbours = [f"{address(rank)} lladdr {mac(rank)} dev switch" for rank, _ in nodes]
    for _, namespace in nodes:
        with inside(namespace):
            ip_batch(f"neigh add {SWITCH_ADDRESS} lladdr {SWITCH_MAC} dev eth0 nud permanent")
    ip_batch(
        f"link set switch address {SWITCH_MAC}",
        f"addr add {SWITCH_ADDRESS}/16 dev switch",
        *(f"neigh add {neighbour} nud permanent" for neighbour in neighbours),
    )
    yield
    ip_batch(
        *(f"neigh del {neighbour}" for neighbour in neighbours),
        f"addr del {SWITCH_ADDRESS}/16 dev switch",
    )
    for _, namespace in nodes:
        with inside(namespace):
            ip_batch(f"neigh del {SWITCH_ADDRESS} dev eth0")


def _set_up(rank: int, text: str, dilation: float) -> LinkAnswer:
    try:
        link = parse_link(text)
        return LinkAnswer(measured=setup.set_up(link, node_name(rank), SWITCH_ADDRESS, dilation))
    except setup.LinkFailed as failure:
        return LinkAnswer(measured=failure.measured, complaint=str(failure))


def change(rank: int, text: str, namespaces: list[int], dilation: float) -> None:
    """Give a shaped link other rates, in place."""
    commands = setup.change(parse_link(text), dilation)
    with inside(namespaces[rank]):
        tc_batch(*(" ".join(command[1:]) for command in commands))


def read_statistics(ranks: list[int], namespaces: list[int]) -> list[LinkStatistics]:
    """What the shaped links of these nodes dropped and delayed so far."""
    children = {
        rank: in_namespace(rank, namespaces, partial(setup.read_statistics, node_name(rank)))
        for rank in ranks
    }
    found = {rank: answer for rank, answer, _ in answers(LinkStatistics, children) if answer}
    return [found[rank] for rank in sorted(found)]


def in_namespace(rank: int, namespaces: list[int], work: Callable[[], Document]) -> tuple[int, int]:
    """Fork a helper that works in a node's namespace; its number, and the pipe for its answer."""
    answer, write = os.pipe()
    child = os.fork()
    if child != 0:
        os.close(write)
        return child, answer
    code = 1
    try:
        name_process(node_name(rank) + HELPER)
        enter(namespaces[rank])
        os.write(write, json.dumps(work().to_json()).encode())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def answers(
    kind: type[D], children: dict[int, tuple[int, int]]
) -> Iterator[tuple[int, D | None, int]]:
    """Ranks, answers (None where the helper failed) and exit codes of helpers, as they end."""
    with selectors.DefaultSelector() as selector:
        for rank, (process, pipe) in children.items():
            selector.register(pipe, selectors.EVENT_READ, (rank, process))
        while selector.get_map():
            for key, _ in selector.select():
                selector.unregister(key.fd)
                rank, process = key.data
                with os.fdopen(key.fd, "rb") as stream:
                    text = stream.read()
                _, status = os.waitpid(process, 0)
                answer = kind.from_json(json.loads(text)) if text else None
                yield rank, answer, exit_code(status)
