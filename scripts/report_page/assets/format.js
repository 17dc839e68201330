// SPDX-License-Identifier: Apache-2.0
// Values as people read them, and elements built from text (never from markup).
"use strict";

const report = JSON.parse(document.getElementById("data").textContent);
const columnIndex = new Map(report.columns.map((column, i) => [column.name, i]));
const kindOf = new Map(report.columns.map((column) => [column.name, column.kind]));

function field(row, name) {
  return report.rows[row][columnIndex.get(name)];
}

function significant(value, digits = 4) {
  return Number(value.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits });
}

function scaled(value, units) {
  const magnitude = Math.abs(value);
  const [factor, unit] = units.find(([least]) => magnitude >= least) ?? units[units.length - 1];
  return `${significant(value / factor)} ${unit}`;
}

const SECONDS = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
const BYTES = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];

function formatted(name, value) {
  if (value === null) return "";
  switch (kindOf.get(name)) {
    case "seconds": return value === 0 ? "0 s" : scaled(value, SECONDS);
    case "bytes": return value === 0 ? "0 B" : scaled(value, BYTES);
    case "share": return `${significant(100 * value, 3)} %`;
    case "count": return value.toLocaleString("en");
    case "number": return Math.abs(value) >= 1e-3 || value === 0 ? significant(value) : value.toExponential(2);
    default: return value;
  }
}

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function save(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
