"""The report of recorded runs in a real browser: drawn, filtered, dark, printed, saved, offline."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from analysis.network_report import main
from tests.browser import Browser, chromium
from tests.report.record import DATA, RUNS

LABEL_SKEW = DATA / "label-skew"

SECTIONS = {
    "answers": 0,
    "published": 0,
    "results": 0,
    "accuracy": 3,
    "learning": 4,
    "time": 3,
    "traffic": 1,
    "links": 1,
    "scaling": 2,
    "trust": 1,
    "appendix": 2,
}
"""Section -> how many figures it has."""

LOOK_AT_ALL = """(async () => {
    for (const folded of document.querySelectorAll('details')) folded.open = true;
    for (const chart of document.querySelectorAll('figure.chart')) {
        chart.scrollIntoView();
        while (!chart.dataset.drawn) await new Promise(done => setTimeout(done, 10));
    }
})()"""
"""A figure is drawn when it comes into sight."""

DRAWN = """[...document.querySelectorAll('figure.chart')].map(chart => [
    chart.closest('section').querySelector('h2').id,
    chart.querySelectorAll('.plot :is(path.js-line, .point path, path.point, .heatmaplayer image)')
        .length])"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("report")
    assert main([str(RUNS), "--output", str(output)]) == 0
    return output / "report.html"


@pytest.fixture(scope="module")
def browser(page: Path) -> Iterator[Browser]:
    """One page for all tests, each of which puts back what it changed."""
    with chromium() as browser:
        browser.open(page)
        browser.run(LOOK_AT_ALL)
        yield browser


def test_every_section_is_there_and_every_figure_is_drawn(browser: Browser) -> None:
    assert browser.run("[...document.querySelectorAll('h2')].map(h => h.id)") == list(SECTIONS)
    drawn = browser.run(DRAWN)
    found = [section for section, _ in drawn]
    assert {name: found.count(name) for name in SECTIONS} == SECTIONS
    assert [name for name, marks in drawn if not marks] == []


def test_every_figure_has_a_title_named_axes_and_its_numbers(browser: Browser) -> None:
    titles = browser.run(
        "[...document.querySelectorAll('figure.chart .title')].map(t => t.textContent)"
    )
    assert all(titles)
    assert len(titles) == len(set(titles)) == sum(SECTIONS.values())
    nameless = browser.run(
        "[...document.querySelectorAll('.plot')]"
        ".filter(p => !p.querySelector('.g-xtitle, .g-ytitle text')).map(p => p.id)"
    )
    assert nameless == []
    count = browser.run("document.querySelectorAll('figure.chart [data-save=csv]').length")
    assert count == sum(SECTIONS.values())


def test_no_two_things_have_the_same_name(page: Path) -> None:
    """A name is an address in the page, and the name of a figure's file."""
    names = re.findall(r'<(?:h2|div|script|button)[^>]* id="([^"]+)"', page.read_text())
    assert len(names) > 20
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("width", [1200, 390])
def test_a_heading_that_is_jumped_to_is_below_the_bar(browser: Browser, width: int) -> None:
    browser.size(width, 844)
    place = (
        "(() => { document.querySelector('#steps').scrollIntoView();"
        " const bar = document.querySelector('.filter').getBoundingClientRect();"
        " return [bar.bottom, document.querySelector('#steps').getBoundingClientRect().top] })()"
    )
    bar, heading = browser.run(place)
    browser.size(1200, 900)
    assert 0 < bar <= heading


def test_hovering_over_a_curve_shows_epoch_and_accuracy(browser: Browser) -> None:
    browser.point_at(
        "#accuracy-against-bytes .scatterlayer .trace:last-of-type path.point:last-of-type",
        until="document.querySelector('#accuracy-against-bytes .hoverlayer').textContent"
        ".includes('epoch 3')",
    )
    shown = browser.run("document.querySelector('#accuracy-against-bytes .hoverlayer').textContent")
    assert re.search(r"epoch 3: \d+\.\d\d %", shown)


def test_a_pair_of_nodes_has_what_was_measured_and_theory(browser: Browser) -> None:
    pair = browser.run(
        "document.querySelector('.matrices .heat[title^=\"node 0 to node 3\"]').title"
    )
    assert re.search(r"node 0 to node 3: measured .*B, theory .*B per round", pair)


def lines_of(browser: Browser, strategy: str) -> int:
    found = browser.run(
        "document.querySelector('#accuracy-against-bytes').data"
        f".filter(t => t.legendgroup === {json.dumps(strategy)} && t.visible !== false).length"
    )
    return int(found)


