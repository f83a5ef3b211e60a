"""Figures of many configurations in a real browser: panels, switches, exports, no layout shift."""

from __future__ import annotations

import base64
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.network_report import main
from bench.report import make_runs
from tests.browser import Browser, chromium
from tests.report.test_browser import LOOK_AT_ALL

RUNS = 45
FIGURE = "accuracy-against-bytes"
SHIFTS = """(() => { window.shifts = [];
    new PerformanceObserver(list => list.getEntries().forEach(entry =>
        window.shifts.push(entry.value))).observe({type: 'layout-shift', buffered: true}) })()"""
SCROLL = """(async () => {
    for (const chart of document.querySelectorAll('figure.chart')) {
        if (chart.closest('details:not([open])')) continue;
        chart.scrollIntoView();
        while (!chart.dataset.drawn) await new Promise(done => setTimeout(done, 10));
    }
})()"""
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    make_runs(folder / "runs", RUNS, samples=40)
    assert main([str(folder / "runs"), "--output", str(folder / "report")]) == 0
    return folder / "report" / "report.html"


@pytest.fixture(scope="module")
def browser(page: Path) -> Iterator[Browser]:
    with chromium() as browser:
        browser.open(page)
        browser.run(LOOK_AT_ALL)
        yield browser


def press(browser: Browser, figure: str, switch: str) -> None:
    browser.run(
        f"document.getElementById({json.dumps(figure)}).closest('figure')"
        f".querySelector('[data-switch={switch}]').click()"
    )


def axes(browser: Browser, figure: str, letter: str) -> list[str]:
    found = browser.run(
        f"Object.entries(document.getElementById({json.dumps(figure)}).layout)"
        f".filter(([name]) => /^{letter}axis/.test(name)).map(([, axis]) => axis.type)"
    )
    return [str(kind) for kind in found]


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_never_shifts_and_never_scrolls_sideways(page: Path, width: int) -> None:
    with chromium() as browser:
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=SHIFTS)
        browser.open(page, width)
        browser.run(SCROLL)
        assert sum(browser.run("window.shifts")) < 0.01
        assert browser.run("document.documentElement.scrollWidth") == width


def test_more_than_six_lines_have_a_panel_each_on_equal_axes(browser: Browser) -> None:
    names = browser.run(
        f"[...new Set(document.getElementById('{FIGURE}').data.map(t => t.meta).filter(Boolean))]"
    )
    assert len(names) > 6
    assert len(axes(browser, FIGURE, "x")) == len(axes(browser, FIGURE, "y")) == len(names)
    ranges = browser.run(
        f"Object.entries(document.getElementById('{FIGURE}')._fullLayout)"
        ".filter(([name]) => /^yaxis/.test(name)).map(([, axis]) => axis.range.join())"
    )
    assert len(set(ranges)) == 1
    press(browser, FIGURE, "panels")
    assert len(axes(browser, FIGURE, "x")) == 1
    press(browser, FIGURE, "panels")
    assert len(axes(browser, FIGURE, "x")) == len(names)


def test_an_axis_is_switched_to_logarithmic_and_back(browser: Browser) -> None:
    before = axes(browser, "loss-curves", "y")
    press(browser, "loss-curves", "log-y")
    assert set(axes(browser, "loss-curves", "y")) == {"log"} != set(before)
    press(browser, "loss-curves", "log-y")
    assert axes(browser, "loss-curves", "y") == before


def test_one_switch_changes_the_axis_of_all_learning_curves(browser: Browser) -> None:
    titles = (
        "['loss-curves', 'accuracy-curves'].map(id => Object.values("
        "document.getElementById(id).layout).map(axis => axis?.title?.text)"
        ".filter(text => /step|payload/.test(text)))"
    )
    choose = (
        "(() => {{ const select = document.getElementById('loss-curves').closest('figure')"
        ".querySelector('select.choice'); select.value = '{}';"
        " select.dispatchEvent(new Event('change', {{bubbles: true}})) }})()"
    )
    browser.run(choose.format("bytes"))
    browser.run(LOOK_AT_ALL)
    assert [title.partition(" ")[0] for [title] in browser.run(titles)] == ["payload"] * 2
    browser.run(choose.format("step"))
    browser.run(LOOK_AT_ALL)
    assert browser.run(titles) == [["step"], ["step"]]


