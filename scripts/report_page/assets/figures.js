// SPDX-License-Identifier: Apache-2.0
// Draws the figures: the chosen points, as many panels as have room, on the axes the reader asked for.
"use strict";

const views = new Map();  // figure id -> the Vega view on the page

function panelSize(count, width) {
  const room = Math.max(1, Math.floor(width / 250));
  const columns = [3, 4, 2].find((some) => some <= room && count % some === 0) ?? Math.min(count, room, 3);
  const each = Math.min(560, Math.floor((width - 90) / columns) - 26);
  return { columns, width: each, height: Math.max(170, Math.round(each * (columns === 1 ? 0.5 : 0.68))) };
}

// The chosen points of a figure, in the panels that weigh most where there are too many.
function visible(figure) {
  const points = figure.points.filter((point) => chosen(point.row));
  const present = new Set(points.map((point) => point.panel));
  const panels = figure.panels.filter((panel) => present.has(panel.label));
  const kept = new Set([...panels].sort((a, b) => a.weight - b.weight).slice(0, report.panelsShown).map((panel) => panel.label));
  return { points: points.filter((point) => kept.has(point.panel)), shown: kept.size, all: panels.length };
}

function setScale(specification, channel, type) {
  for (const layer of specification.spec.layer) {
    const scale = layer.encoding[channel]?.scale;
    if (!scale) continue;
    scale.type = type;
    if (type === "log") continue;
    delete scale.base;
    if (channel === "y") delete layer.encoding.y.axis?.values;
  }
}

// As many columns of a legend as fit beside each other; it would not wrap by itself.
function legendColumns(texts, width) {
  const widths = texts.map((text) => 26 + 6.5 * text.length);
  const room = width - 50;
  if (widths.reduce((sum, one) => sum + one, 0) < room) return widths.length;
  return Math.max(1, Math.min(7, Math.floor(room / Math.max(...widths))));
}

function withLegend(theme, points, width) {
  const texts = [...new Set(points.flatMap((point) => [point.schedule, point.line]))];
  return { ...theme, legend: { ...theme.legend, columns: legendColumns(texts, width) } };
}

function specification(figure, size, points, onPage) {
  const made = structuredClone(figure.spec);
  made.data = { name: "points", values: points };
  made.columns = size.columns;
  Object.assign(made.spec, { width: size.width, height: size.height });
  if (onPage) delete made.title;  // the page has it as text
  if (!figure.logX) setScale(made, "x", "linear");
  if (figure.logY === false && figure.mayLogY) setScale(made, "y", "linear");
  return made;
}

async function drawFigure(figure) {
  const box = document.getElementById(figure.id);
  const target = box.querySelector(".chart");
  const { points, shown, all } = visible(figure);
  box.querySelector(".panels").textContent =
    shown < all ? `${shown} of ${all} panels, those with the most points; choose rows on the left to see others.` : "";
  views.get(figure.id)?.finalize();
  views.delete(figure.id);
  if (points.length === 0) {
    target.replaceChildren(element("p", { className: "absent", textContent: "No chosen row belongs to this figure." }));
    return;
  }
  const size = panelSize(shown, target.clientWidth);
  const theme = withLegend(report.themes[currentTheme()], points, target.clientWidth);
  const result = await vegaEmbed(target, specification(figure, size, points, true), {
    actions: false, renderer: "svg", config: theme, tooltip: showTooltip,
  });
  views.set(figure.id, result.view);
}

// A picture for a paper: full title and provenance, on white, whatever the page looks like.
async function exportFigure(figure, type) {
  const { points, shown } = visible(figure);
  const holder = element("div");
  const { view } = await vegaEmbed(holder, specification(figure, panelSize(shown, 1000), points, false), {
    actions: false, renderer: "svg", config: withLegend(report.themes.light, points, 1000),
  });
  if (type === "svg") save(`${figure.name}.svg`, "image/svg+xml", await view.toSVG());
  else (await view.toCanvas(2)).toBlob((blob) => save(`${figure.name}.png`, "image/png", blob));
  view.finalize();
}

function buildTools(figure) {
  const tools = document.getElementById(figure.id).querySelector(".tools");
  const toggle = (text, property) => {
    const button = element("button", { type: "button", textContent: text });
    button.setAttribute("aria-pressed", String(figure[property]));
    button.onclick = () => {
      figure[property] = !figure[property];
      button.setAttribute("aria-pressed", String(figure[property]));
      drawFigure(figure);
    };
    tools.append(button);
  };
  toggle("log x", "logX");
  if (figure.mayLogY) toggle("log y", "logY");
  for (const type of ["svg", "png"])
    tools.append(element("button", { type: "button", textContent: `save ${type}`, onclick: () => exportFigure(figure, type) }));
}

const TOOLTIP = ["median_s", "p10_s", "p90_s", "tflops_per_rank", "serial_share", "exposed_share", "imbalance_s",
  "strong_efficiency", "weak_efficiency", "bytes_sent_per_rank", "peak_bytes_per_rank"];

function showTooltip(_handler, event, _item, datum) {
  const box = document.getElementById("tooltip");
  box.hidden = !datum || datum.row === undefined;
  if (box.hidden) return;
  const text = (name) => formatted(name, field(datum.row, name));
  const numbers = TOOLTIP.filter((name) => text(name) !== "").map((name) =>
    element("tr", {}, element("td", { textContent: name }), element("td", { textContent: text(name) })));
  const said = (names) => names.filter((name) => text(name) !== "").map((name) => `${name} ${text(name)}`).join(" · ");
  box.replaceChildren(
    element("b", { textContent: datum.line ? `${datum.schedule} (${datum.line})` : datum.schedule }),
    element("p", { textContent: said([...report.problem, "repeats"]) }),
    element("table", {}, ...numbers),
    element("p", { textContent: `${report.worlds[field(datum.row, "world")]} · ${said([...report.provenance, "file"])}` }));
  const { clientX: x, clientY: y } = event;
  box.style.left = `${x + box.offsetWidth + 24 < innerWidth ? x + 14 : Math.max(4, x - box.offsetWidth - 14)}px`;
  box.style.top = `${Math.max(4, Math.min(y + 14, innerHeight - box.offsetHeight - 8))}px`;
}
