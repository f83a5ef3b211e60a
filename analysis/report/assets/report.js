"use strict";
// Draws a figure when it comes near the window, and all of them for paper; hides strategies; changes the
// theme; sorts tables; saves figures; remembers what was chosen.
(() => {
  const root = document.documentElement;
  const charts = [...document.querySelectorAll("figure.chart")];
  const contents = new Map();
  const hidden = new Set();
  const BASE = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12 }, hovermode: "closest",
    dragmode: false, // a finger on the figure scrolls the page
    margin: { l: 64, r: 16, t: 12, b: 56 }, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
    hoverlabel: { align: "left", namelength: -1 },
  };

  const content = (chart) => {
    if (!contents.has(chart)) contents.set(chart, JSON.parse(chart.querySelector("script").textContent));
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
      merged[name] = { automargin: true, zeroline: false, gridcolor: "#dfe2e6", ...layout[name], title };
    }
    return merged;
  };
  // On a phone the names of bars stand above them, inside: beside them they would leave no room.
  const NARROW = matchMedia("(max-width: 40rem)");
  const forPhone = (data, layout) => {
    if (!NARROW.matches) return layout;
    const narrow = { ...layout, xaxis: { ...layout.xaxis, nticks: 5, tickangle: 0, ticklabeloverflow: "allow" } };
    // Names of lines are one below the other there: close together, and the figure is as much taller.
    narrow.legend = { ...layout.legend, font: { size: 10.5 }, tracegroupgap: 0 };
    narrow.height = layout.height + 12 * Math.max(0, data.filter((trace) => trace.showlegend !== false).length - 4);
    if (layout.xaxis2) { // two maps, one below the other
      narrow.xaxis.domain = [0, 1];
      narrow.xaxis2 = { ...layout.xaxis2, nticks: 5, tickangle: 0, domain: [0, 1] };
      narrow.yaxis = { ...layout.yaxis, domain: [0.57, 1] };
      narrow.yaxis2 = { ...layout.yaxis2, domain: [0, 0.43] };
      narrow.height = layout.height * 1.8;
    }
    if (!data.some((trace) => trace.orientation === "h")) return narrow;
    const yaxis = { ...layout.yaxis, ticklabelposition: "inside", ticklabelshift: -16, showgrid: false,
      tickfont: { size: 10.5 }, ticklabeloverflow: "allow" };
    narrow.xaxis.rangemode = "tozero"; // else there would be room for names left of nothing
    return { ...narrow, yaxis, height: 110 + (layout.height - 110) * 1.8, bargap: 0.66, margin: { l: 8 } };
  };
  const visible = (traces) => traces.map((trace) =>
    hidden.has(trace.legendgroup) ? { ...trace, visible: false } : trace);

  function draw(chart) {
    startLibrary();
    const { data, layout: asked } = chosen(chart);
    const layout = forPhone(data, asked);
    plotOf(chart).style.height = `${layout.height}px`;
    Plotly.react(plotOf(chart), visible(data), withBase(layout), { displayModeBar: false, responsive: true });
    chart.dataset.drawn = "yes";
  }
  // The library that draws takes longest to start, so the page waits for it only when a figure is near, or when there
  // is nothing else to do.
  const startLibrary = () => {
    const kept = document.getElementById("plotly");
    if (!kept) return;
    const script = document.createElement("script");
    script.textContent = kept.textContent;
    kept.replaceWith(script);
  };
  const isReady = () => { root.dataset.ready = "yes"; performance.mark("ready"); };
  // A figure is drawn, or drawn again, when it comes nearer than half a window. The first answer names every
  // figure: then all that can be seen is drawn.
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
      near.unobserve(chart); // else one that is observed already would not be told of again
      near.observe(chart);
    }
  };
  function drawRest() { for (const chart of charts) if (!chart.dataset.drawn) { near.unobserve(chart); draw(chart); } }

  function save(chart, format) {
    startLibrary();
    const { data, layout } = chosen(chart);
    const title = chart.querySelector(".title").textContent;
    const paper = { paper_bgcolor: "#fff", plot_bgcolor: "#fff", title: { text: title, font: { size: 16 } } };
    const whole = { ...withBase(layout), ...paper };
    whole.margin = { ...whole.margin, t: 56 };
    return Plotly.downloadImage({ data: visible(data), layout: whole }, {
      format, filename: plotOf(chart).id, width: 1000, height: layout.height + 80, scale: format === "png" ? 2 : 1 });
  }

  // The numbers behind a figure as it is, a line for each point; bands and other company are left out.
  const plain = (text) => new DOMParser().parseFromString(String(text ?? ""), "text/html").body.textContent;
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  function tableOf(chart) {
    const { data, layout } = chosen(chart);
    const rows = [["what", layout.xaxis?.title?.text ?? "name", layout.yaxis?.title?.text ?? "name"]];
    for (const trace of visible(data).filter((one) => one.visible !== false && one.hoverinfo !== "skip")) {
      if (trace.z) {
        if (rows[0].length < 4) rows[0].push("bytes");
        trace.z.forEach((line, at) => line.forEach((value, to) => rows.push([trace.name ?? "", trace.x[to], trace.y[at], value ?? 0])));
      } else {
        trace.y.forEach((y, at) => {
          const x = trace.x ? trace.x[at] : trace.x0 + at * trace.dx;
          rows.push([Array.isArray(trace.text) ? trace.text[at] : trace.name, x, y]);
        });
      }
    }
    return rows.map((row) => row.map((one) => quoted(plain(one))).join(",")).join("\n") + "\n";
  }
  function saveTable(chart) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([tableOf(chart)], { type: "text/csv" }));
    link.download = `${plotOf(chart).id}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function toggle(strategy) {
    if (!hidden.delete(strategy)) hidden.add(strategy);
    showHidden();
    drawWhenNear(charts);
  }
  function showHidden() {
    for (const chip of document.querySelectorAll(".chip")) {
      chip.setAttribute("aria-pressed", String(!hidden.has(chip.dataset.strategy)));
    }
    for (const row of document.querySelectorAll("tr[data-strategy]")) {
      row.hidden = hidden.has(row.dataset.strategy);
    }
  }

  // What was chosen outlives a reload, as --watch has one every few seconds. A browser may forbid to keep anything.
  const KEPT = `gradwire ${location.pathname}`;
  const selects = () => [...document.querySelectorAll("figure.chart select")];
  function keep() {
    const chosenLabels = selects().map((one) => [plotOf(one.closest("figure")).id, one.value]);
    const state = { theme: root.dataset.theme, hidden: [...hidden], chosen: Object.fromEntries(chosenLabels) };
    try { sessionStorage.setItem(KEPT, JSON.stringify(state)); } catch { /* then not */ }
  }
  function takeUp() {
    let state = null;
    try { state = JSON.parse(sessionStorage.getItem(KEPT)); } catch { /* then not */ }
    if (!state) return;
    if (state.theme) root.dataset.theme = state.theme;
    state.hidden.forEach((strategy) => hidden.add(strategy));
    showHidden();
    for (const one of selects()) { // by name: a run that has come in between moves the others
      const label = state.chosen[plotOf(one.closest("figure")).id];
      if ([...one.options].some((option) => option.value === label)) one.value = label;
    }
  }

  function sortBy(head) {
    const table = head.closest("table"), place = [...head.parentNode.children].indexOf(head);
    const up = head.dataset.sorted !== "up";
    for (const other of head.parentNode.children) delete other.dataset.sorted;
    head.dataset.sorted = up ? "up" : "down";
    const value = (row) => {
      const cell = row.children[place];
      return "v" in cell.dataset ? Number(cell.dataset.v) : cell.textContent;
    };
    const rows = [...table.querySelectorAll("tbody tr")];
    rows.sort((a, b) => {
      const [x, y] = up ? [value(a), value(b)] : [value(b), value(a)];
      return typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
    });
    rows.forEach((row) => row.parentNode.append(row));
  }

  document.addEventListener("click", (event) => {
    const target = event.target.closest("button, .sortable th");
    if (!target) return;
    if (target.dataset.save === "csv") saveTable(target.closest("figure"));
    else if (target.dataset.save) save(target.closest("figure"), target.dataset.save);
    else if (target.classList.contains("chip")) { toggle(target.dataset.strategy); keep(); }
    else if (target.id === "theme") {
      const dark = getComputedStyle(root).colorScheme.includes("dark");
      root.dataset.theme = dark ? "light" : "dark";
      keep();
    } else if (target.tagName === "TH") sortBy(target);
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
    for (const one of closed) one.open = true;
    drawRest();
    for (const chart of charts) Plotly.relayout(plotOf(chart), { width: PAPER_PX });
  });
  addEventListener("afterprint", () => {
    for (const one of closed) one.open = false;
    for (const chart of charts) Plotly.relayout(plotOf(chart), { width: null, autosize: true });
  });
  takeUp();
  if (charts.length) drawWhenNear(charts); else isReady();
  addEventListener("load", () => setTimeout(startLibrary, 500));
})();
