// SPDX-License-Identifier: Apache-2.0
// A table of rows: sorted by a click on a column, narrowed by words, saved as CSV.
"use strict";

const ROWS_SHOWN = 500;

class RowTable {
  constructor(parent, { rows, columns, allColumns, name }) {
    Object.assign(this, { rows, columns, allColumns, name, sortedBy: null, descending: false, limit: ROWS_SHOWN });
    this.words = element("input", { type: "search", placeholder: "narrow by words: zigzag backward", oninput: () => this.refresh() });
    this.words.setAttribute("aria-label", "narrow by words");
    this.more = element("button", { type: "button", textContent: "show all", onclick: () => {
      this.limit = Infinity;
      this.refresh();
    } });
    const every = element("button", { type: "button", textContent: "all columns", onclick: () => {
      [this.columns, this.allColumns] = [this.allColumns, this.columns];
      every.textContent = every.textContent === "all columns" ? "main columns" : "all columns";
      this.refresh();
    } });
    const download = element("button", { type: "button", textContent: "save csv", onclick: () => this.save() });
    this.count = element("span");
    this.table = element("table");
    parent.append(element("div", { className: "controls" }, this.words, every, download, this.count, this.more),
      element("div", { className: "scroll" }, this.table));
    this.refresh();
  }

  selection() {
    const words = this.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (row) => {
      const text = report.rows[row].join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    };
    const rows = this.rows.filter((row) => chosen(row) && matches(row));
    return this.sortedBy === null ? rows : rows.sort((a, b) => this.compare(a, b));
  }

  // What was not measured comes last in either direction.
  compare(a, b) {
    const [left, right] = [field(a, this.sortedBy), field(b, this.sortedBy)];
    const [noLeft, noRight] = [left === null || left === "", right === null || right === ""];
    if (noLeft || noRight) return noLeft - noRight;
    const order = typeof left === "number" ? left - right : String(left).localeCompare(String(right));
    return this.descending ? -order : order;
  }

  sort(name) {
    this.descending = this.sortedBy === name && !this.descending;
    this.sortedBy = name;
    this.refresh();
  }

  refresh() {
    const rows = this.selection();
    const shown = rows.slice(0, this.limit);
    this.count.textContent = shown.length < rows.length ? `first ${shown.length} of ${rows.length} rows` : `${rows.length} rows`;
    this.more.hidden = shown.length === rows.length;
    this.table.replaceChildren(element("thead", {}, element("tr", {}, ...this.columns.map((name) => this.head(name)))),
      element("tbody", {}, ...shown.map((row) => element("tr", {}, ...this.columns.map((name) => this.cell(row, name))))));
  }

  head(name) {
    const numeric = kindOf.get(name) !== "text";
    const head = element("th", { textContent: name, className: numeric ? "number" : "", tabIndex: 0,
      onclick: () => this.sort(name), onkeydown: (event) => event.key === "Enter" && this.sort(name) });
    head.setAttribute("aria-sort", this.sortedBy !== name ? "none" : this.descending ? "descending" : "ascending");
    return head;
  }

  cell(row, name) {
    const value = field(row, name);
    const className = name === "status" ? "status" : kindOf.get(name) !== "text" ? "number" : "";
    return element("td", { className, textContent: formatted(name, value), title: value ?? "not measured" });
  }

  // The rows shown, in this order, with every column and the exact values.
  save() {
    const quote = (value) => (/[",\r\n]/.test(value ?? "") ? `"${value.replaceAll('"', '""')}"` : value ?? "");
    const lines = [report.columns.map((column) => column.name), ...this.selection().map((row) => report.rows[row])];
    save(`${this.name}.csv`, "text/csv", lines.map((line) => line.map(quote).join(",")).join("\n") + "\n");
  }
}
