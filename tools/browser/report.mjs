// Reports in Chromium: they fetch nothing and log no errors, everything opens, sorts and moves, and each tested stop of the sliders
// shows what `lamina inspect` prints for the same settings.
//
//   node tools/browser/report.mjs [NAME…]         LAMINA=build/test/src/cli/lamina; screenshots in build/browser/shots
//
// Without NAME, two processes of this script run side by side, each with half of the reports.
import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { check, chromium, failures, folder, root, run } from "./browser.mjs";
import * as page_checks from "./page.mjs";

const hostile = join(folder, 'hostile "><script>alert(1)</script>');
mkdirSync(hostile, { recursive: true });
writeFileSync(join(hostile, "config.json"), JSON.stringify({
    model_type: "llama", hidden_size: 96, num_hidden_layers: 3, num_attention_heads: 6, num_key_value_heads: 3, intermediate_size: 256, vocab_size: 300,
    max_position_embeddings: 640, rms_norm_eps: 1e-5, _name_or_path: "</script><img src=x onerror=alert(1)>" }));

// name, models, language, how many of the sliders' stops are compared
const reports = [
    ["llama-3.2-3b", ["llama-3.2-3b"], "en", "all"],
    ["deepseek-v2", ["deepseek-v2"], "my", "some"],
    ["gemma-2-2b", ["gemma-2-2b"], "zh-Hant", "some"],
    ["gpt2", ["gpt2"], "zh-Hans", "some"],
    ["stored", ["tests/golden/mixtral/experts"], "en", "some"],
    ["several", ["llama-3.2-3b", "llama-3.1-8b", "mistral-7b-v0.1"], "en", "none"],
    ["hostile", [hostile], "en", "some"],
];
// Maximum heights with everything closed, in pixels at a width of 1280.
const longest = { "llama-3.2-3b": 2600, "gemma-2-2b": 2600, gpt2: 2600, stored: 2600 };
const sizes = [[1280, 900], [390, 844]], wanted = process.argv.slice(2);

async function chapters(page, name, width) {
    for (const id of await page.evaluate(() => [...document.querySelectorAll("main > section, main > .chapter > section")].map((s) => s.id))) {
        await page.evaluate((i) => { location.hash = i; }, id);
        await page.screenshot({ path: join(folder, "shots", `${name}-${width}-at-${id}.png`) });
    }
    await page.goto(page.url().replace(/#.*/, ""));
}

// Without scripts, a link opens the chapter that it leads to, and a print shows every chapter.
async function plain(browser, url, where) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, javaScriptEnabled: false }), page = await context.newPage();
    await page.goto(url);
    const last = page.locator(".contents a").last(), id = (await last.getAttribute("href")).slice(1), section = page.locator(`[id="${id}"]`);
    check(!await section.isVisible(), `${where}: #${id} is open already`);
    await last.click();
    check(await section.isVisible(), `${where}: a link does not open #${id} without scripts`);
    await page.goto(url);
    await page.emulateMedia({ media: "print" });
    check(await section.isVisible(), `${where}: #${id} is not printed without scripts`);
    await context.close();
}

async function look(browser, [name, models, language, stops]) {
    const file = join(folder, "reports", `${name}.html`);
    run("report", ...models, "--force", "-o", file, "--lang", language, "--quiet");
    const url = pathToFileURL(file).href;
    for (const [width, tall] of sizes) {
        const context = await browser.newContext({ viewport: { width, height: tall }, colorScheme: "light", offline: true });
        const page = await context.newPage();
        page.setDefaultTimeout(120000);
        page.on("console", (m) => check(m.type() !== "error" && m.type() !== "warning", `${name}: console: ${m.text()}`));
        page.on("pageerror", (e) => check(false, `${name}: ${e}`));
        page.on("dialog", (d) => { check(false, `${name}: a dialog: ${d.message()}`); d.dismiss(); });
        page.on("request", (r) => check(r.url() === url, `${name}: asks for ${r.url()}`));
        await page.goto(url);
        const where = `${name} ${width}`;
        check(await page.evaluate(() => document.documentElement.lang) === language, `${where}: lang`);
        await page_checks.width(page, where);
        const height = await page.evaluate(() => document.documentElement.scrollHeight);
        check(width !== 1280 || !longest[name] || height <= longest[name], `${where}: ${height} px long, ${longest[name]} at most`);
        for (const scheme of ["dark", "light"]) {
            await page.emulateMedia({ colorScheme: scheme });
            await page.screenshot({ path: join(folder, "shots", `${name}-${width}-${scheme}.png`) });
        }
        if (name === reports[0][0]) await chapters(page, name, width);
        await page_checks.folds(page, where);
        await page_checks.width(page, `${where}, all open`);
        await page_checks.drawings(page, where);
        if (width === 390) await page_checks.phone(page, where);
        if (width === 1280) {
            await page_checks.structure(page, where);
            await page_checks.anchors(page, where);
            await page_checks.tables(page, where);
            if (models.length > 1) await page_checks.differences(page, where);
            if (stops !== "none") await page_checks.sliders(page, where, models[0], stops === "all");
            await page_checks.themes(page, where);
            const pdf = await page.pdf({ format: "A4" });
            check(pdf.length > 20000, `${where}: prints ${pdf.length} bytes`);
            const print = (when) => page.evaluate((name) => { dispatchEvent(new Event(name)); return document.querySelectorAll("main details:not([open])").length; }, when);
            await page.click("#open-all");
            const closed = await page.evaluate(() => document.querySelectorAll("main details:not([open])").length);
            check(closed > 10 && await print("beforeprint") === 0 && await print("afterprint") === closed, `${where}: a print opens what is closed, for as long as it takes`);
            if (name === reports[0][0]) await plain(browser, url, where);
        }
        await context.close();
    }
}

for (const d of ["reports", "shots"]) mkdirSync(join(folder, d), { recursive: true });
// Measured once, and marked as made without load: a report of a busy machine shows no speeds, which the sliders are compared with.
run("doctor", "--quiet");
if (!wanted.length) {
    for (const name of readdirSync(join(folder, "cache")).filter((n) => /^limits-.*\.json$/.test(n))) {
        const file = join(folder, "cache", name);
        writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, "utf8")), busy: 0 }));
    }
    const half = (which) => reports.filter((_, i) => i % 2 === which).map(([name]) => name);
    const child = (names) => new Promise((done) => spawn(process.execPath, [import.meta.filename, ...names], { stdio: "inherit" }).on("close", (status) => done(status ?? 1)));
    process.exit(Math.max(...await Promise.all([half(0), half(1)].map(child))));
}
const browser = await chromium();
for (const report of reports.filter(([name]) => wanted.includes(name))) {
    const from = Date.now(), before = failures();
    await look(browser, report);
    console.log(`${failures() === before ? "✓" : "✗"} ${report[0]} (${((Date.now() - from) / 1000).toFixed(1)} s)`);
}
await browser.close();
console.log(failures() ? `${failures()} complaints` : "every page does what it should");
process.exit(failures() ? 1 : 0);
