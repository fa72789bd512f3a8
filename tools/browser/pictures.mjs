// Take the pictures of docs/pictures anew: the first screen of the report there (scripts/sessions writes it), the inspector, and a model.
//
//   node tools/browser/pictures.mjs               LAMINA=build/test/src/cli/lamina
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium, failures, root } from "./browser.mjs";
import { model, serve } from "./serving.mjs";
import { ask, openPage } from "./web_page.mjs";

const folder = join(root, "docs/pictures"), browser = await chromium(), server = await serve(model, "--port", "0", "-c", "4096", "--temp", "0");
try {
    const report = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await report.goto(pathToFileURL(join(folder, "llama-3.2-1b.html")).href);
    await report.screenshot({ path: join(folder, "report.png") });
    const { page } = await openPage(browser, server.url, { width: 1280, height: 860, where: "pictures", context: { deviceScaleFactor: 0.6 } });
    await page.getByRole("switch", { name: "Surprise" }).click();
    await ask(page, "What is the capital of France?");
    await page.locator('.tk[data-i="5"]').click();
    await page.waitForSelector(".attends path", { state: "attached" });
    await page.locator(".coloured").hover();
    await page.screenshot({ path: join(folder, "page-inspector.png") });
    await page.keyboard.press("Alt+Digit2");
    await page.waitForSelector(".drawing svg");
    await page.getByLabel("Coloured by").selectOption("norm");
    await page.waitForFunction(() => document.querySelectorAll(".strip button:not(.q0)").length > 20);
    await page.screenshot({ path: join(folder, "page-model.png") });
} finally {
    await browser.close();
    await server.close();
}
process.exit(failures() ? 1 : 0);
