// A monitored page: its requests, its console errors, its look in both colour schemes.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { check, folder, packages } from "./browser.mjs";

export const shots = join(folder, "shots");
const axe = readFileSync(packages.resolve("axe-core/axe.min.js"), "utf8");

export async function openPage(browser, url, { width, height, where, scheme = "light", path = "", locale = "en", quiet = false, context: options = {} }) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, locale, permissions: ["clipboard-read", "clipboard-write"], ...options });
    const page = await context.newPage();
    page.setDefaultTimeout(60000);
    page.on("console", (m) => check(quiet || (m.type() !== "error" && m.type() !== "warning"), `${where}: console: ${m.text()}`));
    page.on("pageerror", (e) => check(false, `${where}: ${e}`));
    page.on("dialog", (d) => { check(false, `${where}: a dialog: ${d.message()}`); d.dismiss(); });
    page.on("request", (r) => check(r.url().startsWith(`${url}/`) || /^(data|blob):/.test(r.url()), `${where}: asks for ${r.url()}`));
    page.on("popup", () => check(false, `${where}: opens a window`));
    await page.goto(`${url}/#/${path}`);
    await page.waitForSelector("main > *");
    return { page, context, close: () => context.close() };
}

// Check axe's rules within the page: its script is injected through the debugger, which no content security policy blocks.
export async function accessible(page, where) {
    await page.evaluate(axe);
    const found = await page.evaluate(async () => (await window.axe.run(document, { resultTypes: ["violations"] })).violations
        .map((v) => `${v.id}: ${v.nodes.length} × ${v.nodes[0].html.slice(0, 110)} ${v.nodes[0].failureSummary?.split("\n")[1] ?? ""}`));
    for (const f of found) check(false, `${where}: axe: ${f}`);
}

// The page itself never scrolls sideways.
export async function fits(page, where) {
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth + 1 || document.querySelector("main").scrollWidth > document.querySelector("main").clientWidth + 1);
    check(!wide, `${where}: wider than the window`);
}

// Check the page in both colour schemes and store screenshots.
export async function look(page, where, name) {
    for (const scheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme: scheme });
        await page.waitForTimeout(120);
        await fits(page, `${where} ${scheme}`);
        await accessible(page, `${where} ${scheme}`);
        await page.screenshot({ path: join(shots, `web-${name}-${page.viewportSize().width}-${scheme}.png`) });
    }
    await page.emulateMedia({ colorScheme: "light" });
}

// Work on what is in the header, or below 800 pixels in the help.
export async function preferences(page, work) {
    const narrow = page.viewportSize().width < 800;
    if (narrow) await page.getByRole("button", { name: await page.locator(".top > .icon-button").getAttribute("aria-label"), exact: true }).click();
    await work(page.locator(narrow ? "dialog .only-narrow" : ".top .only-wide"));
    if (!narrow) return;
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
}

export const speak = (page, tag) => preferences(page, (place) => place.locator(".language select").selectOption(tag));

export async function ask(page, text) {
    await page.fill(".composer textarea", text);
    await page.press(".composer textarea", "Enter");
    await page.waitForFunction(() => { const a = [...document.querySelectorAll(".message.assistant")].pop(); return a?.getAttribute("aria-busy") === "false" && a.querySelector(".stats, .notice"); });
}

export const lastAnswer = (page) => page.locator(".message.assistant").last();
