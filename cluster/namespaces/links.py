"""Links of namespace nodes: shaped and verified in the nodes' namespaces before workers are forked.

A process per node shapes and measures its link from inside the node's namespace. The reference of
the rate probe is the switch, which has an address only while links are verified.
"""

import contextlib
import json
import os
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from cluster.links import rate_probe, setup
from cluster.namespaces.network import address, enter, inside, ip_batch, mac
from cluster.spec.documents.codec import Document
from cluster.spec.documents.links import LinkAnswer, LinkStatistics, MeasuredLink
from cluster.spec.documents.run_folder import node_name
from cluster.spec.links import parse_link

SWITCH_ADDRESS = "10.77.255.254"
SWITCH_MAC = mac(0xFFFD)
NO_ANSWER = LinkAnswer(complaint="a process that sets up a link ended without an answer")
D = TypeVar("D", bound=Document)


def set_up_links(
    links: dict[int, str], namespaces: list[int]
) -> tuple[list[MeasuredLink], str | None]:
    """Shape and verify links; what was measured, in the order of ranks, and the first complaint."""
    with _switch_address([(rank, namespaces[rank]) for rank in links]):
        reference = rate_probe.Reference(SWITCH_ADDRESS)
        children = [
            _in_namespace(namespaces[rank], partial(_set_up, rank, text))
            for rank, text in links.items()
        ]
        reference.start()  # starts threads, so after the forks; early connections wait in its queue
        answers = [_answer(LinkAnswer, child) or NO_ANSWER for child in children]
        reference.close()
    measured = [answer.measured for answer in answers if answer.measured]
    return measured, next((answer.complaint for answer in answers if answer.complaint), None)


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


def _set_up(rank: int, text: str) -> LinkAnswer:
    try:
        link = parse_link(text)
        return LinkAnswer(measured=setup.set_up(link, node_name(rank), SWITCH_ADDRESS))
    except setup.LinkFailed as failure:
        return LinkAnswer(measured=failure.measured, complaint=str(failure))


def read_statistics(ranks: list[int], namespaces: list[int]) -> list[LinkStatistics]:
    """What the shaped links of these nodes dropped and delayed so far."""
    children = [
        _in_namespace(namespaces[rank], partial(setup.read_statistics, node_name(rank)))
        for rank in ranks
    ]
    answers = [_answer(LinkStatistics, child) for child in children]
    return [answer for answer in answers if answer is not None]


def _in_namespace(namespace: int, work: Callable[[], Document]) -> tuple[int, int]:
    """Fork a process that works in a namespace; its number, and the pipe with its JSON answer."""
    answer, write = os.pipe()
    child = os.fork()
    if child != 0:
        os.close(write)
        return child, answer
    code = 1
    try:
        enter(namespace)
        os.write(write, json.dumps(work().to_json()).encode())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _answer(kind: type[D], child: tuple[int, int]) -> D | None:
    """None where the process failed."""
    process, pipe = child
    with os.fdopen(pipe, "rb") as stream:
        text = stream.read()
    os.waitpid(process, 0)
    return kind.from_json(json.loads(text)) if text else None
