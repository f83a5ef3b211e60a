"use strict";
// Polls the state of the session and fills in the page: points of the figures, texts of the runs.
// All text is set as text, never as HTML. A figure is drawn by report.js, which hears of it by the
// event `content`.
(() => {
  const POLL_MS = 1000;
  const DRAW_MS = 3000; // curves of steps and traffic; a new epoch is drawn at once
  const MOST_FAILURES = 3;
  const at = (id) => document.getElementById(id);
  const figure = (name) => at(name).closest("figure");
  const contentOf = (name) => JSON.parse(figure(name).querySelector("script").textContent);
  const accuracy = contentOf("live-accuracy"), loss = contentOf("live-loss");
  const traffic = contentOf("live-traffic");
  const contents = { "live-accuracy": accuracy, "live-loss": loss, "live-traffic": traffic };
  const rows = [...at("live-runs").tBodies], cells = [...at("live-strip").children];
  const runs = rows.map(() => ({ status: "to come", share: 0, scores: [] }));
  const changed = new Set();
  let version = 0, failures = 0, drawnAt = -DRAW_MS;

  function draw(name) {
    changed.delete(name);
    figure(name).dispatchEvent(
      new CustomEvent("content", { bubbles: true, detail: shown(name) }));
  }
  function drawChanged() {
    if (document.hidden) return;
    if (changed.has("live-accuracy")) draw("live-accuracy");
    if (performance.now() < drawnAt + DRAW_MS || !changed.size) return;
    drawnAt = performance.now();
    for (const name of [...changed]) draw(name);
  }

  // Numbers stay as they are; a figure shows them in the unit that fits the largest.
  const RATES = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"], BYTES = ["B", "kB", "MB", "GB", "TB"];
  function inUnits({ data, layout, ...rest }, key, units) {
    const most = Math.max(1, ...data.flatMap((line) => line[key]));
    const power = Math.min(units.length - 1, Math.floor(Math.log10(most) / 3));
    const scaled = (value) => (value === null ? null : value / 1000 ** power);
    const axis = layout[`${key}axis`];
    const title = { ...axis.title, text: axis.title.text.replace("{}", units[power]) };
    return { ...rest, layout: { ...layout, [`${key}axis`]: { ...axis, title } },
      data: data.map((line) => ({ ...line, [key]: line[key].map(scaled) })) };
  }
  const shown = (name) => (name === "live-traffic"
    ? inUnits(traffic, "y", RATES)
    : { choices: contents[name].choices.with(2, inUnits(contents[name].choices[2], "x", BYTES)) });

  const column = (rows, place) => rows.map((numbers) => numbers[place]);
  function setLines(run) {
    accuracy.choices.forEach(({ data }, x) => {
      Object.assign(data[run.place], { x: column(run.scores, x), y: column(run.scores, 3) });
    });
    loss.choices.forEach(({ data }, x) => {
      const [train, test] = data.slice(2 * run.place, 2 * run.place + 2);
      Object.assign(train, { x: column(run.losses, x), y: column(run.losses, 3) });
      Object.assign(test, { x: column(run.scores, x), y: column(run.scores, 4) });
    });
    changed.add("live-loss");
    if (run.scores.length !== runs[run.place].scores.length) changed.add("live-accuracy");
  }
  function setTraffic(run) {
    traffic.data.forEach((line, place) => Object.assign(line, {
      x: place < run.nodes.length ? run.seconds : [], y: run.sent_bit[place] ?? [],
      name: run.nodes[place] ?? "", showlegend: place < run.nodes.length,
    }));
    changed.add("live-traffic");
  }
  function setRow(run) {
    const texts = { ...run.cells, status: run.status, error: run.error };
    for (const cell of rows[run.place].querySelectorAll("[data-key]")) {
      cell.textContent = texts[cell.dataset.key] ?? cell.textContent;
    }
    rows[run.place].querySelector("[data-key=status]").dataset.status = run.status;
    cells[run.place].dataset.status = run.status;
    cells[run.place].style.setProperty("--share", `${100 * run.share}%`);
  }

  function setSummary(state) {
    const count = (status) => runs.filter((run) => run.status === status).length;
    const statuses = ["completed", "failed", "interrupted", "running", "to come"];
    at("live-counts").textContent = statuses
      .filter(count).map((status) => `${count(status)} ${status}`).join(", ");
    const place = runs.findIndex((run) => run.status === "running") + 1;
    const left = state.left ? `, about ${state.left} left` : "";
    if (place) at("live-state").textContent = `Run ${place} of ${runs.length}`;
    at("live-detail").textContent = `${state.elapsed} so far${left}`;
  }
  function end(title, text, path) {
    at("live-state").textContent = title;
    at("live-end").hidden = false;
    const where = document.createElement("code");
    where.textContent = path;
    at("live-end").replaceChildren(text, " ", where);
  }
  // The server ends with the session, so the report is fetched now and shown from memory.
  async function finish(state) {
    const text = state.report ? "The final report:" : "All runs are in the folder";
    end("Finished", text, state.report || at("live-end").dataset.folder);
    at("live-detail").textContent = `after ${state.elapsed}`;
    drawnAt = -DRAW_MS;
    drawChanged();
    if (!state.report) return;
    const page = await fetch("report.html");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([await page.blob()], { type: "text/html" }));
    link.textContent = "show it here";
    at("live-end").append(" ", link);
  }

  function apply(state) {
    version = state.version;
    for (const run of state.runs) {
      setLines(run);
      setRow(run);
      runs[run.place] = run;
      if (run.nodes.length) setTraffic(run);
    }
    setSummary(state);
    drawChanged();
  }
  async function poll() {
    try {
      const state = await (await fetch(`state.json?after=${version}`)).json();
      failures = 0;
      apply(state);
      if (state.is_over) return finish(state);
    } catch (error) {
      failures += 1;
      if (failures === MOST_FAILURES) {
        return end("Ended", "The session has ended or was interrupted. Its folder:",
          at("live-end").dataset.folder);
      }
    }
    setTimeout(poll, POLL_MS);
  }
  poll();
})();
