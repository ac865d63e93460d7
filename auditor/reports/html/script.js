"use strict";
// Sorts and filters what the page already shows; without it nothing is missing but that.
(() => {
  const FIRST = 25; // findings shown before more are asked for
  const status = document.getElementById("shown");
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v ?? cell.textContent.trim();
  };
  const number = (text) => (/^-?\d+$/.test(text) ? BigInt(text) : null); // ids exceed what a double holds
  const compare = (a, b) => {
    if (a === "" || b === "") return a === b ? 0 : null; // what is not there comes last, either way
    const [x, y] = [number(a), number(b)];
    if (x !== null && y !== null) return x < y ? -1 : x > y ? 1 : 0;
    return a.localeCompare(b, "en", { numeric: true });
  };

  const form = document.getElementById("filters");
  const more = document.getElementById("more");
  let limit = FIRST;
  const chosen = (id) => document.getElementById(id)?.value ?? "";
  const show = () => {
    const words = chosen("f-text").toLowerCase().split(/\s+/).filter(Boolean);
    const severities = new Set([...form.querySelectorAll("[name=severity]:checked")].map((box) => box.value));
    const [check, sure, change, known] = ["f-check", "f-sure", "f-change", "f-known"].map(chosen);
    const rows = [...document.getElementById("rows").rows];
    let fitting = 0;
    for (const row of rows) {
      const data = row.dataset;
      const fits =
        severities.has(data.severity) &&
        (!check || data.check === check) &&
        (!sure || data.sure === sure) &&
        (!change || change.split(" ").includes(data.change)) &&
        (!known || known === ("suppressed" in data ? "yes" : "no")) &&
        words.every((word) => row.textContent.toLowerCase().includes(word));
      fitting += fits;
      row.hidden = !fits || fitting > limit;
    }
    const shown = Math.min(fitting, limit);
    status.textContent = shown === rows.length ? "" : `${shown} of ${fitting === rows.length ? "" : `${fitting} that fit, of `}${rows.length} shown.`;
    more.hidden = fitting <= limit;
    more.textContent = `Show all ${fitting}`;
  };
  if (form) {
    form.hidden = false;
    form.addEventListener("input", show);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(show));
    more.addEventListener("click", () => {
      limit = Infinity;
      show();
    });
    show(); // a browser that goes back keeps what was chosen
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const keyed = [...body.rows].map((row) => [value(row, column), row]);
        keyed.sort(([a], [b]) => compare(a, b) * (down ? -1 : 1) || (a === "") - (b === ""));
        body.append(...keyed.map(([, row]) => row));
        if (body.id === "rows") show();
      });
    });
  }

  // A link to what is folded away opens it.
  const open = () => {
    const at = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (at instanceof HTMLDetailsElement) at.open = true;
  };
  addEventListener("hashchange", open);
  open();
})();
