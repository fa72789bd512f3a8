// Checks of an open page.
import { check, run } from "./browser.mjs";

/* The page itself never scrolls sideways; wide things scroll in their own frames. */
export async function width(page, where) {
    const wide = await page.evaluate(() => {
        const out = [], limit = document.documentElement.clientWidth;
        if (document.documentElement.scrollWidth <= limit) return out;
        for (const e of document.querySelectorAll("main *"))
            if (e.getBoundingClientRect().right > limit + 1 && !e.closest(".scroll, .math") && out.length < 3) out.push(e.outerHTML.slice(0, 90));
        return [`${document.documentElement.scrollWidth} of ${limit}`, ...out];
    });
    check(!wide.length, `${where}: wider than the window: ${wide.join(" | ")}`);
}

export async function folds(page, where) {
    const count = await page.locator("main details").count();
    if (!count) return;
    await page.click("#open-all");
    const closed = await page.locator("main details:not([open])").count();
    check(closed === 0, `${where}: ${closed} of ${count} folds stay closed`);
    const empty = await page.evaluate(() => [...document.querySelectorAll("main details")].filter((d) => d.scrollHeight < 40 || d.children.length < 2).length);
    check(empty === 0, `${where}: ${empty} folds hold nothing`);
}

/* Ids are unique, headings step down one by one, tables have heads with a scope, drawings have names. */
export async function structure(page, where) {
    const wrong = await page.evaluate(() => {
        const out = [], seen = new Set();
        for (const e of document.querySelectorAll("[id]")) {
            if (seen.has(e.id)) out.push(`id ${e.id} twice`);
            seen.add(e.id);
        }
        let level = 0;
        for (const h of document.querySelectorAll("h1,h2,h3,h4,h5,h6")) {
            const next = Number(h.tagName[1]);
            if (next > level + 1) out.push(`h${next} after h${level}: ${h.textContent}`);
            level = next;
        }
        for (const th of document.querySelectorAll("th")) if (!th.scope) out.push("a th without a scope");
        for (const svg of document.querySelectorAll("svg")) if (!svg.querySelector("title")?.textContent) out.push("a drawing without a name");
        for (const f of document.querySelectorAll("label[for]")) if (!document.getElementById(f.htmlFor)) out.push(`no ${f.htmlFor}`);
        for (const math of document.querySelectorAll("math")) if (!math.textContent.trim()) out.push("an empty formula");
        if (document.querySelectorAll("main").length !== 1) out.push("not one main");
        return out;
    });
    for (const w of wrong.slice(0, 5)) check(false, `${where}: ${w}`);
}

export async function anchors(page, where) {
    const broken = await page.evaluate(() => [...document.querySelectorAll('a[href^="#"]')].map((a) => a.getAttribute("href").slice(1))
        .filter((id) => !document.getElementById(id)));
    check(!broken.length, `${where}: anchors lead nowhere: ${broken.slice(0, 5)}`);
    const outside = await page.evaluate(() => [...document.querySelectorAll("a:not([href^='#'])")].map((a) => a.getAttribute("href")));
    const odd = outside.filter((a) => !/^https:\/\/[\w./~%+-]+$/.test(a));
    check(!odd.length, `${where}: links that are no plain addresses: ${odd.slice(0, 3)}`);
    const lost = await page.evaluate(async () => {
        const out = [];
        for (const a of document.querySelectorAll(".contents a")) {
            a.click();
            await new Promise((done) => setTimeout(done, 5));
            const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
            const box = target.getBoundingClientRect(), end = scrollY + innerHeight >= document.documentElement.scrollHeight - 2;
            if (box.top > innerHeight || (box.top < -4 && !end)) out.push(`${a.textContent} at ${box.top}`);
        }
        return out;
    });
    check(!lost.length, `${where}: not scrolled to: ${lost.slice(0, 3)}`);
    await page.evaluate(() => { document.querySelectorAll("main details").forEach((d) => { d.open = false; }); });
    const inside = await page.evaluate(() => document.querySelector("main details [id]")?.id);
    if (inside) {
        await page.evaluate((id) => { location.hash = id; }, inside);
        await page.waitForTimeout(50);
        check(await page.evaluate((id) => document.getElementById(id).closest("details").open, inside), `${where}: #${inside} stays folded away`);
    }
    await page.evaluate(() => { document.querySelectorAll("main details").forEach((d) => { d.open = true; }); });
}

