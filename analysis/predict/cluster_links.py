"""What a Cluster of a prediction has of an experiment's links, sites and background. Pure."""

from typing import Any

from cluster.spec.experiment import Experiment
from cluster.spec.links import parse_links


def links_of(run: Experiment, workers: int | None = None) -> dict[str, Any]:
    """Fields of a Cluster; of its first nodes alone, which then have no sites."""
    links = run.links_by_rank[:workers]
    usual = None if None in links else links[_usual(run)]
    slow = tuple((rank, link) for rank, link in enumerate(links) if link not in (None, usual))
    found = {"link": usual, "slow": slow}
    if workers is not None and workers < run.workers:
        return found
    names = {site: number for number, site in enumerate(run.site_members)}
    paths = tuple(((names[a], names[b]), link) for (a, b), link in run.paths.items())
    traces = tuple(
        (place if isinstance(place, int) else (names[place[0]], names[place[1]]), trace)
        for place, trace in run.link_traces.items()
    )
    sites = tuple(run.site_members.values())
    more = {"paths": paths, "traces": traces, "background": run.background_flows, "order": run.ring}
    return {**found, "sites": sites, **more}


def _usual(run: Experiment) -> int:
    """A node with the link of most nodes; the last one where each has its own."""
    slow = parse_links(run.bottleneck) if run.bottleneck else {}
    return next((rank for rank in range(run.nodes) if rank not in slow), -1)
