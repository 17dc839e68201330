// SPDX-License-Identifier: Apache-2.0
// Starts the page.
"use strict";

const MAIN_COLUMNS = ["world", "schedule", "pass", "mask", "ranks", "sequence_length", "heads", "kv_heads", "head_dim",
  "median_s", "tflops_per_rank", "serial_share", "exposed_share", "imbalance_s", "strong_efficiency", "weak_efficiency",
  "bytes_sent_per_rank", "peak_bytes_per_rank", "max_abs_error"];
const FAILED_COLUMNS = ["status", "world", "transport", "schedule", "pass", "mask", "ranks", "sequence_length", "heads", "kv_heads"];

function currentTheme() {
  return document.documentElement.dataset.theme;
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  document.getElementById("theme").textContent = name === "dark" ? "light" : "dark";
}

function buildTables() {
  const allColumns = report.columns.map((column) => column.name);
  const indices = report.rows.map((_, row) => row);
  // What is the same in all rows would push the figures out of sight.
  const differs = (name) => indices.some((row) => field(row, name) !== field(0, name));
  const main = MAIN_COLUMNS.filter((name) => name === "schedule" || name === "world" || indices.length === 1 || differs(name));
  const failed = indices.filter((row) => field(row, "status") !== "ok");
  const make = (id, rows, columns) => new RowTable(document.querySelector(`#${id} .table`), { rows, columns, allColumns, name: id });
  const tables = [make("rows", indices, main)];
  if (failed.length > 0) tables.push(make("failed", failed, FAILED_COLUMNS));
  else document.getElementById("failed").remove();
  return tables;
}

function start() {
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const tables = buildTables();
  const count = document.getElementById("count");
  const drawAll = () => Promise.all(report.figures.map(drawFigure));
  const refresh = () => {
    const kept = report.rows.filter((_, row) => chosen(row)).length;
    count.textContent = `${kept.toLocaleString("en")} of ${report.rows.length.toLocaleString("en")} rows chosen`;
    tables.forEach((table) => table.refresh());
    return drawAll();
  };
  for (const figure of report.figures) {
    figure.mayLogY = figure.logY;
    figure.logX = true;
    buildTools(figure);
  }
  buildFilters(document.getElementById("filters"), refresh);
  document.getElementById("theme").onclick = () => {
    setTheme(currentTheme() === "dark" ? "light" : "dark");
    drawAll();
  };
  let width = innerWidth;
  let timer;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(timer);
    timer = setTimeout(drawAll, 200);
  });
  refresh().then(() => document.body.setAttribute("data-drawn", "true"));
}

start();