/* Each column sorts both ways by exact values, totals stay at the bottom, and a third click restores the first order. */
export async function tables(page, where) {
    const wrong = await page.evaluate(() => {
        const out = [];
        const value = (c) => c.dataset.v !== undefined ? Number(c.dataset.v)
            : c.textContent.trim() !== "" && !isNaN(c.textContent.trim().replace(/[,%\s]/g, "")) ? Number(c.textContent.trim().replace(/[,%\s]/g, "")) : c.textContent.trim();
        for (const t of document.querySelectorAll("table.sorts")) {
            const rows = () => [...t.tBodies[0].rows], before = rows(), totals = before.filter((r) => r.matches(".total, .gap"));
            [...t.tHead.rows[0].cells].forEach((head, i) => {
                const button = head.querySelector("button");
                if (!button) return;
                const ways = [];
                for (let click = 0; click < 2; click++) {
                    button.click();
                    const way = head.getAttribute("aria-sort"), values = rows().filter((r) => !totals.includes(r)).map((r) => value(r.cells[i])).filter((v) => v !== "");
                    ways.push(way);
                    for (let k = 1; k < values.length; k++) {
                        const [a, b] = way === "ascending" ? [values[k - 1], values[k]] : [values[k], values[k - 1]];
                        const right = typeof a === "number" && typeof b === "number" ? a <= b : typeof a !== typeof b ? true : a.localeCompare(b, document.documentElement.lang, { numeric: true }) <= 0;
                        if (!right) { out.push(`${t.id} ${head.textContent} ${way}: ${a}, ${b}`); break; }
                    }
                    if (rows().slice(rows().length - totals.length).some((r) => !totals.includes(r))) out.push(`${t.id}: totals moved`);
                }
                if (ways.slice().sort().join() !== "ascending,descending") out.push(`${t.id}: ${ways}`);
                button.click();
                if (head.hasAttribute("aria-sort") || rows().some((r, k) => r !== before[k])) out.push(`${t.id}: not as it was`);
            });
        }
        return out;
    });
    for (const w of wrong.slice(0, 5)) check(false, `${where}: sorting: ${w}`);
}

/* No text of a drawing overlaps another or leaves its shape or the drawing. */
export async function drawings(page, where) {
    const wrong = await page.evaluate(() => {
        const out = [], inside = (a, b, by) => a.left >= b.left - by && a.right <= b.right + by && a.top >= b.top - by && a.bottom <= b.bottom + by;
        for (const svg of document.querySelectorAll("svg")) {
            const name = svg.closest("figure")?.id ?? "", frame = svg.getBoundingClientRect();
            if (!frame.width) continue;
            const texts = [...svg.querySelectorAll("text")].map((t) => [t, t.getBoundingClientRect()]);
            for (const [t, box] of texts) {
                if (!inside(box, frame, 1.5)) out.push(`${name}: "${t.textContent}" leaves the drawing`);
                const shape = t.parentNode.classList.contains("node") && t.parentNode.querySelectorAll(".n").length === 1 && t.parentNode.querySelector("rect.n, path.n");
                if (shape && !inside(box, shape.getBoundingClientRect(), 0)) out.push(`${name}: "${t.textContent}" leaves its shape`);
            }
            for (let i = 0; i < texts.length; i++)
                for (let k = i + 1; k < texts.length; k++) {
                    const [a, b] = [texts[i][1], texts[k][1]];
                    if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1.5 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3.5)
                        out.push(`${name}: "${texts[i][0].textContent}" on "${texts[k][0].textContent}"`);
                }
        }
        return out;
    });
    for (const w of wrong.slice(0, 6)) check(false, `${where}: drawing ${w}`);
}

const near = (a, b) => Math.abs(a - b) <= 2e-6 * Math.abs(b);

async function compare(page, where, model, panel) {
    const shown = await page.evaluate(() => {
        const p = document.querySelector("[data-panel]"), s = JSON.parse(p.querySelector("script").textContent), at = {}, out = {};
        for (const i of p.querySelectorAll("input")) at[i.dataset.is] = Number(i.value);
        for (const c of p.querySelectorAll("[data-exact]")) out[c.dataset.exact] = Number(c.textContent.replace(/[, B]/g, ""));
        for (const o of p.querySelectorAll("output")) out[`label-${o.dataset.of}`] = o.textContent;
        return { at, out, context: s.contexts[at.context ?? 0], batch: s.batches[at.batch ?? 0], kv: s.kv[at.kv ?? 0], precision: s.precisions[at.precision ?? 0],
                 generation: Number(p.dataset.generation), prompt: Number(p.dataset.prompt), rated: Boolean(s.generation) };
    });
    const stored = panel.stored && shown.at.precision === 0 ? [] : ["--precision", shown.precision];
    const settings = ["--context", String(shown.context), "--batch", String(shown.batch), "--kv-type", shown.kv, ...stored];
    const here = `${where}: ${settings.join(" ")}`, facts = JSON.parse(run("inspect", model, ...settings, "--json")), m = facts.memory;
    const expected = { weights: m.weights + m.mapped, cache: m.kv, scratch: m.scratch, total: m.total + m.mapped, "per-token": facts.kv.bytes_per_token,
                       flops: facts.flops.at_context, prefill: facts.flops.prefill };
    for (const [name, value] of Object.entries(expected)) check(shown.out[name] === value, `${here}: ${name} shows ${shown.out[name]}, inspect ${value}`);
    const label = shown.out["label-context"];           // a single stop has no slider
    check(label === undefined || label.replace(/,/g, "") === String(shown.context), `${here}: the label says ${label}`);
    check(shown.rated === Boolean(facts.speed.measured), `${here}: speeds are ${shown.rated ? "" : "not "}shown`);
    if (!shown.rated) return;
    const rate = Number(run("inspect", model, ...settings, "--query", `speed.generation_at[${shown.context}].tokens_per_second`).split(/\s/)[0].replace(/,/g, ""));
    check(near(shown.generation, rate), `${here}: generation shows ${shown.generation}, inspect ${rate}`);
    check(near(shown.prompt, facts.speed.prompt.tokens_per_second), `${here}: prompt shows ${shown.prompt}, inspect ${facts.speed.prompt.tokens_per_second}`);
}

