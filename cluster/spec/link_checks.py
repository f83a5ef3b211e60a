"""Which links, sites, paths, traces and background traffic an experiment takes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from cluster.spec.background import parse_background, write_background
from cluster.spec.errors import SpecError
from cluster.spec.exchange.strategies import BY_RANK
from cluster.spec.faults import checks as faults
from cluster.spec.faults.fault import Act
from cluster.spec.fields import parsed, set_fields
from cluster.spec.link_trace import Place, parse_traces, place_name, write_traces
from cluster.spec.links import parse_cores, parse_link, parse_links, write_by_rank
from cluster.spec.quantities import RATES, write_scaled
from cluster.spec.sites import (
    parse_between,
    parse_inside,
    parse_sites,
    write_between,
    write_inside,
    write_sites,
)

if TYPE_CHECKING:
    from cluster.spec.experiment import Experiment


def check(experiment: Experiment) -> None:
    """SpecError for what cannot be; each is stored in one spelling."""
    _check_nodes(experiment)
    _check_sites(experiment)
    _check_ring(experiment)


def check_changes(experiment: Experiment) -> None:
    """The same of what happens while nodes train."""
    _check_traces(experiment)
    _check_background(experiment)


def _check_nodes(experiment: Experiment) -> None:
    """Links and stragglers by rank, stored in one spelling so that equal ones are equal."""
    for name, parse, write in (
        ("link", parse_link, str),
        ("bottleneck", parse_links, write_by_rank),
        ("straggler", parse_cores, write_by_rank),
    ):
        text, nodes = getattr(experiment, name), experiment.nodes
        if text is None:
            continue
        found: Any = parsed(f"{name} {text!r}", parse, text)
        for rank in found if isinstance(found, dict) else ():
            if rank >= nodes:
                raise SpecError(
                    f"{name} {text!r}: there is no node {rank}, the {nodes} nodes are 0 to"
                    f" {nodes - 1}"
                )
        set_fields(experiment, **{name: write(found)})


def _check_sites(experiment: Experiment) -> None:
    """Every node is in a site, and paths are between sites; stored in one spelling."""
    text, nodes = experiment.sites, experiment.nodes
    if text is None:
        for option in ("between", "inside"):
            if getattr(experiment, option) is not None:
                raise SpecError(f"{option} is of sites: use it with --sites, such as a:3,b:3")
        return
    sites = parsed(f"sites {text!r}", parse_sites, text)
    if len(sites) != nodes:
        server = ", the parameter server among them" if nodes > experiment.workers else ""
        raise SpecError(f"sites {text!r} have {len(sites)} nodes, and there are {nodes}{server}")
    set_fields(experiment, sites=write_sites(sites))
    forms: dict[str, tuple[Any, Any]] = {
        "between": (parse_between, write_between),
        "inside": (parse_inside, write_inside),
    }
    for option, (parse, write) in forms.items():
        if (given := getattr(experiment, option)) is not None:
            found = parsed(f"{option} {given!r}", partial(parse, sites=sites), given)
            set_fields(experiment, **{option: write(found)})


def _check_ring(experiment: Experiment) -> None:
    """The order of ranks is stored as none."""
    order = experiment.ring_order
    if order == BY_RANK:
        set_fields(experiment, ring_order=None)
    elif order is not None:
        if experiment.sites is None:
            raise SpecError(f"ring_order {order} needs --sites, such as a:3,b:3")
        if experiment.launcher != "torch" or experiment.gpu:
            raise SpecError(
                f"ring_order {order} does not apply to {'gpu' if experiment.gpu else 'launcher'}"
                f"{'' if experiment.gpu else ' ' + experiment.launcher}, which orders its rings by"
                " itself"
            )
        if experiment.on_failure == faults.CONTINUE:
            raise SpecError(
                f"ring_order {order} does not go with on_failure continue, where the members of a"
                " ring change"
            )


def _check_traces(experiment: Experiment) -> None:
    """Only what is shaped has rates that change; stored in one spelling."""
    if experiment.link_trace is None:
        return
    traces = parsed("link_trace", parse_traces, experiment.link_trace)
    for place in traces:
        _check_place(experiment, place)
        if place not in experiment.links and place not in experiment.paths:
            what = f"node {place}" if isinstance(place, int) else f"path {place_name(place)}"
            has = "--link or --bottleneck" if isinstance(place, int) else "--between"
            raise SpecError(f"link_trace: {what} has no rate that could change: give it {has}, too")
        thrown = (fault for fault in experiment.faults() if fault.act == Act.THROTTLE)
        if experiment.fault and any(fault.rank == place for fault in thrown):
            raise SpecError(
                f"link_trace and fault throttle both set the rate of node {place}: leave out one"
            )
    if experiment.virtual:
        raise SpecError("link_trace does not apply to virtual workers: nothing is on a link")
    set_fields(experiment, link_trace=write_traces(traces))


def _check_place(experiment: Experiment, place: Place) -> None:
    nodes, sites = experiment.nodes, experiment.site_members
    if isinstance(place, int):
        if place >= nodes:
            raise SpecError(
                f"link_trace: there is no node {place}, the {nodes} nodes are 0 to {nodes - 1}"
            )
        return
    for site in place:
        if sites and site not in sites:
            raise SpecError(
                f"link_trace: there is no site {site!r}, the sites are {', '.join(sites)}"
            )


def _check_background(experiment: Experiment) -> None:
    """Between two nodes, on links that can carry it; stored in one spelling."""
    text, nodes = experiment.background, experiment.nodes
    if text is None:
        return
    flows = parsed(f"background {text!r}", parse_background, text)
    if experiment.program is not None:
        raise SpecError(
            "background does not apply to a program, whose bytes could not be told from it"
        )
    if experiment.virtual:
        raise SpecError("background does not apply to virtual workers: nothing is on a link")
    for flow in flows:
        for rank in (flow.source, flow.destination):
            if rank >= nodes:
                raise SpecError(
                    f"background {text!r}: there is no node {rank}, the {nodes} nodes are 0 to"
                    f" {nodes - 1}"
                )
        least = experiment.rate_between(flow.source, flow.destination)
        if least is not None and flow.rate_bit >= least:
            raise SpecError(
                f"background {flow} would fill the {write_scaled(least, RATES)} between node"
                f" {flow.source} and node {flow.destination}: choose a lower rate"
            )
    set_fields(experiment, background=write_background(flows))
