"use strict";
// Draws figures with Plotly. Charts.draw(figure, content) draws or, called again, updates one:
//   figure   an element with a child .plot; its [data-switch] buttons, if any, say how it is shown
//   content  {data, layout}, Plotly's. heights: [wide, phone] in px; without them .plot keeps its
//            height. panels: those heights where each trace.meta has a panel of its own.
// More points are drawn by a call with longer data: zoom and switches stay as the reader left them.
const Charts = (() => {
  const BASE = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12 }, hovermode: "closest",
    dragmode: false, // a finger on the figure scrolls the page
    margin: { l: 64, r: 16, t: 12, b: 56 },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
    hoverlabel: { align: "left", namelength: -1 },
  };
  const GRID = "#dfe2e6", CONTEXT = "rgba(125,132,140,.3)";
  const NARROW = matchMedia("(max-width: 40rem)");

  // Figures render lazily: loading Plotly takes longest, so it is text until the first figure.
  const startLibrary = () => {
    const kept = document.getElementById("plotly");
    if (!kept) return;
    const script = document.createElement("script");
    script.textContent = kept.textContent;
    kept.replaceWith(script);
  };

  const plotOf = (figure) => figure.querySelector(".plot");
  const switchOf = (figure, name) => figure.querySelector(`[data-switch=${name}]`);
  const isOn = (figure, name) => switchOf(figure, name)?.getAttribute("aria-pressed") === "true";
  const axisNames = (layout) => Object.keys(layout).filter((key) => /^[xy]axis/.test(key));

  const withBase = (layout) => {
    const merged = { ...BASE, ...layout, margin: { ...BASE.margin, ...layout.margin },
      legend: { ...BASE.legend, ...layout.legend }, font: { ...BASE.font, ...layout.font } };
    for (const name of axisNames(layout)) {
      const title = { standoff: 10, ...layout[name].title };
      merged[name] = { automargin: true, zeroline: false, gridcolor: GRID, ...layout[name], title };
    }
    return merged;
  };

  // The other kind of axis has marks of Plotly's own; `ticksuffix` is the unit of a bare number.
  const asType = (axis, type) => {
    if ((axis.type === "log" ? "log" : "linear") === type) return axis;
    const { tickvals, ticktext, range, rangemode, ...rest } = axis;
    return { ...rest, type, tickformat: "~s" };
  };
  const asSwitched = (figure, layout) => {
    const found = { ...layout, dragmode: isOn(figure, "zoom") ? "zoom" : false };
    for (const name of axisNames(layout)) {
      const button = switchOf(figure, `log-${name[0]}`);
      if (button) found[name] = asType(layout[name], isOn(figure, button.dataset.switch) ? "log" : "linear");
    }
    return found;
  };

  // Where there is little room the names of bars are above them, and two matrices one below the
  // other.
  const forNarrow = (data, layout) => {
    const ticks = { nticks: 5, tickangle: 0, ticklabeloverflow: "allow" };
    const narrow = { ...layout, xaxis: { ...layout.xaxis, ...ticks } };
    narrow.legend = { ...layout.legend, font: { size: 10.5 }, tracegroupgap: 0 };
    if (layout.xaxis2) {
      narrow.xaxis.domain = [0, 1];
      narrow.xaxis2 = { ...layout.xaxis2, nticks: 5, tickangle: 0, domain: [0, 1] };
      narrow.yaxis = { ...layout.yaxis, domain: [0.57, 1] };
      narrow.yaxis2 = { ...layout.yaxis2, domain: [0, 0.43] };
    }
    if (!data.some((trace) => trace.orientation === "h")) return narrow;
    const yaxis = {
      ...layout.yaxis, ticklabelposition: "inside", ticklabelshift: -16, showgrid: false,
      tickfont: { size: 10.5 }, ticklabeloverflow: "allow",
    };
    narrow.xaxis.rangemode = "tozero"; // else Plotly leaves room for names left of zero
    return { ...narrow, yaxis, bargap: 0.66, margin: { l: 8 } };
  };

  // A panel for each trace.meta, on equal axes, with the lines of all others in grey.
  const inPanels = (data, layout, columns, size) => {
    const own = data.filter((trace) => trace.visible !== false);
    const names = namesOf(own);
    const rows = Math.ceil(names.length / columns), gap = 0.035;
    const lines = own.filter((trace) => trace.meta && !trace.fill);
    const found = { ...layout, showlegend: false, annotations: [] };
    const traces = [];
    const rowHeight = 1 / rows, title = Math.min(0.45 * rowHeight, 30 / size.height);
    names.forEach((name, place) => {
      const column = place % columns, row = Math.floor(place / columns);
      const id = place ? place + 1 : "", at = { xaxis: `x${id}`, yaxis: `y${id}` };
      const others = lines.filter((trace) => trace.meta !== name);
      const strung = (key) => others.flatMap((trace) => [...trace[key], null]);
      traces.push({ ...at, x: strung("x"), y: strung("y"), mode: "lines", hoverinfo: "skip",
        line: { color: CONTEXT, width: 1 } });
      traces.push(...own.filter((trace) => !trace.meta || trace.meta === name)
        .map((trace) => ({ ...trace, ...at, line: { ...trace.line, dash: "solid" } })));
      const isLowest = place + columns >= names.length;
      const left = (column + (column ? gap : 0)) / columns;
      const { title: xTitle, ...x } = layout.xaxis, { title: yTitle, ...y } = layout.yaxis;
      const top = 1 - row * rowHeight - title;
      found[`xaxis${id}`] = { ...x, nticks: 5, anchor: at.yaxis, domain: [left, (column + 1) / columns],
        showticklabels: isLowest, tickangle: 0, ...(place ? { matches: "x" } : {}),
        ...(isLowest && column === Math.floor((Math.min(columns, names.length) - 1) / 2)
          ? { title: xTitle } : {}) };
      found[`yaxis${id}`] = { ...y, nticks: 6, anchor: at.xaxis, domain: [1 - (row + 1) * rowHeight + 0.01, top],
        showticklabels: column === 0, ...(place ? { matches: "y" } : {}),
        ...(column === 0 && row === Math.floor((rows - 1) / 2) ? { title: yTitle } : {}) };
      found.annotations.push({ text: wrapped(name, (size.width - 60) / columns / 6), showarrow: false,
        xref: "paper", x: left, xanchor: "left", yref: "paper", y: top, yanchor: "bottom",
        align: "left", font: { size: 11 } });
    });
    return [traces, found];
  };
  // At most two lines of so many characters; entities such as &amp; have no space inside.
  const wrapped = (text, most) => {
    const lines = [""];
    for (const word of text.split(" ")) {
      const longer = `${lines.at(-1)} ${word}`.trim();
      if (longer.length <= most || !lines.at(-1)) lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    return lines.slice(0, 2).join("<br>") + (lines.length > 2 ? " ..." : "");
  };

  // What Plotly is to draw in a place of this size: [data, layout].
  function arranged(figure, content, size, isNarrow) {
    const layout = asSwitched(figure, content.layout);
    if (hasPanels(figure, content)) {
      return inPanels(content.data, layout, columnsOf(content.data, isNarrow), size);
    }
    return [content.data, isNarrow ? forNarrow(content.data, layout) : layout];
  }
  const hasPanels = (figure, content) =>
    content.panels && (!switchOf(figure, "panels") || isOn(figure, "panels"));
  const namesOf = (data) => [...new Set(data.filter((trace) => trace.visible !== false)
    .map((trace) => trace.meta).filter(Boolean))];
  const columnsOf = (data, isNarrow) => (isNarrow ? 2 : namesOf(data).length > 9 ? 4 : 3);
  const panelCount = (figure, content) =>
    (hasPanels(figure, content) ? namesOf(content.data).length : 0);

  // In its place's width, or in another: on paper.
  function draw(figure, content, width) {
    startLibrary();
    const plot = plotOf(figure);
    const heights = hasPanels(figure, content) ? content.panels : content.heights;
    if (heights) {
      plot.style.setProperty("--wide", `${heights[0]}px`);
      plot.style.setProperty("--phone", `${heights[1]}px`);
    }
    const size = { width: width ?? plot.clientWidth, height: plot.clientHeight };
    const [data, layout] = arranged(figure, content, size, NARROW.matches);
    const shown = [...figure.querySelectorAll("[aria-pressed=true], option:checked")];
    const whole = { ...withBase(layout), width, height: undefined,
      uirevision: ["shown", ...shown.map((element) => element.textContent)].join() };
    const done = Plotly.react(plot, data, whole, { displayModeBar: false, responsive: true });
    figure.dataset.drawn = "yes";
    return done;
  }

  return { NARROW, arranged, columnsOf, draw, panelCount, plotOf, startLibrary, withBase };
})();