const move = (page, name, stop) => page.evaluate(([n, s]) => {
    const input = document.querySelector(`[data-panel] input[data-is=${n}]`);
    input.value = s;
    input.dispatchEvent(new Event("input", { bubbles: true }));
}, [name, stop]);

/* Move every slider over its stops (`all`: every stop), then try some settings of all of them together. */
export async function sliders(page, where, model, all) {
    const names = await page.evaluate(() => [...document.querySelectorAll("[data-panel] input")].map((i) => [i.dataset.is, Number(i.max), Number(i.value)]));
    check(names.length >= 2, `${where}: there are no sliders`);
    const stored = await page.evaluate(() => !["f32", "f16", "bf16"].includes(JSON.parse(document.querySelector("[data-panel] script").textContent).precisions[0]));
    for (const [name, most, now] of names) {
        for (let stop = 0; stop <= most; stop++) {
            if (!all && stop % 3 && stop !== most) continue;
            await move(page, name, stop);
            await compare(page, where, model, { stored });
        }
        await move(page, name, now);
    }
    for (let i = 1; i <= (all ? 12 : 4); i++) {
        for (const [k, [name, most]] of names.entries()) await move(page, name, (i * (2 * k + 3)) % (most + 1));
        await compare(page, where, model, { stored });
    }
    await page.focus("[data-panel] input");
    await move(page, names[0][0], 0);
    await page.keyboard.press("ArrowRight");
    check(await page.evaluate(() => Number(document.activeElement.value)) === 1, `${where}: keys do not move a slider`);
    await compare(page, where, model, { stored });
}

export async function themes(page, where) {
    const paper = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const light = await paper();
    await page.selectOption("#theme", "dark");
    const dark = await paper();
    await page.selectOption("#theme", "light");
    check(light !== dark && await paper() === light, `${where}: the colours do not change: ${light}, ${dark}`);
    await page.selectOption("#theme", "");
}

/* On a phone: no key figure is cut off, the first column of a table stays while the rest scrolls, bars use the width. */
export async function phone(page, where) {
    const wrong = await page.evaluate(() => {
        const out = [], limit = document.documentElement.clientWidth;
        for (const td of document.querySelectorAll("[id$=key-figures] td")) {
            const range = document.createRange();
            range.selectNodeContents(td);
            if (range.getBoundingClientRect().right > limit - 12) out.push(`${td.textContent} is cut`);
        }
        let moved = 0;
        for (const frame of document.querySelectorAll("main section .scroll")) {
            const table = frame.querySelector("table"), first = table?.querySelector("tbody .group span") ?? table?.querySelector("tbody th");
            if (!first || frame.closest(".panel") || frame.scrollWidth <= frame.clientWidth + 20) continue;
            frame.scrollLeft = frame.scrollWidth;
            const left = first.getBoundingClientRect().left - frame.getBoundingClientRect().left;
            if (Math.abs(left) > 1.5) out.push(`${table.id}: the first column goes away (${left})`);
            frame.scrollLeft = 0;
            moved++;
        }
        if (document.querySelector("#compare-values-table") && !moved) out.push("no table goes on to the side");
        for (const td of document.querySelectorAll("#compare-bars td.b")) if (td.getBoundingClientRect().right > limit) out.push("a bar is cut");
        return out;
    });
    for (const w of wrong.slice(0, 4)) check(false, `${where}: ${w}`);
}

/* The switch of a comparison shows only rows that differ, and then all rows again. */
export async function differences(page, where) {
    const boxes = page.locator("[data-differs]");
    for (let i = 0; i < await boxes.count(); i++) {
        const id = await boxes.nth(i).getAttribute("data-differs");
        const seen = () => page.evaluate((t) => [...document.getElementById(t).tBodies[0].rows].filter((r) => r.getClientRects().length).map((r) => r.className), id);
        const all = await seen();
        await boxes.nth(i).check();
        const left = await seen();
        check(all.includes("same") && !left.includes("same") && left.length > 3, `${where}: ${id}: ${left.length} of ${all.length} rows differ`);
        check(left.every((c, k) => c !== "group" || (left[k + 1] === "")), `${where}: ${id}: a group with nothing in it`);
        await boxes.nth(i).uncheck();
        check((await seen()).join() === all.join(), `${where}: ${id}: not as it was`);
    }
}
