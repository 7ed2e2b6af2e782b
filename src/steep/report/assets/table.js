// Tables that sort by a click on a heading and show the rows that hold what is typed.
function keyOf(row, column) {
  const cell = row.cells[column];
  const key = cell.dataset.key;
  return key !== undefined ? Number(key) : cell.textContent.trim().toLowerCase();
}

// Numbers before text, each in its own order; rows that tie keep theirs.
function compare(a, b) {
  if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
  return typeof a === "number" ? -1 : 1;
}

function sortBy(table, heading) {
  const column = heading.cellIndex;
  const numeric = heading.dataset.kind === "number";  // the largest first
  const now = heading.getAttribute("aria-sort");
  const next = now ? (now === "ascending" ? "descending" : "ascending") : numeric ? "descending" : "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", next);
  const sign = next === "ascending" ? 1 : -1;
  const rows = [...table.tBodies[0].rows].map((row) => [keyOf(row, column), row]);
  rows.sort((a, b) => sign * compare(a[0], b[0]));
  table.tBodies[0].append(...rows.map((pair) => pair[1]));
}

function filterRows(table, tools) {
  const words = tools.querySelector(".filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = [...table.tBodies[0].rows];
  let n = 0;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    const fits = words.every((word) => text.includes(word));
    row.hidden = !fits;
    n += fits;
  }
  tools.querySelector(".count").textContent = n === rows.length ? `${n} rows` : `${n} of ${rows.length} rows`;
}

for (const tools of document.querySelectorAll("[data-tools]")) {
  const table = byId(tools.dataset.tools);
  for (const heading of table.tHead.rows[0].cells) {
    const button = heading.querySelector("button");
    if (button) button.addEventListener("click", () => sortBy(table, heading));
  }
  tools.addEventListener("input", () => filterRows(table, tools));
}
