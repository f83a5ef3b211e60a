"""Changes of links and background traffic under the traffic: as the host wrote them, and drawn."""

from pathlib import Path

from analysis.report.traffic import over_time
from analysis.tables.rates import read_rates
from cluster.faults.host_events import HostEvents
from cluster.spec.documents.link_events import BackgroundChanged, LinkChanged
from cluster.spec.documents.records import Counters, Sample
from cluster.spec.documents.run_folder import RunFolder, write_json
from cluster.spec.experiment import Experiment

TRACE = "a-b:2s=5mbit,1:1s=10mbit/3s=100mbit"
FLOWS = "0-1:2mbit"


def recorded(folder: Path) -> RunFolder:
    """Five seconds at 8 Mbit/s, with two changes of a link, one of a path, and background."""
    run = RunFolder(folder).create()
    options = {"link": "100mbit", "sites": "a:1,b:1", "between": "a-b:50mbit"}
    experiment = Experiment(workers=2, link_trace=TRACE, background=FLOWS, **options)  # type: ignore[arg-type]
    write_json(run.spec, experiment.to_json())
    rows = [
        Sample(100 + t / 10, "kernel", f"node{rank}", Counters(sent_bytes=100_000 * t)).row()
        for t in range(51)
        for rank in (0, 1)
    ]
    lines = [",".join(map(str, row)) for row in (Sample.COLUMNS, *rows)]
    run.samples.write_text("\n".join(lines) + "\n")
    run.events(0).parent.mkdir(exist_ok=True)
    run.events(0).touch()
    log = HostEvents(run.host_events)
    log.write(BackgroundChanged(t=100.5, flows=FLOWS, is_on=True))
    for t, place, mbit in ((101, "node1", 10), (102, "a-b", 5), (103, "node1", 100)):
        log.write(LinkChanged(t=t, place=place, due_s=t - 100, up_mbit=mbit, down_mbit=mbit))
    log.write(BackgroundChanged(t=104.5, flows=FLOWS, is_on=False))
    return run


def test_rates_have_changes_of_links_and_background(tmp_path: Path) -> None:
    rates = read_rates(recorded(tmp_path / "run"))
    assert rates is not None
    assert rates.background == [(FLOWS, 0.5, 4.5)]
    assert rates.limits == {
        "node1": [(0, 100e6), (1, 10e6), (3, 100e6)],
        "a-b": [(0, 50e6), (2, 5e6)],
    }


def test_they_are_drawn_as_steps_and_as_a_shade(tmp_path: Path) -> None:
    rates = read_rates(recorded(tmp_path / "run"))
    assert rates is not None
    chart = over_time._chart(rates)
    (link,) = (trace for trace in chart.data if trace["name"] == "rate of node1")
    assert link["y"] == [100, 10, 100, 100]
    assert link["line"]["shape"] == "hv"
    shades = [s for s in chart.more["shapes"] if s["fillcolor"] == over_time.BACKGROUND]
    assert [(shade["x0"], shade["x1"]) for shade in shades] == [(0.5, 4.5)]
    assert [note["text"] for note in chart.more["annotations"]] == [f"background {FLOWS}"]
