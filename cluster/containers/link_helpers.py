"""The containers that verify links before workers start: their answers, or why they do not go on.

A helper for each shaped link measures against one reference; workers wait at their gates.
"""

import json
import time
from collections.abc import Collection, Mapping
from typing import Any

from cluster.containers.compose_file import REFERENCE, split_service
from cluster.containers.container_state import (
    ENDED,
    PAUSED,
    engine_answers,
    how_stopped,
    local_process,
)
from cluster.containers.projects import PROJECT_LABEL, SERVICE_LABEL
from cluster.engine import LinksOffTarget
from cluster.host.process_state import LOOK_S, StartWatch, how_ended
from cluster.links import router
from cluster.spec.documents.links import LinkAnswer, MeasuredLink
from cluster.spec.documents.run_folder import node_name

TIMEOUT_S = 300
POLL_S = 0.05
ROLES = ("link", "node", REFERENCE, router.NAME)


class LinkHelpers:
    """Of a Compose project, while links are verified; `ranks` are the nodes with shaped links."""

    def __init__(self, docker: Any, project: str, ranks: Collection[int]) -> None:
        self._list = docker.containers.list
        self._filters = {"label": f"{PROJECT_LABEL}={project}"}
        self._waiting = set(ranks)
        self._running: dict[str, Any] = {}
        self._done: set[str] = set()
        self._frozen = StartWatch()
        self._looked_at = time.monotonic()
        self._measured: list[MeasuredLink] = []

    def wait(self) -> list[MeasuredLink]:
        """Until every link is verified; LinksOffTarget as soon as one cannot be."""
        deadline = time.monotonic() + TIMEOUT_S
        while not self.look():
            if time.monotonic() > deadline:
                self._fail(f"the link of {node_name(min(self._waiting))} took too long")
            time.sleep(POLL_S)
        return sorted(self._measured, key=lambda link: ("-" in link.node, split_service(link.node)))

    def look(self) -> bool:
        """Whether all links are verified; LinksOffTarget where one cannot be."""
        import docker

        try:
            with engine_answers():
                self._look()
        except docker.errors.NotFound:
            self._fail("a container that verifies links was removed before training")
        return not self._waiting

    def _look(self) -> None:
        found = {c.attrs["Labels"][SERVICE_LABEL]: c for c in self._containers()}
        found = {name: c for name, c in found.items() if split_service(name)[0] in ROLES}
        for name in set(self._running) - set(found):
            self._fail(f"the container of {describe(name)} was removed before training")
        for name in sorted(set(found) - self._done):
            if found[name].status in ENDED:
                self._done.add(name)
                self._end(name, found[name])
        if time.monotonic() - self._looked_at >= LOOK_S:
            self._looked_at = time.monotonic()
            self._look_for_frozen({n: c for n, c in found.items() if n not in self._done})

    def _containers(self) -> list[Any]:
        """One request to Docker, however many there are."""
        found: list[Any] = self._list(all=True, filters=self._filters, sparse=True)
        return found

    def _end(self, name: str, container: Any) -> None:
        """Take the answer of a helper; the others end too early, but for the reference."""
        container.reload()
        role, rank = split_service(name)
        code = container.attrs["State"]["ExitCode"]
        if role == "link":
            self._waiting.discard(rank)
            answer = read_answer(container, name)
            self._measured += [*([answer.measured] if answer.measured else []), *answer.paths]
            if answer.complaint:
                self._fail(answer.complaint)
        elif code != 0 or name != REFERENCE:
            self._fail(f"{describe(name)} {how_ended(code)} before training")

    def _look_for_frozen(self, containers: Mapping[str, Any]) -> None:
        stopped: dict[str, str] = {}
        for name, container in containers.items():
            if container.status == PAUSED:
                stopped[describe(name)] = PAUSED
            elif container.status == "running":
                if name not in self._running:
                    container.reload()
                    self._running[name] = container
                known = self._running[name]
                if how := how_stopped(known, local_process(known)):
                    stopped[describe(name)] = how
        if sentence := self._frozen.note(stopped):
            self._fail(sentence)

    def _fail(self, complaint: str) -> None:
        raise LinksOffTarget(complaint, self._measured)


def describe(service: str) -> str:
    """A service of the Compose project, for a sentence."""
    role, rank = split_service(service)
    if role == "link":
        return f"{node_name(rank)}'s link helper"
    known = {REFERENCE: "the link reference", router.NAME: "the router between sites"}
    return known.get(service, service)


def read_answer(helper: Any, name: str) -> LinkAnswer:
    """What a link's helper printed."""
    output = helper.logs(stderr=False).decode(errors="replace").strip()
    if output.startswith("{"):
        return LinkAnswer.from_json(json.loads(output))
    state = helper.attrs["State"]
    last = helper.logs().decode(errors="replace").strip().splitlines()[-1:]
    words = ": ".join(filter(None, [state["Error"], *last]))
    ended = f"{describe(name)} {how_ended(state['ExitCode'])} before training"
    return LinkAnswer(complaint=f"{ended}: {words}" if words else ended)
