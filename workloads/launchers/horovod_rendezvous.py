"""Horovod's rendezvous: an HTTP server at which its workers find each other, without ssh."""

import threading
from collections.abc import Sequence

from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

from cluster.spec.documents.run_folder import node_name

POLL_S = 0.02
"""How often the server checks whether to stop: the longest a run waits for it."""


def open_rendezvous(port: int, slots: Sequence[int]) -> RendezvousHTTPServer:
    """Served by a thread, until it is shut down; `slots` are the workers on each node."""
    server = RendezvousHTTPServer(("", port), RendezvousHandler, 0)
    hosts = ",".join(f"{node_name(rank)}:{count}" for rank, count in enumerate(slots))
    server.init(get_host_assignments(parse_hosts(hosts), sum(slots)))
    threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True).start()
    return server
