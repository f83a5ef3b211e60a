"use strict";
// The page: draws a figure when it comes near the window, and all of them for printing; hides
// strategies; switches the theme; saves figures; keeps the reader's choices.
(() => {
  const root = document.documentElement;
  const charts = [...document.querySelectorAll("figure.chart")];
  const contents = new Map();
  const hidden = new Set();
  const content = (chart) => {
    if (!contents.has(chart)) {
      contents.set(chart, JSON.parse(chart.querySelector("script").textContent));
    }
    return contents.get(chart);
  };
  const { plotOf } = Charts;
  const chosen = (chart) => {
    const select = chart.querySelector("select.choice");
    return select ? content(chart).choices[select.selectedIndex] : content(chart);
  };
  const visible = (traces) => traces.map((trace) =>
    hidden.has(trace.legendgroup) ? { ...trace, visible: false } : trace);

  const shown = (chart) => ({ ...chosen(chart), data: visible(chosen(chart).data) });
  const draw = (chart, width) => Charts.draw(chart, shown(chart), width);
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
  const selects = () => [...document.querySelectorAll("select.choice")];
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
    if (target.dataset.save) {
      const chart = target.closest("figure"), columns = chart.querySelector(".save select").value;
      Export.save(chart, shown(chart), target.dataset.save, Number(columns));
    } else if (target.dataset.switch) {
      target.setAttribute("aria-pressed", String(target.getAttribute("aria-pressed") !== "true"));
      draw(target.closest("figure"));
    } else if (target.classList.contains("chip")) { toggle(target.dataset.strategy); keep(); }
    else if (target.id === "theme") {
      const dark = getComputedStyle(root).colorScheme.includes("dark");
      root.dataset.theme = dark ? "light" : "dark";
      keep();
    }
  });
  document.addEventListener("change", (event) => {
    const select = event.target;
    if (!select.matches("select.choice")) return;
    draw(select.closest("figure"));
    const alike = (other) => select.dataset.shared && other.dataset.shared === select.dataset.shared;
    for (const other of selects().filter((each) => each !== select && alike(each))) {
      other.value = select.value;
      drawWhenNear([other.closest("figure")]);
    }
    keep();
  });
  Charts.NARROW.addEventListener("change", () => drawWhenNear(charts));
  const PAPER_PX = 680;
  let closed = [];
  const isSheet = () => document.getElementById("sheet"); // one figure is printed
  addEventListener("beforeprint", () => {
    if (isSheet()) return;
    closed = [...document.querySelectorAll("details:not([open], .save)")];
    for (const details of closed) details.open = true;
    for (const chart of charts) {
      near.unobserve(chart);
      draw(chart, PAPER_PX);
    }
  });
  addEventListener("afterprint", () => {
    if (isSheet()) return;
    for (const details of closed) details.open = false;
    drawWhenNear(charts);
  });
  restore();
  if (charts.length) drawWhenNear(charts); else isReady();
  addEventListener("load", () => setTimeout(Charts.startLibrary, 500));
})();
