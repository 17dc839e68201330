// SPDX-License-Identifier: Apache-2.0
// The choice of rows that all figures and tables follow: per column, the values left out.
"use strict";

const leftOut = new Map(report.axes.map((axis) => [axis.column, new Set()]));

function chosen(row) {
  for (const [column, values] of leftOut) if (values.size > 0 && values.has(field(row, column))) return false;
  return true;
}

// A click leaves one value out or takes it back; a double click keeps that value alone.
function buildFilters(parent, changed) {
  for (const axis of report.axes) {
    const out = leftOut.get(axis.column);
    const chips = axis.values.map(({ value, text, colour }) => {
      const chip = element("button", { type: "button", className: "chip", title: `${axis.column}: ${value}` });
      if (colour) chip.append(element("i", { style: `background:${colour}` }));
      chip.append(text);
      chip.onclick = () => {
        if (!out.delete(value)) out.add(value);
        show();
      };
      chip.ondblclick = () => {
        out.clear();
        for (const other of axis.values) if (other.value !== value) out.add(other.value);
        show();
      };
      return chip;
    });
    const show = () => {
      chips.forEach((chip, i) => chip.setAttribute("aria-pressed", String(!out.has(axis.values[i].value))));
      changed();
    };
    chips.forEach((chip) => chip.setAttribute("aria-pressed", "true"));
    const group = element("fieldset", {}, element("legend", { textContent: axis.column.replaceAll("_", " ") }), ...chips);
    group.dataset.column = axis.column;
    parent.append(group);
  }
  if (report.axes.length > 0) parent.append(element("p", { textContent: "A double click keeps one value alone." }));
}
