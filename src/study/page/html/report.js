// report.js - the interactive parts of a page: open everything, sort tables, move sliders. Numbers come from the engine; they are only
// looked up and added, never computed.
(function () {
"use strict";
const root = document.documentElement, all = (s, from) => Array.from((from || document).querySelectorAll(s));

// ---- theme ----
const theme = document.getElementById("theme");
theme.value = root.dataset.theme || "";
theme.addEventListener("change", () => {
    root.dataset.theme = theme.value;
    try { localStorage.setItem("lamina-theme", theme.value); } catch (e) { /* a page from a file may have no store */ }
});

// ---- folds ----
const opener = document.getElementById("open-all"), folds = all("main details");
opener.hidden = !folds.length;
opener.addEventListener("click", () => {
    const open = folds.some((d) => !d.open), text = opener.textContent;
    folds.forEach((d) => { d.open = open; });
    if (open !== (opener.dataset.state === "open")) {
        opener.textContent = opener.dataset.other;
        opener.dataset.other = text;
        opener.dataset.state = open ? "open" : "";
    }
});
function reveal() {
    let id = "";
    try { id = decodeURIComponent(location.hash.slice(1)); } catch (e) { return; }
    const target = id && document.getElementById(id);
    if (!target) return;
    for (let d = target; d; d = d.parentElement) if (d.tagName === "DETAILS") d.open = true;
    target.scrollIntoView();
}
addEventListener("hashchange", reveal);

// A print shows everything.
let before = [];
addEventListener("beforeprint", () => { before = folds.filter((d) => !d.open); before.forEach((d) => { d.open = true; }); });
addEventListener("afterprint", () => { before.forEach((d) => { d.open = false; }); });
reveal();
const contents = document.querySelector(".contents details");
if (contents && matchMedia("(max-width:1079px)").matches) contents.open = false;

// ---- scroll position: drawings wider than their column begin at the middle, where the residual stream is ----
function centre() {
    all("figure.flow .scroll").forEach((s) => {
        if (s.dataset.centred || s.scrollWidth <= s.clientWidth || !s.clientWidth) return;
        s.scrollLeft = (s.scrollWidth - s.clientWidth) / 2;
        s.dataset.centred = "1";
    });
}
centre();
folds.forEach((d) => d.addEventListener("toggle", centre));

// ---- current entry of the contents ----
const entries = new Map(all(".contents a").map((a) => [a.getAttribute("href").slice(1), a]));
if (window.IntersectionObserver) {
    const seen = new IntersectionObserver((changes) => {
        for (const c of changes) if (c.isIntersecting && entries.has(c.target.id)) {
            entries.forEach((a) => a.removeAttribute("aria-current"));
            entries.get(c.target.id).setAttribute("aria-current", "true");
        }
    }, { rootMargin: "-10% 0px -80% 0px" });
    all("main section[id]").forEach((s) => seen.observe(s));
}

// ---- tables ----
function key(cell) {
    if (!cell) return "";
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    const text = cell.textContent.trim(), digits = text.replace(/[,%\s]/g, "");
    return digits !== "" && !isNaN(digits) ? Number(digits) : text;
}
function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return a.localeCompare(b, root.lang, { numeric: true });
}
all("table.sorts").forEach((table) => {
    const heads = all("thead th", table), body = table.tBodies[0], rows = Array.from(body.rows);
    const movable = rows.filter((r) => !r.classList.contains("total") && !r.classList.contains("gap"));
    const last = rows.filter((r) => !movable.includes(r));
    heads.forEach((head, i) => {
        const button = head.querySelector("button");
        if (!button) return;
        button.addEventListener("click", () => {
            const now = head.getAttribute("aria-sort"), numbers = head.classList.contains("n");
            const next = now === (numbers ? "descending" : "ascending") ? (numbers ? "ascending" : "descending")
                : now ? "" : numbers ? "descending" : "ascending";
            heads.forEach((h) => h.removeAttribute("aria-sort"));
            if (next) head.setAttribute("aria-sort", next);
            const order = !next ? rows : movable.map((r) => [key(r.cells[i]), r])
                .sort((a, b) => (a[0] === "" ? b[0] === "" ? 0 : 1 : b[0] === "" ? -1 : next === "ascending" ? compare(a[0], b[0]) : compare(b[0], a[0])))
                .map((x) => x[1]).concat(last);
            body.append(...order);
        });
    });
});

// ---- show only what differs between models; hide groups without rows ----
all("[data-differs]").forEach((box) => {
    const table = document.getElementById(box.dataset.differs);
    box.addEventListener("change", () => {
        table.classList.toggle("differing", box.checked);
        let group = null;
        for (const row of Array.from(table.tBodies[0].rows)) {
            if (row.classList.contains("group")) { group = row; row.hidden = box.checked; }
            else if (group && !row.matches(".same, .gap")) group.hidden = false;
        }
    });
});

// ---- sliders ----
const count = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
function scaled(x, units) {
    let u = 0;
    for (; x >= 999.5 && u + 1 < units.length; u++) x /= 1000;
    return (u === 0 || x === Math.round(x) ? String(Math.round(x)) : x < 9.995 ? x.toFixed(2) : x < 99.95 ? x.toFixed(1) : x.toFixed(0)) + " " + units[u];
}
const bytes = (n) => scaled(n, ["B", "kB", "MB", "GB", "TB", "PB"]);
const flops = (n) => scaled(n, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP"]);
const rate = (x) => !x ? "–" : (x < 9.995 ? x.toFixed(2) : x < 99.95 ? x.toFixed(1) : count(Math.round(x))) + " tokens/s";
all("[data-panel]").forEach((panel) => {
    const s = JSON.parse(panel.querySelector("script").textContent);
    const at = { context: s.now[0], batch: s.now[1], kv: s.now[2], precision: s.now[3] };
    const words = { context: s.contexts.map(count), batch: s.batches.map(count), kv: s.kv, precision: s.precisions };
    const inputs = all("input[type=range]", panel);
    function put(name, text, exact) {
        const cell = panel.querySelector('[data-out="' + name + '"]'), full = panel.querySelector('[data-exact="' + name + '"]');
        if (!cell) return;
        cell.textContent = text;
        full.textContent = exact;
    }
    function show() {
        const p = at.precision, c = at.context, b = at.batch, k = at.kv, row = k * s.batches.length + b;
        const weights = s.weights[p] + s.mapped[p], cache = s.cache[row][c];
        const scratch = s.values[p][b] + s.threads[p][k] + s.bookkeeping[b][c], total = weights + cache + scratch;
        for (const [name, n] of [["weights", weights], ["cache", cache], ["scratch", scratch], ["total", total], ["per-token", s.perToken[k]]])
            put(name, bytes(n), count(n) + " B");
        put("flops", flops(s.flops[c]), count(s.flops[c]));
        put("prefill", flops(s.prefill[c]), count(s.prefill[c]));
        if (s.generation) {
            const g = s.generation[(p * s.kv.length + k) * s.batches.length + b], q = s.prompt[p];
            put("generation", rate(g[2 * c]), g[2 * c] ? s.limits[g[2 * c + 1]] : "");
            put("prompt", rate(q[2 * k]), q[2 * k] ? s.limits[q[2 * k + 1]] : "");
            panel.dataset.generation = g[2 * c];
            panel.dataset.prompt = q[2 * k];
        }
        for (const [name, n] of [["weights", weights], ["cache", cache], ["scratch", scratch]])
            panel.querySelector('[data-bar="' + name + '"]').style.width = 100 * n / total + "%";
        for (const output of all("output", panel)) output.textContent = words[output.dataset.of][at[output.dataset.of]];
        for (const input of inputs) input.setAttribute("aria-valuetext", words[input.dataset.is][at[input.dataset.is]]);
    }
    inputs.forEach((input) => {
        input.value = at[input.dataset.is];
        input.addEventListener("input", () => { at[input.dataset.is] = Number(input.value); show(); });
    });
    show();
});
}());
