"use strict";
// Draws a figure when it comes near the window, and all of them for printing; hides strategies;
// switches the theme; saves figures; keeps the reader's choices.
(() => {
  const root = document.documentElement;
  const charts = [...document.querySelectorAll("figure.chart")];
  const contents = new Map();
  const hidden = new Set();
  const BASE = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12 }, hovermode: "closest",
    dragmode: false, // a finger on the figure scrolls the page
    margin: { l: 64, r: 16, t: 12, b: 56 },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
    hoverlabel: { align: "left", namelength: -1 },
  };

  const content = (chart) => {
    if (!contents.has(chart)) {
      contents.set(chart, JSON.parse(chart.querySelector("script").textContent));
    }
    return contents.get(chart);
  };
  const plotOf = (chart) => chart.querySelector(".plot");
  const chosen = (chart) => {
    const select = chart.querySelector("select");
    return select ? content(chart).choices[select.selectedIndex] : content(chart);
  };
  const withBase = (layout) => {
    const merged = { ...BASE, ...layout, margin: { ...BASE.margin, ...layout.margin },
      legend: { ...BASE.legend, ...layout.legend } };
    for (const name of Object.keys(layout).filter((key) => /^[xy]axis/.test(key))) {
      const title = { standoff: 10, ...layout[name].title };
      const usual = { automargin: true, zeroline: false, gridcolor: "#dfe2e6" };
      merged[name] = { ...usual, ...layout[name], title };
    }
    return merged;
  };
  // On a phone the names of bars are above them: beside them they would leave no room.
  const NARROW = matchMedia("(max-width: 40rem)");
  const forPhone = (data, layout) => {
    if (!NARROW.matches) return layout;
    const ticks = { nticks: 5, tickangle: 0, ticklabeloverflow: "allow" };
    const narrow = { ...layout, xaxis: { ...layout.xaxis, ...ticks } };
    // Legend entries are one below the other there: smaller, and the figure is taller.
    const entries = data.filter((trace) => trace.showlegend !== false).length;
    narrow.legend = { ...layout.legend, font: { size: 10.5 }, tracegroupgap: 0 };
    narrow.height = layout.height + 12 * Math.max(0, entries - 4);
    if (layout.xaxis2) { // two matrices, one below the other
      narrow.xaxis.domain = [0, 1];
      narrow.xaxis2 = { ...layout.xaxis2, nticks: 5, tickangle: 0, domain: [0, 1] };
      narrow.yaxis = { ...layout.yaxis, domain: [0.57, 1] };
      narrow.yaxis2 = { ...layout.yaxis2, domain: [0, 0.43] };
      narrow.height = layout.height * 1.8;
    }
    if (!data.some((trace) => trace.orientation === "h")) return narrow;
    const yaxis = {
      ...layout.yaxis, ticklabelposition: "inside", ticklabelshift: -16, showgrid: false,
      tickfont: { size: 10.5 }, ticklabeloverflow: "allow",
    };
    narrow.xaxis.rangemode = "tozero"; // else Plotly leaves room for names left of zero
    const height = 110 + (layout.height - 110) * 1.8;
    return { ...narrow, yaxis, height, bargap: 0.66, margin: { l: 8 } };
  };
  const visible = (traces) => traces.map((trace) =>
    hidden.has(trace.legendgroup) ? { ...trace, visible: false } : trace);

  function draw(chart) {
    startLibrary();
    const { data, layout: wide } = chosen(chart);
    const layout = forPhone(data, wide);
    plotOf(chart).style.height = `${layout.height}px`;
    const config = { displayModeBar: false, responsive: true };
    Plotly.react(plotOf(chart), visible(data), withBase(layout), config);
    chart.dataset.drawn = "yes";
  }
  // Figures render lazily: loading Plotly takes longest, so the page loads it only when a figure
  // is near, or when it is idle.
  const startLibrary = () => {
    const kept = document.getElementById("plotly");
    if (!kept) return;
    const script = document.createElement("script");
    script.textContent = kept.textContent;
    kept.replaceWith(script);
  };
  const isReady = () => { root.dataset.ready = "yes"; performance.mark("ready"); };
  // A figure is drawn, or redrawn, when it comes nearer than half a window. The first callback
  // names every figure: then all visible ones are drawn.
  const near = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      draw(target);
    }
    if (!root.dataset.ready) isReady();
  }, { rootMargin: "50% 0px" });
  const drawWhenNear = (some) => {
    for (const chart of some) {
      delete chart.dataset.drawn;
      near.unobserve(chart); // an observed figure would not be reported again
      near.observe(chart);
    }
  };
  function drawRest() {
    for (const chart of charts.filter((each) => !each.dataset.drawn)) {
      near.unobserve(chart);
      draw(chart);
    }
  }

  function save(chart, format) {
    startLibrary();
    const { data, layout } = chosen(chart);
    const title = chart.querySelector(".title").textContent;
    const white = { paper_bgcolor: "#fff", plot_bgcolor: "#fff" };
    const whole = { ...withBase(layout), ...white, title: { text: title, font: { size: 16 } } };
    whole.margin = { ...whole.margin, t: 56 };
    return Plotly.downloadImage({ data: visible(data), layout: whole }, {
      format, filename: plotOf(chart).id, width: 1000, height: layout.height + 80,
      scale: format === "png" ? 2 : 1,
    });
  }

  // The numbers of a figure as drawn, a line per point, without bands and reference lines.
  const plain = (text) =>
    new DOMParser().parseFromString(String(text ?? ""), "text/html").body.textContent;
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  function tableOf(chart) {
    const { data, layout } = chosen(chart);
    const head = (axis) => axis?.title?.text ?? "name";
    const rows = [["series", head(layout.xaxis), head(layout.yaxis)]];
    const isDrawn = (trace) => trace.visible !== false && trace.hoverinfo !== "skip";
    for (const trace of visible(data).filter(isDrawn)) {
      if (trace.z) {
        if (rows[0].length < 4) rows[0].push(trace.colorbar.title.text);
        trace.z.forEach((line, at) => line.forEach((value, to) =>
          rows.push([trace.name ?? "", trace.x[to], trace.y[at], value ?? 0])));
      } else {
        trace.y.forEach((y, at) => {
          const x = trace.x ? trace.x[at] : trace.x0 + at * trace.dx;
          rows.push([Array.isArray(trace.text) ? trace.text[at] : trace.name, x, y]);
        });
      }
    }
    return rows.map((row) => row.map((cell) => quoted(plain(cell))).join(",")).join("\n") + "\n";
  }
  function saveTable(chart) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([tableOf(chart)], { type: "text/csv" }));
    link.download = `${plotOf(chart).id}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  addEventListener("content", ({ target, detail }) => { // of a figure that grows (live.js)
    contents.set(target, detail);
    drawWhenNear([target]);
  });

  function toggle(strategy) {
    if (!hidden.delete(strategy)) hidden.add(strategy);
    showHidden();
    drawWhenNear(charts);
  }
  function showHidden() {
    for (const chip of document.querySelectorAll(".chip")) {
      chip.setAttribute("aria-pressed", String(!hidden.has(chip.dataset.strategy)));
    }
    for (const rows of document.querySelectorAll("tbody[data-strategy]")) {
      rows.hidden = hidden.has(rows.dataset.strategy);
    }
  }

  // Choices survive a reload: with --watch there is one every few seconds. A browser may forbid it.
  const KEPT = `gradwire ${location.pathname}`;
  const selects = () => [...document.querySelectorAll("figure.chart select")];
  function keep() {
    const labels = selects().map((select) => [plotOf(select.closest("figure")).id, select.value]);
    const state = {
      theme: root.dataset.theme, hidden: [...hidden], chosen: Object.fromEntries(labels),
    };
    try { sessionStorage.setItem(KEPT, JSON.stringify(state)); } catch { /* not kept */ }
  }
  function restore() {
    let state = null;
    try { state = JSON.parse(sessionStorage.getItem(KEPT)); } catch { /* nothing kept */ }
    if (!state) return;
    if (state.theme) root.dataset.theme = state.theme;
    state.hidden.forEach((strategy) => hidden.add(strategy));
    showHidden();
    for (const select of selects()) { // by name: a new run changes the numbers of the others
      const label = state.chosen[plotOf(select.closest("figure")).id];
      if ([...select.options].some((option) => option.value === label)) select.value = label;
    }
  }

  document.addEventListener("click", (event) => {
    const target = event.target.closest("button");
    if (!target) return;
    if (target.dataset.save === "csv") saveTable(target.closest("figure"));
    else if (target.dataset.save) save(target.closest("figure"), target.dataset.save);
    else if (target.classList.contains("chip")) { toggle(target.dataset.strategy); keep(); }
    else if (target.id === "theme") {
      const dark = getComputedStyle(root).colorScheme.includes("dark");
      root.dataset.theme = dark ? "light" : "dark";
      keep();
    }
  });
  document.addEventListener("change", (event) => {
    if (!event.target.matches("figure.chart select")) return;
    draw(event.target.closest("figure"));
    keep();
  });
  NARROW.addEventListener("change", () => drawWhenNear(charts));
  const PAPER_PX = 680;
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const details of closed) details.open = true;
    drawRest();
    for (const chart of charts) Plotly.relayout(plotOf(chart), { width: PAPER_PX });
  });
  addEventListener("afterprint", () => {
    for (const details of closed) details.open = false;
    for (const chart of charts) Plotly.relayout(plotOf(chart), { width: null, autosize: true });
  });
  restore();
  if (charts.length) drawWhenNear(charts); else isReady();
  addEventListener("load", () => setTimeout(startLibrary, 500));
})();
