"use strict";
// Unpacks the findings and shows those in sight; sorts, filters, and draws ledgers and bookies that are asked for.
// Without it the page is whole but for that: its first findings are rows, its worst ledgers are drawn.
(() => {
  const AROUND = 15; // rows drawn above and below those in sight
  const PRINTED = 300; // rows on paper
  const LISTED = 20; // findings beside a drawing
  const TALLEST = 8e6; // px: browsers give up on what is much taller; further rows share the way of scrolling
  const SEVERITIES = ["critical", "error", "warning", "note"];
  const byId = (id) => document.getElementById(id);
  const number = (text) => (/^-?\d+$/.test(text) ? BigInt(text) : null); // ids exceed what a double holds
  const compare = (a, b) => {
    if (a === "" || b === "") return (a === "") - (b === ""); // what is not there comes last
    const [x, y] = [number(a), number(b)];
    if (x !== null && y !== null) return x < y ? -1 : x > y ? 1 : 0;
    return a.localeCompare(b, "en", { numeric: true });
  };
  // Browsers hold a timer that follows others back by 4 ms.
  const pause = () => globalThis.scheduler?.yield?.() ?? new Promise((go) => setTimeout(go));

  const unpack = async (block) => {
    const packed = atob(block.textContent);
    const bytes = new Uint8Array(packed.length);
    for (let at = 0; at < packed.length; at++) bytes[at] = packed.charCodeAt(at);
    block.remove();
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  };

  // Every table but that of the findings is small, and sorted where it stands.
  const makeSortable = (head, sort) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(head.getAttribute("aria-sort") === "ascending"));
  };
  const markSorted = (head, down) => {
    for (const other of head?.parentNode.cells ?? []) other.removeAttribute("aria-sort");
    head?.setAttribute("aria-sort", down ? "descending" : "ascending");
  };
  for (const { tHead, tBodies } of document.querySelectorAll("table.sortable")) {
    [...tHead.rows[0].cells].forEach((head, column) =>
      makeSortable(head, (down) => {
        markSorted(head, down);
        const value = ({ cells: { [column]: cell } }) => cell.dataset.v ?? cell.textContent.trim();
        const keyed = [...tBodies[0].rows].map((row) => [value(row), row]);
        keyed.sort(([a], [b]) => compare(a, b) * (down && a !== "" && b !== "" ? -1 : 1));
        tBodies[0].append(...keyed.map(([, row]) => row));
      }),
    );
  }

  // A command can be copied; where the browser forbids it, it is selected.
  const addCopyButtons = (below) => {
    for (const code of below.querySelectorAll("code.command")) {
      const button = document.createElement("button");
      Object.assign(button, { type: "button", className: "copy", textContent: "Copy" });
      button.addEventListener("click", async () => {
        try {
          await navigator.clipboard.writeText(code.textContent);
          button.textContent = "Copied";
        } catch {
          getSelection().selectAllChildren(code);
          button.textContent = "Selected";
        }
        setTimeout(() => (button.textContent = "Copy"), 2000);
      });
      code.after(" ", button);
    }
  };
  addCopyButtons(document);

  // The address has what is shown: #find=bk-1&severity=critical&sort=-ledger&ledger=42
  const KINDS = ["finding", "ledger", "bookie"];
  const form = byId("filters");
  const said = () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  let sort = "";
  const chosen = () => {
    const words = new URLSearchParams();
    if (!form) return words;
    for (const [name, value] of new FormData(form)) if (value) words.append(name, value);
    if (!form.querySelector("[name=severity]:not(:checked)")) words.delete("severity");
    else if (!words.has("severity")) words.set("severity", "none");
    if (sort) words.set("sort", sort);
    return words;
  };
  const choose = (words) => {
    for (const control of form?.elements ?? []) {
      const values = words.getAll(control.name);
      if (control.type === "checkbox") control.checked = !values.length || values.includes(control.value);
      else if (control.name) control.value = values[0] ?? "";
      if (control.selectedIndex < 0) control.selectedIndex = 0;
    }
    sort = words.get("sort") ?? "";
  };

  // The findings: one line each, and of what is filtered and sorted by a number for each word.
  const list = byId("list");
  const table = list?.querySelector("table");
  const fields = table?.dataset.fields.split(" ");
  const lines = [];
  const columns = Object.fromEntries(
    ["urgency", "severity", "check", "confidence", "bookie", "cause", "change", "suppressed"].map((name) => [name, { words: [], codes: [] }]),
  );
  let ledgers = [];
  const finding = (at) => Object.fromEntries(lines[at].split("\t").map((value, place) => [fields[place], value]));
  const read = async () => {
    const coded = Object.entries(columns).map(([name, column]) => ({ ...column, at: fields.indexOf(name), known: new Map() }));
    const ledgerAt = fields.indexOf("ledger");
    for (const block of document.querySelectorAll("script.findings")) {
      for (const line of (await unpack(block)).split("\n")) {
        const values = line.split("\t");
        lines.push(line);
        for (const { words, codes, at, known } of coded) {
          const word = values[at];
          let code = known.get(word);
          if (code === undefined) known.set(word, (code = words.push(word) - 1));
          codes.push(code);
        }
        const ledger = values[ledgerAt];
        ledgers.push(ledger && BigInt.asUintN(64, BigInt(ledger) + (1n << 63n)));
      }
      byId("shown").textContent = `Reading findings: ${lines.length.toLocaleString("en")} so far.`;
      await pause();
    }
  };

  // Sorted by 16 bits at a time: a million keys take a tenth of a second, whatever they are.
  const sortBy = (order, keys, down) => {
    const halves = new Uint16Array(keys.buffer);
    const width = halves.length / keys.length;
    for (let half = 0; half < width; half++) {
      const key = (at) => (down ? 65535 - halves[at * width + half] : halves[at * width + half]);
      const next = new Uint32Array(65537);
      for (const at of order) next[key(at) + 1]++;
      for (let value = 1; value < 65537; value++) next[value] += next[value - 1];
      const sorted = new Uint32Array(order.length);
      for (const at of order) sorted[next[key(at)]++] = at;
      order = sorted;
    }
    return order;
  };
  const last = (order, isLast) => {
    const [front, back] = [order.filter((at) => !isLast(at)), order.filter(isLast)];
    const both = new Uint32Array(order.length);
    both.set(front);
    both.set(back, front.length);
    return both;
  };
  const inOrder = () => {
    const order = Uint32Array.from(lines.keys());
    const down = sort.startsWith("-");
    const name = sort.replace("-", "");
    if (name === "ledger") {
      const keys = BigUint64Array.from(ledgers, (ledger) => ledger || 0n);
      return last(sortBy(order, keys, down), (at) => ledgers[at] === "");
    }
    if (!(name in columns)) return last(order, (at) => columns.suppressed.words[columns.suppressed.codes[at]] !== "");
    const { words, codes } = columns[name];
    const ranked = [...words].sort(name === "severity" ? (a, b) => SEVERITIES.indexOf(a) - SEVERITIES.indexOf(b) : compare);
    const ranks = new Map(ranked.map((word, rank) => [word, rank]));
    const keys = Uint32Array.from(codes, (code) => ranks.get(words[code]));
    return last(sortBy(order, keys, down), (at) => words[codes[at]] === "");
  };

  // What fits, in slices of a few milliseconds, so that typing goes on meanwhile.
  const test = (words) => {
    const tests = [];
    const one = (name, fits) => {
      const { words, codes } = columns[name];
      const fitting = words.map(fits);
      tests.push((at) => fitting[codes[at]]);
    };
    if (words.has("severity")) one("severity", (word) => words.getAll("severity").includes(word));
    for (const name of ["urgency", "check", "confidence", "cause"]) if (words.has(name)) one(name, (word) => word === words.get(name));
    if (words.has("change")) one("change", (word) => words.get("change").split(" ").includes(word));
    if (words.has("known")) one("suppressed", (word) => (words.get("known") === "yes") === (word !== ""));
    for (const word of (words.get("find") ?? "").split(/\s+/).filter(Boolean)) {
      // A fingerprint, which is last, is found by the whole of it only: any number is in some.
      const place = /^[0-9a-f]{16}$/.test(word) ? "" : "(?=.*\\t)";
      const pattern = new RegExp(word.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&") + place, "i");
      tests.push((at) => pattern.test(lines[at]));
    }
    return (at) => tests.every((fits) => fits(at));
  };
  let order = null;
  let fitting = null;
  let turn = 0;
  const show = async () => {
    if (!order) return;
    const mine = ++turn;
    const fits = test(chosen());
    const found = new Uint32Array(order.length);
    let count = 0;
    for (let at = 0, until = performance.now() + 10; at < order.length; at++) {
      if (fits(order[at])) found[count++] = order[at];
      if (at % 256 || performance.now() < until) continue;
      await pause();
      if (mine !== turn) return;
      until = performance.now() + 10;
    }
    fitting = found.subarray(0, count);
    const total = lines.length.toLocaleString("en");
    byId("shown").textContent = count === lines.length ? `All ${total} findings.` : `${count.toLocaleString("en")} of ${total} findings.`;
    list.scrollTop = 0;
    drawn = null;
    draw();
  };
  const sortFindings = () => {
    order = inOrder();
    markSorted(table.querySelector(`th[data-sort="${CSS.escape(sort.replace("-", ""))}"]`), sort.startsWith("-"));
  };

  // Only rows in sight are in the page; what lies above and below them is two empty rows.
  let height = 0; // of a row, px; measured
  let drawn = null;
  const fill = (root, values) => {
    for (const place of root.querySelectorAll("[data-is]")) {
      const value = values[place.dataset.is];
      if (!value) place.remove();
      else if (place.tagName === "UL") place.append(...value.split("\x1f").map((item) => {
          const entry = document.createElement("li");
          entry.textContent = item;
          return entry;
        }));
      else place.textContent = value;
    }
    for (const link of root.querySelectorAll("a[data-to]")) {
      const kind = link.dataset.to;
      if (kind === "check" && !byId(`check-${values.check}`)) link.replaceWith(...link.childNodes);
      else link.href = kind === "check" ? `#check-${values.check}` : `#${new URLSearchParams({ [kind]: values[`${kind}Name`] })}`;
    }
    for (const part of root.querySelectorAll("dl > div")) if (!part.querySelector("dd")?.textContent.trim()) part.remove();
    root.querySelector("use")?.setAttribute("href", `#i-${values.severity}`);
    root.querySelector(".badge")?.classList.add(values.severity);
    return root;
  };
  const named = (values) => ({
    ...values,
    ledgerName: values.scope ? `${values.scope}:${values.ledger}` : values.ledger,
    bookieName: values.bookie,
    findingName: values.fingerprint,
    scope: values.scope && `scope ${values.scope}`,
    sure: values.confidence === "confirmed" ? "" : values.confidence,
    changed: ["new", "worse", "better"].includes(values.change) ? values.change : "",
    known: values.suppressed && "suppressed",
  });
  const rowOf = (place) => {
    const values = named(finding(fitting[place]));
    const row = byId("row").content.firstElementChild.cloneNode(true);
    row.toggleAttribute("data-suppressed", values.suppressed !== "");
    row.setAttribute("aria-rowindex", place + 2);
    return fill(row, values);
  };
  const emptyRow = (tall) => {
    const row = document.createElement("tr");
    row.setAttribute("aria-hidden", "true");
    row.className = "empty";
    row.style.height = `${Math.max(tall, 0)}px`;
    return row;
  };
  const draw = () => {
    if (!fitting) return;
    const body = table.tBodies[0];
    const all = fitting.length * height;
    const tall = Math.min(all, TALLEST);
    const view = list.clientHeight;
    const top = list.scrollTop * (tall > view ? Math.max((all - view) / (tall - view), 1) : 1);
    const near = height ? Math.floor(top / height) : 0;
    const far = Math.min(height ? Math.ceil((top + view) / height) : 1, fitting.length);
    if (drawn && tall === all && near >= drawn.first && far <= drawn.end) return;
    const [first, end] = [Math.max(near - AROUND, 0), Math.min(far + AROUND, fitting.length)];
    const focus = body.contains(document.activeElement) && document.activeElement;
    const at = focus && [focus.closest("tr").getAttribute("aria-rowindex"), focus.dataset.to];
    const rows = Array.from({ length: end - first }, (_, place) => rowOf(first + place));
    const above = list.scrollTop - (top - first * height);
    body.replaceChildren(emptyRow(above), ...rows, emptyRow(tall - above - rows.length * height));
    if (at) body.querySelector(`tr[aria-rowindex="${at[0]}"] a[data-to="${at[1]}"]`)?.focus({ preventScroll: true });
    drawn = { first, end };
    table.setAttribute("aria-rowcount", fitting.length + 1);
    if (!height && rows.length) {
      height = rows[0].offsetHeight;
      drawn = null;
      draw();
    }
  };

  // What one finding, ledger or bookie is, over the page.
  const dialog = byId("detail");
  const fromTemplate = (id, values) => {
    const article = byId(id).content.firstElementChild.cloneNode(true);
    return fill(article, values);
  };
  let drawings = null;
  const drawing = async (kind, name) => {
    drawings ??= Promise.all([...document.querySelectorAll("script.drawings")].map(unpack)).then(
      (texts) => new Map(texts.flatMap((text) => JSON.parse(text))),
    );
    const html = (await drawings).get(`${kind} ${name}`);
    const about = [];
    const [scope, ledger] = name.includes(":") ? name.split(":") : ["", name];
    const mark = kind === "ledger" ? `\t${scope}\t${ledger}\t` : `\t${name}\t`;
    for (let at = 0; at < lines.length; at++) {
      if (!lines[at].includes(mark)) continue;
      const values = named(finding(at));
      if (values[`${kind}Name`] === name) about.push(values);
    }
    // A command comes from the run, never from the address.
    const article = html
      ? new DOMParser().parseFromString(html, "text/html").body.firstElementChild
      : fromTemplate("undrawn", { what: `${kind} ${name}`, explain: about[0] && commandOf(about[0]) });
    const count = `${about.length.toLocaleString("en")} ${about.length === 1 ? "finding" : "findings"} about it`;
    article.append(fromTemplate("about", { count, findName: name, all: kind === "bookie" && "Findings that name it" }));
    const shown = article.querySelector("ul.about");
    shown.append(...about.slice(0, LISTED).map((values) => fromTemplate("about-one", values)));
    if (about.length > LISTED) shown.append(`and ${(about.length - LISTED).toLocaleString("en")} more`);
    return article;
  };
  const commandOf = (values) => values.explain && `bkaudit explain ${values.explain} --run ${dialog.dataset.run}`;
  const oneFinding = (fingerprint) => {
    const at = lines.findIndex((line) => line.endsWith(`\t${fingerprint}`));
    if (at < 0) return fromTemplate("undrawn", { what: `finding ${fingerprint}` });
    const values = named(finding(at));
    return fromTemplate("finding", { ...values, explain: commandOf(values), subject: values.ledger || values.bookie });
  };
  const showDetail = async () => {
    const words = said();
    const kind = KINDS.find((each) => words.has(each));
    if (!kind) return dialog.close();
    await ready;
    const name = words.get(kind);
    const shown = kind === "finding" ? oneFinding(name) : await drawing(kind, name);
    addCopyButtons(shown);
    byId("detail-body").replaceChildren(shown);
    dialog.setAttribute("aria-label", `${kind} ${name}`);
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  };
  dialog.querySelector("button").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => KINDS.some((kind) => said().has(kind)) && write());
  const write = () => history.replaceState(null, "", `#${chosen()}`);

  // Ids anywhere on the page lead to their drawings.
  for (const id of document.querySelectorAll("[data-ledger], [data-bookie], [data-cause]")) {
    const link = document.createElement("a");
    link.href = `#${new URLSearchParams({ ...id.dataset })}`;
    id.replaceWith(link);
    link.append(id);
  }
  document.addEventListener("click", (event) => {
    const to = event.target.closest?.("a[href^='#']")?.getAttribute("href");
    if (!to || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (!KINDS.some((kind) => to.startsWith(`#${kind}=`))) return void dialog.close();
    event.preventDefault();
    const words = chosen();
    for (const [kind, name] of new URLSearchParams(to.slice(1))) words.set(kind, name);
    location.hash = words;
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || !form || dialog.open || event.target.closest?.("input, select, textarea")) return;
    event.preventDefault();
    form.elements.find.focus();
    form.scrollIntoView({ block: "nearest" });
  });

  const follow = () => {
    const at = location.hash && byId(decodeURIComponent(location.hash.slice(1)));
    if (at instanceof HTMLDetailsElement) at.open = true; // what is folded away
    if (!location.hash.includes("=")) return void dialog.close();
    const before = `${chosen()}`;
    choose(said());
    if (order && `${chosen()}` !== before) {
      sortFindings();
      show();
    }
    showDetail();
  };
  const start = async () => {
    if (!list) return;
    form.hidden = false;
    form.addEventListener("input", () => {
      write();
      show();
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => {
      sort = "";
      setTimeout(() => {
        write();
        if (!order) return;
        sortFindings();
        show();
      });
    });
    try {
      await read();
    } catch {
      byId("shown").textContent = "This browser cannot unpack the other findings.";
      form.hidden = true;
      return;
    }
    for (const head of table.querySelectorAll("th[data-sort]")) {
      makeSortable(head, (down) => {
        sort = `${down ? "-" : ""}${head.dataset.sort}`;
        write();
        sortFindings();
        show();
      });
    }
    list.classList.add("virtual");
    sortFindings();
    await show();
    list.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
    addEventListener("resize", () => {
      height = 0;
      drawn = null;
      draw();
    });
    addEventListener("beforeprint", () => {
      const printed = Array.from({ length: Math.min(fitting.length, PRINTED) }, (_, place) => rowOf(place));
      table.tBodies[0].replaceChildren(...printed);
      drawn = null;
    });
    addEventListener("afterprint", draw);
  };
  if (location.hash.includes("=")) choose(said());
  const ready = start();
  addEventListener("hashchange", follow);
  follow();
})();