def test_a_strategy_can_be_switched_off_everywhere_and_on_again(browser: Browser) -> None:
    rows = (
        "[...document.querySelectorAll('tbody[data-strategy=pairwise]')]"
        ".filter(r => r.offsetParent).length"
    )
    before = lines_of(browser, "pairwise"), browser.run(rows)
    others = lines_of(browser, "allreduce")
    assert min(before) > 0
    browser.click(".chip[data-strategy=pairwise]")
    browser.run(LOOK_AT_ALL)
    assert (lines_of(browser, "pairwise"), browser.run(rows)) == (0, 0)
    assert lines_of(browser, "allreduce") == others
    browser.click(".chip[data-strategy=pairwise]")
    browser.run(LOOK_AT_ALL)
    assert (lines_of(browser, "pairwise"), browser.run(rows)) == before


def test_another_run_can_be_chosen(browser: Browser) -> None:
    names = "document.querySelector('#traffic-over-time').data.map(t => t.name)"
    choose = (
        "(() => {{ const figure = document.querySelector('#traffic-over-time').closest('figure');"
        " const s = figure.querySelector('select.choice'); s.selectedIndex = {0};"
        " s.dispatchEvent(new Event('change', {{bubbles: true}})) }})()"
    )
    options = browser.run(
        "[...document.querySelector('#traffic-over-time').closest('figure')"
        ".querySelectorAll('.choice option')].map(o => o.text)"
    )
    place = next(at for at, text in enumerate(options) if "parameter-server" in text)
    assert len(browser.run(names)) == 1
    browser.run(choose.format(place))
    assert len(browser.run(names)) == 4  # the server is a node of its own
    browser.run(choose.format(0))


def test_choices_survive_a_reload(page: Path) -> None:
    """--watch has the page load itself again every few seconds."""
    figure = "document.querySelector('#traffic-over-time').closest('figure')"
    state = (
        "[document.documentElement.dataset.theme ?? '',"
        " document.querySelectorAll('.chip[aria-pressed=false]').length,"
        f" {figure}.querySelector('select.choice').selectedIndex]"
    )
    with chromium() as browser:
        browser.open(page)
        assert browser.run(state) == ["", 0, 0]
        browser.click("#theme")
        browser.click(".chip[data-strategy=pairwise]")
        browser.run(
            f"(() => {{ const s = {figure}.querySelector('select.choice'); s.selectedIndex = 2;"
            " s.dispatchEvent(new Event('change', {bubbles: true})) })()"
        )
        browser.open(page)
        assert browser.run(state) == ["dark", 1, 2]
        browser.run(LOOK_AT_ALL)
        assert lines_of(browser, "pairwise") == 0
        assert len(browser.run("document.querySelector('#traffic-over-time').data")) == 3
        browser.click(".chip[data-strategy=pairwise]")
        browser.open(page)
        assert browser.run(state) == ["dark", 0, 2]
        assert browser.errors == []


COLOURS = (
    "[getComputedStyle(document.body).backgroundColor,"
    " getComputedStyle(document.querySelector('.xtick text')).fill]"
)


def test_dark_and_light_change_page_and_figures(browser: Browser) -> None:
    light = browser.run(COLOURS)
    browser.click("#theme")
    dark = browser.run(COLOURS)
    assert light[0] == "rgb(255, 255, 255)"
    assert brightness(dark[0]) < 60 < 180 < brightness(dark[1])
    assert brightness(light[1]) < 60
    browser.click("#theme")
    assert browser.run(COLOURS) == light


def brightness(colour: str) -> float:
    return sum(int(part) for part in colour.removeprefix("rgb(").rstrip(")").split(",")) / 3


def test_a_dark_desktop_gets_a_dark_page(page: Path) -> None:
    with chromium() as browser:
        browser.dark()
        browser.open(page)
        browser.run(LOOK_AT_ALL)
        assert brightness(browser.run(COLOURS)[0]) < 60


def test_a_column_sorts_its_table(browser: Browser) -> None:
    browser.run(
        "document.querySelector('#accuracy').closest('section').querySelector('th:nth-child(2)').click()"
    )
    values = (
        "[...document.querySelector('#accuracy ~ .table').querySelectorAll('td:nth-child(2)')]"
        ".map(cell => Number(cell.dataset.v)).filter(v => !isNaN(v))"
    )
    found = browser.run(values)
    assert len(found) > 2
    assert found == sorted(found)


def test_a_table_is_saved_as_csv_markdown_and_latex(page: Path, tmp_path: Path) -> None:
    """As shown: a row for each configuration, then for the seeds of the first, too."""
    with chromium() as browser:
        browser.open(page)
        browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        for kind in ("csv", "md"):
            browser.click(f"[data-name=results] [data-table={kind}]")
        browser.click(".seeds")
        browser.click("[data-name=results] [data-table=tex]")
        paths = [tmp_path / f"results.{kind}" for kind in ("csv", "md", "tex")]
        while not all(path.exists() for path in paths):  # the test's own limit is enough
            browser.run("new Promise(done => setTimeout(done, 50))")
        assert browser.errors == []
    csv, markdown, latex = (path.read_text().splitlines() for path in paths)
    assert csv[0].startswith("configuration,accuracy,")
    assert markdown[1].startswith("|---|---:|")
    assert len(markdown) == len(csv) + 1
    rows = [line for line in latex if line.endswith(r"\\")]
    assert len(rows) == len(csv) + 2
    assert all(r"\%" in line or " - " in line for line in rows[1:])


