"use strict";
// Saves a figure as it is shown, at the width of one or two columns of a paper: SVG, PNG, and PDF
// through the browser's own print, which keeps vectors and text; and its numbers as CSV.
const Export = (() => {
  const WIDTH = { 1: 332, 2: 680 }; // 88 and 180 mm in px of 1/96 inch
  const FONT = "Helvetica, Arial, sans-serif", INK = "#1c1e21";
  const PNG_SCALE = 300 / 96;
  const SVG = "http://www.w3.org/2000/svg";
  const PAPER = {
    paper_bgcolor: "#fff", plot_bgcolor: "#fff", margin: { l: 44, r: 10, t: 8, b: 40 },
    font: { family: FONT, size: 9.5, color: INK },
  };

  const titleOf = (figure) => figure.querySelector(".title").textContent;
  const nameOf = (figure) => Charts.plotOf(figure).id;

  function heightOf(figure, content, columns) {
    const { data, heights } = content, isNarrow = columns === 1;
    const shown = Charts.panelCount(figure, content);
    if (shown) return 60 + 105 * Math.ceil(shown / Charts.columnsOf(data, isNarrow));
    if (data.some((trace) => trace.orientation === "h" || trace.z)) {
      return 0.8 * (heights?.[isNarrow ? 1 : 0] ?? 400);
    }
    const entries = data.filter((trace) => trace.showlegend !== false).length;
    return WIDTH[columns] * (isNarrow ? 0.7 : 0.45) + entries * (isNarrow ? 14 : 6);
  }

  // An SVG document: the title on top, Plotly's drawing below it, where no title can meet a legend.
  async function picture(figure, content, columns) {
    Charts.startLibrary();
    const size = { width: WIDTH[columns], height: Math.round(heightOf(figure, content, columns)) };
    const [data, layout] = Charts.arranged(figure, content, size, columns === 1);
    const small = (layout.annotations ?? []).map((each) => ({ ...each, font: { size: 8.5 } }));
    const legend = { ...layout.legend, font: { size: 9 } };
    const whole = Charts.withBase({ ...layout, ...PAPER, annotations: small, legend });
    const url = await Plotly.toImage({ data, layout: { ...whole, ...size } }, { format: "svg", ...size });
    const text = decodeURIComponent(url.slice(url.indexOf(",") + 1));
    const drawn = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
    return withTitle(drawn, titleOf(figure), size);
  }
  function withTitle(drawn, title, { width, height }) {
    const made = (name, attributes, text = "") => {
      const element = document.createElementNS(SVG, name);
      for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
      element.textContent = text;
      return element;
    };
    const lines = broken(title, width / 6.2);
    const top = 13 * lines.length + 6, whole = height + top;
    const size = { width: `${(width * 25.4) / 96}mm`, height: `${(whole * 25.4) / 96}mm` };
    const svg = made("svg", { ...size, viewBox: `0 0 ${width} ${whole}` });
    svg.append(made("rect", { width, height: whole, fill: "#fff" }));
    const font = { "font-family": FONT, "font-size": 10.5, "font-weight": 700, fill: INK };
    svg.append(...lines.map((line, at) => made("text", { x: 4, y: 13 * (at + 1), ...font }, line)));
    drawn.setAttribute("y", top);
    svg.append(drawn);
    return svg;
  }
  const broken = (text, most) => {
    const lines = [""];
    for (const word of text.split(" ")) {
      const longer = `${lines.at(-1)} ${word}`.trim();
      if (longer.length <= most || !lines.at(-1)) lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    return lines;
  };

  const textOf = (svg) => new XMLSerializer().serializeToString(svg);
  function download(name, blob) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  async function png(svg) {
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(textOf(svg))}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    const { width, height } = svg.viewBox.baseVal;
    canvas.width = Math.round(width * PNG_SCALE);
    canvas.height = Math.round(height * PNG_SCALE);
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  }
  // A sheet of the figure's size is all that is printed; the reader saves it as PDF.
  function print(svg, name) {
    const sheet = document.createElement("div"), style = document.createElement("style");
    const { width, height } = svg.viewBox.baseVal;
    sheet.id = "sheet";
    style.textContent = `@page { size: ${width}px ${height}px; margin: 0 }`;
    sheet.append(style, svg);
    const title = document.title;
    document.title = name;
    document.body.append(sheet);
    addEventListener("afterprint", () => { sheet.remove(); document.title = title; }, { once: true });
    window.print();
  }
  async function save(figure, content, format, columns) {
    const name = nameOf(figure);
    if (format === "csv") {
      return download(`${name}.csv`, new Blob([table(content)], { type: "text/csv" }));
    }
    const svg = await picture(figure, content, columns);
    if (format === "pdf") return print(svg, name);
    const blob = format === "png" ? await png(svg) : new Blob([textOf(svg)], { type: "image/svg+xml" });
    return download(`${name}.${format}`, blob);
  }

  // The numbers of a figure, a line per point, without bands and reference lines.
  const plain = (text) =>
    new DOMParser().parseFromString(String(text ?? ""), "text/html").body.textContent;
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  function table({ data, layout }) {
    const head = (axis) => axis?.title?.text ?? "name";
    const rows = [["series", head(layout.xaxis), head(layout.yaxis)]];
    const isDrawn = (trace) => trace.visible !== false && trace.hoverinfo !== "skip";
    for (const trace of data.filter(isDrawn)) {
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

  return { picture, save };
})();
