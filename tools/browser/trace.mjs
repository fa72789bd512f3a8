// A trace in one HTML file, in Chromium: it fetches nothing, logs no errors, shows the lens, attention and alternatives of the token that is
// chosen by mouse or keys, and cannot be broken by the text of a model.
//
//   node tools/browser/trace.mjs         LAMINA=build/test/src/cli/lamina; screenshots in build/browser/shots
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { check, chromium, failures, folder, run } from "./browser.mjs";
import { accessible, fits } from "./web_page.mjs";

const MODEL = "build/assets/smollm2-135m-instruct-q4_1.gguf", HOSTILE = "</script><img src=x onerror=alert(1)><!-- ]]> \u202e \u0007";

async function look(browser, name, text, width, scheme) {
    const file = join(folder, "traces", `${name}.html`), url = pathToFileURL(file).href, where = `trace ${name} ${width} ${scheme}`;
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme, offline: true }), page = await context.newPage();
    page.setDefaultTimeout(120000);
    page.on("console", (m) => check(m.type() !== "error" && m.type() !== "warning", `${where}: console: ${m.text()}`));
    page.on("pageerror", (e) => check(false, `${where}: ${e}`));
    page.on("dialog", (d) => { check(false, `${where}: a dialog: ${d.message()}`); d.dismiss(); });
    page.on("request", (r) => check(r.url() === url || r.url().startsWith("data:"), `${where}: asks for ${r.url()}`));
    await page.goto(url);
    const trace = JSON.parse(await page.locator("#trace").textContent()).trace, tokens = page.locator(".tk"), n = trace.tokens.length;
    check(await tokens.count() === n + 1, `${where}: ${await tokens.count()} tokens are shown, ${n} and the next one are in the trace`);
    check(trace.rows.length === Math.min(n, 32), `${where}: ${trace.rows.length} rows`);
    check(await page.locator("table.lens tbody tr").count() === 30, `${where}: the lens of the last token has ${await page.locator("table.lens tbody tr").count()} layers`);
    await page.locator(".heads button").nth(2).click();
    check(await page.locator(".inspector .figures").count() === 2, `${where}: a head has no figures`);
    await fits(page, where);
    await accessible(page, where);
    await page.screenshot({ path: join(folder, "shots", `trace-${name}-${width}-${scheme}.png`), fullPage: true });
    await tokens.first().click();
    check(await page.locator("table.lens").count() === 0, `${where}: nothing precedes the first token`);
    await page.keyboard.press("ArrowRight");
    check((await page.locator(".inspector h2").textContent()).includes("2"), `${where}: the arrow does not choose the next token`);
    check((await page.locator(".alternatives tbody tr").count()) === trace.tokens[1].top.length, `${where}: alternatives of the second token`);
    await context.close();
}

for (const d of ["traces", "shots"]) mkdirSync(join(folder, d), { recursive: true });
const browser = await chromium();
for (const [name, text, flags] of [["short", "The capital of France is", ["-n", "4"]], ["hostile", HOSTILE, []], ["long", "one two three four five ".repeat(12), []]]) {
    run("trace", MODEL, "-p", text, ...flags, "--lens", "2", "--force", "-o", join(folder, "traces", `${name}.html`), "--quiet");
    for (const width of [1280, 390]) await look(browser, name, text, width, width === 390 && name === "short" ? "dark" : "light");
}
await browser.close();
console.log(failures() ? `${failures()} complaints` : "traces in one file do what they should");
process.exit(failures() ? 1 : 0);