def test_a_figure_is_saved_as_svg_and_png_with_its_title_and_its_numbers_as_csv(
    page: Path, tmp_path: Path
) -> None:
    with chromium() as browser:
        browser.open(page)
        browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        browser.click("#accuracy ~ figure .save > summary")
        for kind in ("svg", "png", "csv"):
            browser.click(f"#accuracy ~ figure [data-save={kind}]")
        paths = [tmp_path / f"accuracy-against-bytes.{kind}" for kind in ("svg", "png", "csv")]
        while not all(path.exists() for path in paths):  # the test's own limit is enough
            browser.run("new Promise(done => setTimeout(done, 50))")
        assert browser.errors == []
    assert "Accuracy against bytes sent in training" in paths[0].read_text()
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    lines = paths[2].read_text().splitlines()
    assert lines[0] == 'series,"payload sent in training, all nodes (MB)",accuracy (%)'
    assert len(lines) > 10
    assert {line.count(",") for line in lines if '"' not in line} <= {2}


def test_on_a_phone_nothing_is_wider_than_the_screen(browser: Browser) -> None:
    browser.size(390, 844)
    wide = (
        "[...document.querySelectorAll('.plot .main-svg')]"
        ".filter(svg => svg.clientWidth > 390).length"
    )
    browser.wait(f"!{wide}")
    assert browser.run("document.documentElement.scrollWidth") == 390
    browser.size(1200, 900)


def test_on_paper_tables_are_whole_and_light(page: Path) -> None:
    """Also where the paper is as narrow as a phone held sideways, and the desktop is dark."""
    with chromium() as browser:
        browser.dark()
        browser.open(page, 700)
        browser.run(LOOK_AT_ALL)
        dark = {"name": "prefers-color-scheme", "value": "dark"}
        browser.call("Emulation.setEmulatedMedia", media="print", features=[dark])
        cut_off = (
            "[...document.querySelectorAll('.scroll')]"
            ".filter(s => s.scrollHeight > s.clientHeight + 1).length"
        )
        assert browser.run(cut_off) == 0
        assert browser.run(COLOURS)[0] == "rgb(255, 255, 255)"
        assert (
            browser.run("getComputedStyle(document.querySelector('figcaption .tools')).display")
            == "none"
        )


def test_it_can_be_used_before_a_figure_is_drawn(page: Path) -> None:
    """Figures render lazily: only visible ones wait for Plotly to load."""
    with chromium() as browser:
        browser.open(page, height=300)
        assert browser.run("document.querySelectorAll('[data-drawn]').length") == 0
        browser.click(".chip[data-strategy=parameter-server]")
        browser.click("#theme")
        browser.run(LOOK_AT_ALL)
        assert lines_of(browser, "parameter-server") == 0
        assert lines_of(browser, "allreduce") > 0
        assert [name for name, marks in browser.run(DRAWN) if not marks] == []
        assert browser.errors == []


def test_it_prints_to_pdf_with_all_figures(page: Path) -> None:
    """Those that were never in sight too."""
    with chromium() as browser:
        browser.open(page)
        document = browser.pdf()
        assert [name for name, marks in browser.run(DRAWN) if not marks] == []
        assert browser.errors == []
    assert document.startswith(b"%PDF-")
    assert (
        document.count(b"/Type /Page\n")
        + document.count(b"/Type /Page ")
        + document.count(b"/Type/Page")
        > 5
    )


def test_label_skew_and_the_time_of_epochs_are_drawn(tmp_path: Path) -> None:
    """Sections that the other recorded runs are too old for, or have no label skew for."""
    assert main([str(LABEL_SKEW), "--output", str(tmp_path)]) == 0
    with chromium() as browser:
        browser.open(tmp_path / "report.html")
        browser.run(LOOK_AT_ALL)
        drawn = dict(browser.run(DRAWN))
        assert drawn["learning"] == 3 * 10  # workers and labels
        assert drawn["time"] == 3 * 3  # epochs, and what they are made of
        assert browser.errors == []
    counts = pd.read_csv(tmp_path / "tables" / "labels.csv")
    assert counts.groupby(["configuration", "rank"])["count"].sum().unique().tolist() == [320]


def test_at_the_end_nothing_went_wrong_and_nothing_was_asked_of_the_network(
    browser: Browser, page: Path
) -> None:
    assert browser.errors == []
    assert browser.requests == [page.as_uri()]
