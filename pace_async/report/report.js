"use strict";
// Sorts the tables of a report by a click on a column, filters the candidates, and folds all sections at once.
const made = (tag, given = {}) => Object.assign(document.createElement(tag), given);
for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((cell, at) => {
    const button = made("button", { type: "button", textContent: cell.textContent });
    cell.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = cell.getAttribute("aria-sort") !== "descending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => row.cells[at].textContent.trim().replace(/^#|,/g, "");
      const compare = (a, b) => Number.isNaN(Number(a)) || Number.isNaN(Number(b)) ? a.localeCompare(b) : a - b;
      const rows = [...table.tBodies[0].rows].map((row) => [value(row), row]);
      const empty = (said) => said === "" || said === "–";
      rows.sort(([a], [b]) => empty(a) - empty(b) || (down ? compare(b, a) : compare(a, b)));
      table.tBodies[0].append(...rows.map(([, row]) => row));
    });
  });
}
const label = made("label"), box = made("input", { type: "search" });
label.append("Only candidates with ", box);
document.querySelector("table.sortable")?.before(label);
box.addEventListener("input", () => {
  for (const row of document.querySelectorAll("table.sortable tbody tr")) row.hidden = !row.textContent.includes(box.value);
});
const fold = made("button", { type: "button", textContent: "Fold or open all" });
document.querySelector("nav")?.append(fold);
fold.addEventListener("click", () => {
  const parts = [...document.querySelectorAll("details.part")], open = !parts.some((part) => part.open);
  for (const part of parts) part.open = open;
});
addEventListener("hashchange", () => document.getElementById(location.hash.slice(1))?.closest("details")?.setAttribute("open", ""));