def test_more_points_are_drawn_by_a_second_call_and_zoom_stays(browser: Browser) -> None:
    """As the live view does it."""
    press(browser, "loss-by-worker", "zoom")
    left, top, width, height = browser.run(
        "(() => { const area = document.querySelector('#loss-by-worker .nsewdrag');"
        " area.scrollIntoView({block: 'center'}); const box = area.getBoundingClientRect();"
        " return [box.x, box.y, box.width, box.height] })()"
    )
    for kind, share in (("mousePressed", 0.2), ("mouseMoved", 0.4), ("mouseReleased", 0.6)):
        place = {"x": left + share * width, "y": top + height / 2}
        browser.call(
            "Input.dispatchMouseEvent", type=kind, button="left", buttons=1, clickCount=1, **place
        )
    zoomed, again, count = browser.run("""(async () => {
        const plot = document.getElementById('loss-by-worker'), figure = plot.closest('figure');
        const range = () => plot._fullLayout.xaxis.range.map(Math.round).join();
        const zoomed = range();
        const content = JSON.parse(figure.querySelector('script').textContent).choices[0];
        const { x, y } = content.data[0];
        content.data = [{ ...content.data[0], x: [...x, 900, 901], y: [...y, 1, 1] }];
        await Charts.draw(figure, content);
        return [zoomed, range(), plot.data[0].x.length - x.length];
    })()""")
    assert zoomed == again
    assert int(zoomed.split(",")[0]) > 1
    assert count == 2
    press(browser, "loss-by-worker", "zoom")


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("figure", [FIGURE, "loss-curves", "step-split"])
def test_a_saved_figure_has_its_width_its_title_above_all_else_and_no_script(
    browser: Browser, figure: str, columns: int
) -> None:
    text = browser.run(EXPORT.format(figure=figure, columns=columns))
    root = ET.fromstring(text)
    width = {1: 88, 2: 180}[columns]
    assert float(root.attrib["width"].removesuffix("mm")) == pytest.approx(width, abs=0.5)
    title, drawn = root.findall(f"{SVG}text"), root.find(f"{SVG}svg")
    assert title
    assert drawn is not None
    assert max(float(line.attrib["y"]) for line in title) < float(drawn.attrib["y"])
    assert not list(root.iter(f"{SVG}script"))
    assert not [name for element in root.iter() for name in element.attrib if name.startswith("on")]
    assert "javascript" not in "".join(
        value for element in root.iter() for key, value in element.attrib.items() if "href" in key
    )
    outside = browser.run(OUTSIDE.format(text=json.dumps(text)))
    assert outside == []


EXPORT = """(async () => {{
    const figure = document.getElementById('{figure}').closest('figure');
    const content = JSON.parse(figure.querySelector('script').textContent);
    const svg = await Export.picture(figure, content.choices?.[0] ?? content, {columns});
    return new XMLSerializer().serializeToString(svg);
}})()"""
OUTSIDE = """(() => {{
    const box = document.createElement('div');
    box.innerHTML = {text};
    document.body.append(box);
    const whole = box.firstChild.getBoundingClientRect();
    const legend = box.querySelector('.legend')?.getBoundingClientRect();
    const found = [...box.querySelectorAll('text')].filter((text) => {{
        const place = text.getBoundingClientRect();
        return place.width && (place.right > whole.right + 2 || place.left < whole.left - 2
            || place.top < whole.top - 2 || place.bottom > whole.bottom + 2);
    }}).map((text) => text.textContent);
    box.remove();
    return found;
}})()"""
"""Texts that are cut off at an edge of the picture."""


def test_a_figure_is_printed_alone_on_a_sheet_of_its_size(page: Path) -> None:
    with chromium() as browser:
        browser.open(page)
        browser.run("window.print = () => { window.printed = true }")
        browser.run(
            f"document.getElementById('{FIGURE}').closest('figure')"
            ".querySelector('[data-save=pdf]').click()"
        )
        browser.wait("window.printed")
        printed = browser.call("Page.printToPDF", preferCSSPageSize=True)["data"]
        browser.wait("!document.getElementById('sheet')")
        assert browser.errors == []
    document = base64.b64decode(printed)
    boxes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", document)
    assert len(boxes) == 1
    assert float(boxes[0][0]) == pytest.approx(88 / 25.4 * 72, abs=1.5)  # points
    assert b"/Subtype /Image" not in document  # lines and text, no pixels


def test_at_the_end_nothing_went_wrong(browser: Browser) -> None:
    assert browser.errors == []
