"""Links of namespace nodes: shaped and verified inside the namespaces, before any worker is forked.

Every node is shaped and measured by a process of its own in the node's namespace. The reference is the
switch itself, which has an address only as long as this lasts: nothing of it is left when the workers start.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

from cluster.links import rate_probe as link_meter
from cluster.links import setup as link_setup
from cluster.spec.links import parse_link
from cluster.spec.run_folder import node_name

SWITCH_ADDRESS = "10.77.255.254"


def set_up_links(
    links: dict[int, str], namespaces: list[int], enter: Callable[[int], None]
) -> tuple[list[dict[str, Any]], str | None]:
    """The findings in the order of the ranks, and the first complaint. The switch has its address."""
    reference = link_meter.Reference(SWITCH_ADDRESS)

    children = {
        rank: _in_namespace(namespaces[rank], enter, partial(_set_up, rank, text))
        for rank, text in links.items()
    }
    reference.start()  # after the forks, since it has threads; who came first waits in its queue
    answers = [_answer(child) for child in children.values()]
    reference.close()
    findings = [answer["findings"] for answer in answers if answer.get("findings")]
    return findings, next((a["complaint"] for a in answers if a.get("complaint")), None)


def _set_up(rank: int, text: str) -> dict[str, Any]:
    try:
        return {"findings": link_setup.set_up(parse_link(text), node_name(rank), SWITCH_ADDRESS)}
    except link_setup.LinkFailed as failure:
        return {"findings": failure.findings, "complaint": str(failure)}


def read_statistics(
    ranks: list[int], namespaces: list[int], enter: Callable[[int], None]
) -> list[dict[str, Any]]:
    children = [
        _in_namespace(namespaces[rank], enter, partial(link_setup.read_statistics, node_name(rank)))
        for rank in ranks
    ]
    return [_answer(child) for child in children]


def _in_namespace(
    namespace: int, enter: Callable[[int], None], work: Callable[[], dict[str, Any]]
) -> tuple[int, int]:
    """A process in there that does the work and writes its answer to a pipe."""
    answer, write = os.pipe()
    child = os.fork()
    if child != 0:
        os.close(write)
        return child, answer
    code = 1
    try:
        enter(namespace)
        os.write(write, json.dumps(work()).encode())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _answer(child: tuple[int, int]) -> dict[str, Any]:
    process, pipe = child
    with os.fdopen(pipe, "rb") as stream:
        text = stream.read()
    os.waitpid(process, 0)
    if not text:
        return {"complaint": "a process that sets up a link ended without a word"}
    document: dict[str, Any] = json.loads(text)
    return document
