// Tables: sorts them, shows the seeds of a row, saves them as CSV, Markdown and LaTeX, and hints at
// columns that are out of sight.
(() => {
  const value = (body, place) => {
    const cell = body.rows[0].cells[place];
    return "v" in cell.dataset ? Number(cell.dataset.v) : cell.textContent;
  };
  function sortBy(head) {
    const table = head.closest("table"), place = head.cellIndex;
    const up = head.dataset.sorted !== "up";
    for (const other of head.parentNode.children) delete other.dataset.sorted;
    head.dataset.sorted = up ? "up" : "down";
    const bodies = [...table.tBodies]; // a row and its seeds
    bodies.sort((a, b) => {
      const [x, y] = up ? [value(a, place), value(b, place)] : [value(b, place), value(a, place)];
      const areNumbers = typeof x === "number" && typeof y === "number";
      return areNumbers ? x - y : String(x).localeCompare(String(y));
    });
    table.append(...bodies);
  }
  function showSeeds(button) {
    const rows = button.closest("tbody").querySelectorAll("tr.seed");
    for (const row of rows) row.hidden = !row.hidden;
    button.setAttribute("aria-expanded", String(!rows[0].hidden));
  }

  // As shown: rows of hidden strategies and of folded seeds are left out.
  const cellText = (cell) => {
    const copy = cell.cloneNode(true);
    for (const extra of copy.querySelectorAll("small, button")) extra.remove();
    return copy.textContent.trim().replace(/\s+/g, " ");
  };
  const isShown = (row) => !row.hidden && !row.parentNode.hidden;
  const rowsOf = (table) =>
    [...table.rows].filter(isShown).map((row) => [...row.cells].map(cellText));
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const LATEX = {
    "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}",
    "±": "$\\pm$", "µ": "$\\mu$", "<": "$<$", ">": "$>$",
  };
  const latex = (text) =>
    text.replace(/[\\~^±µ<>&%$#_{}]/g, (sign) => LATEX[sign] ?? `\\${sign}`);
  const FORMATS = {
    csv: (rows) => rows.map((row) => row.map(quoted).join(",")).join("\n"),
    md: ([head, ...rows], sides) => {
      const line = (cells) => `| ${cells.map((text) => text.replaceAll("|", "\\|")).join(" | ")} |`;
      const rule = `|${sides.map((side) => (side === "l" ? "---|" : "---:|")).join("")}`;
      return [line(head), rule, ...rows.map(line)].join("\n");
    },
    tex: ([head, ...rows], sides) => {
      const line = (cells) => `${cells.map(latex).join(" & ")} \\\\`;
      return [`\\begin{tabular}{${sides.join("")}}`, "\\hline", line(head), "\\hline",
        ...rows.map(line), "\\hline", "\\end{tabular}"].join("\n");
    },
  };
  const TYPES = { csv: "text/csv", md: "text/markdown", tex: "application/x-tex" };
  function save(box, format) {
    const table = box.querySelector("table");
    const sides = [...table.rows[0].cells].map((cell) =>
      (cell.classList.contains("left") ? "l" : "r"));
    const text = FORMATS[format](rowsOf(table), sides);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`${text}\n`], { type: TYPES[format] }));
    link.download = `${nameOf(box)}.${format}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  const boxes = [...document.querySelectorAll(".table")];
  function nameOf(box) {
    if (box.dataset.name) return box.dataset.name;
    const section = box.closest("section");
    const place = boxes.filter((other) => other.closest("section") === section).indexOf(box);
    return `${section.querySelector("h2").id}-table-${place + 1}`;
  }

  // Where there is room again a table has no hint; a folded one is measured when it is opened.
  const hint = (some) => {
    const wide = some.map((box) => {
      const scroll = box.querySelector(".scroll");
      return scroll.scrollWidth > scroll.clientWidth + 1;
    });
    some.forEach((box, at) => box.classList.toggle("wide", wide[at]));
  };
  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-table], .seeds, .sortable th");
    if (!target) return;
    if (target.dataset.table) save(target.closest(".table"), target.dataset.table);
    else if (target.classList.contains("seeds")) showSeeds(target);
    else sortBy(target);
  });
  addEventListener("toggle", (event) => hint([...event.target.querySelectorAll(".table")]), true);
  addEventListener("resize", () => hint(boxes));
  hint(boxes);
})();
