// Flows of ordinary use of the page. Each begins with an empty browser.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { check, run, until } from "./browser.mjs";
import { model as demo } from "./serving.mjs";
import { ask, fits, lastAnswer, look, preferences, shots, speak } from "./web_page.mjs";

const text = (page, selector) => page.locator(selector).last().innerText();

async function chat({ page, where, width }) {
    await look(page, where, "chat-empty");
    await page.getByRole("button", { name: "What is water made of?" }).click();          // an example
    await page.waitForSelector(".message.assistant .stats");
    const url = page.url();
    check(/#\/chat\/[\w-]{16,}$/.test(url), `${where}: the chat's address: ${url}`);
    const first = await text(page, ".message.assistant .markdown");
    check(first.length > 3, `${where}: no answer`);
    await until(async () => /\d+ tokens.*tok\/s.*first after.*of context left/s.test(await text(page, ".message.assistant .stats")), async () => `${where}: figures: ${await text(page, ".message.assistant .stats")}`);
    await page.getByRole("button", { name: "Answer again" }).click();
    await page.waitForSelector(".branches");
    await page.waitForSelector(".message.assistant .stats");
    await until(async () => await page.locator(".branches .count").innerText() === "2/2", `${where}: branches`);
    await until(async () => await text(page, ".message.assistant .markdown") === first, `${where}: at temperature 0 another answer`);
    await page.getByRole("button", { name: "Previous version" }).click();
    await page.waitForFunction(() => document.querySelector(".branches .count").textContent === "1/2");
    await page.locator(".message.user").getByRole("button", { name: "Edit" }).click();
    await page.fill(".edit textarea", "What is the sun made of?");
    await page.press(".edit textarea", "Enter");
    await page.waitForFunction(() => document.querySelectorAll(".message").length === 2 && document.querySelector(".message.assistant .stats"));
    await until(async () => await page.locator(".message.user .branches .count").innerText() === "2/2", `${where}: an edited message is a branch`);
    await until(async () => (await text(page, ".message.user .said")).includes("sun"), `${where}: the edited text`);
    await look(page, where, "chat");
    // An answer edited, and deleted again.
    await page.locator(".message.assistant").getByRole("button", { name: "Edit" }).click();
    await page.fill(".edit textarea", "Hot plasma.");
    await page.getByRole("button", { name: "Save as a new version" }).click();
    await until(async () => await text(page, ".message.assistant .markdown") === "Hot plasma." && await page.locator(".message.assistant .branches .count").innerText() === "2/2", `${where}: an edited answer`);
    await page.locator(".message.assistant").getByRole("button", { name: "Delete this message" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
    await until(async () => await page.locator(".message").count() === 2 && await page.locator(".message.assistant .stats").count() === 1, `${where}: after an answer was deleted: ${await page.locator(".message").count()} messages`);
    await page.fill(".composer textarea", "a draft");
    await page.waitForTimeout(400);
    await page.reload();
    await page.waitForSelector(".message.assistant .stats");
    await until(async () => await page.locator(".message").count() === 2 && (await text(page, ".message.user .said")).includes("sun"), `${where}: the conversation is not kept`);
    await until(async () => await page.inputValue(".composer textarea") === "a draft", `${where}: the draft is lost`);
    await page.locator(".message.user").getByRole("button", { name: "Previous version" }).click();
    await until(async () => (await text(page, ".message.user .said")).includes("water"), `${where}: the first branch is not kept`);
    if (width < 800) await page.getByRole("button", { name: "Chats" }).click();
    await until(async () => (await text(page, ".sidebar li a")).startsWith("What is water"), `${where}: the title`);
    check(page.url() === url, `${where}: the address has changed: ${page.url()}`);
}

async function stopping({ page, where }) {
    await page.fill(".composer textarea", "Write a very long story about a king, a dragon and a long journey.");
    await page.press(".composer textarea", "Enter");
    await page.waitForFunction(() => (document.querySelector(".message.assistant .markdown")?.textContent.length ?? 0) > 40);
    await page.locator(".composer").getByRole("button", { name: "Stop" }).click();
    await page.waitForSelector(".message.assistant[aria-busy=false]");
    const stopped = await text(page, ".message.assistant .markdown");
    await page.waitForTimeout(500);
    await until(async () => await text(page, ".message.assistant .markdown") === stopped && stopped.length > 30, `${where}: goes on after it was stopped`);
    // Continued, by what the server says of both parts together.
    await page.getByRole("button", { name: "Settings" }).click();
    await page.fill("#set-max_tokens", "12");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    const before = await lastAnswer(page).locator(".stats").count() ? Number(/(\d+) tokens/.exec(await lastAnswer(page).locator(".stats").innerText())[1]) : 0;
    await page.getByRole("button", { name: "Continue" }).click();
    await page.waitForFunction(() => document.querySelector(".message.assistant .stats")?.textContent.includes("stopped at the limit"));
    const whole = await text(page, ".message.assistant .markdown");
    check(whole.startsWith(stopped.slice(0, 25)) && whole.length > stopped.length + 10, `${where}: continued as ${whole.slice(-60)}`);
    const tokens = Number(/(\d+) tokens/.exec(await lastAnswer(page).locator(".stats").innerText())[1]);
    check(tokens === before + 12, `${where}: ${before} tokens, then ${tokens}`);
    await page.getByRole("button", { name: "Continue" }).click();
    await page.waitForFunction((n) => document.querySelector(".message.assistant .stats")?.textContent.includes(`${n} tokens`), tokens + 12);
    check(await page.locator(".message").count() === 2, `${where}: a continued answer is another message`);
}

// Messages are searched, also in branches that are not shown; the message that is chosen is brought into view.
async function searched({ page, where, open, titles }) {
    const words = "word ".repeat(300), messages = Array.from({ length: 40 }, (_, i) => ({ id: `m${i}`, type: "text", role: i % 2 ? "assistant" : "user", content: i === 9 ? `${words} A Pelican\n\nflew. ${words}` : words,
        parent: i ? `m${i - 1}` : null, model: "other" }));
    messages.push({ id: "b", type: "text", role: "assistant", content: "An ostrich & <b>emu</b> ran.", parent: "m20", model: "other" });
    await open();
    await page.setInputFiles(".sidebar input[type=file]", { name: "x.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify({ conv: { id: "2", name: "Birds", lastModified: 2, currNode: "m39" }, messages })) });
    await until(async () => (await titles()).includes("Birds"), async () => `${where}: imported: ${await titles()}`);
    const hits = page.locator(".sidebar .hits a"), field = page.locator(".sidebar input[type=search]");
    const inView = (text) => until(async () => await page.locator(".message.found").evaluateAll((all, text) => {
        const box = all[0]?.getBoundingClientRect(), list = document.querySelector(".messages").getBoundingClientRect();
        return all.length === 1 && all[0].textContent.includes(text) && box.top >= list.top - 2 && box.top < list.bottom - 40;
    }, text), `${where}: "${text}" is brought into view`);
    await field.fill("pelican flew");
    await until(async () => (await titles()).join() === "Birds" && await hits.count() === 1 && /^…?(word )*A Pelican flew\. word .*…$/.test(await hits.innerText()), async () => `${where}: found in a message: ${await page.locator(".sidebar").innerText()}`);
    check(await page.locator(".sidebar .hits mark").innerText() === "Pelican flew", `${where}: what was sought is marked`);
    await look(page, where, "search");
    await hits.click();
    await inView("Pelican");
    await open();
    await field.fill("<B>emu");
    await until(async () => await hits.count() === 1 && await hits.innerText() === "An ostrich & <b>emu</b> ran.", async () => `${where}: found in another branch: ${await page.locator(".sidebar").innerText()}`);
    await hits.click();
    await inView("ostrich");
    check(await page.locator(".message").count() === 22, `${where}: the branch of the message is shown`);
    await open();
    await field.fill("no such words");
    await until(async () => await page.locator(".sidebar .days").innerText() === "Nothing found.", async () => `${where}: nothing found: ${await page.locator(".sidebar .days").innerText()}`);
    await field.fill("");
    await until(async () => (await titles()).length > 3 && await page.locator(".message.found").count() === 0, `${where}: the search is over`);
}

async function several({ page, where, width }) {
    const open = async () => { if (width < 800 && !await page.locator(".sidebar").count()) await page.getByRole("button", { name: "Chats" }).click(); };
    await page.fill(".composer textarea", "Count from one to two hundred, in words.");
    await page.press(".composer textarea", "Enter");
    await page.waitForSelector(".message.assistant");
    await open();
    await page.getByRole("button", { name: "New chat" }).first().click();
    await page.waitForSelector(".empty");
    await ask(page, "Say hello.");
    await until(async () => (await text(page, ".message.assistant .markdown")).length > 0, `${where}: the second chat`);
    await open();
    await until(async () => await page.locator(".sidebar li a").count() === 2, `${where}: two chats`);
    await page.locator(".sidebar li a", { hasText: "Count" }).click();
    await page.waitForFunction(() => (document.querySelector(".message.assistant .markdown")?.textContent.length ?? 0) > 40);
    const [saved] = await Promise.all([page.waitForEvent("download"), (async () => { await open(); await page.getByRole("button", { name: "Export" }).click(); })()]);
    const path = await saved.path();
    await open();
    await page.setInputFiles(".sidebar input[type=file]", path);
    await page.waitForFunction(() => document.querySelectorAll(".sidebar li a").length === 4);
    await page.setInputFiles(".sidebar input[type=file]", { name: "x.json", mimeType: "application/json", buffer: Buffer.from('{"format":"lamina-chat","chats":[{"meta":{},"turns":7}]}') });
    await until(async () => (await text(page, ".sidebar .problem")).length > 5, `${where}: a file that is none`);
    const option = async (i, name) => {
        await page.locator(".sidebar li").nth(i).hover();
        await page.locator(".sidebar li summary").nth(i).click();
        await page.locator(".sidebar .menu[open]").getByRole("button", { name, exact: true }).click();
    };
    await option(0, "Delete");
    await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click();
    await until(async () => await page.locator(".sidebar li a").count() === 3, `${where}: deleting`);
    // Renamed, pinned, found, saved as Markdown; the chats of another program.
    const titles = () => page.locator(".sidebar section > ul > li > a").allInnerTexts();
    await option(2, "Rename");
    await page.keyboard.type("Greeting");
    await page.keyboard.press("Enter");
    await until(async () => (await titles())[2] === "Greeting", async () => `${where}: renamed: ${await titles()}`);
    await option(2, "Pin");
    await until(async () => (await titles())[0] === "Greeting" && await page.locator(".sidebar h2").first().innerText() === "Pinned", async () => `${where}: pinned: ${await titles()}`);
    await page.locator(".sidebar .menu summary").first().click();
    await look(page, where, "chats");
    await page.keyboard.press("Escape");
    await page.fill(".sidebar input[type=search]", "greet");
    await until(async () => (await titles()).join() === "Greeting", async () => `${where}: found: ${await titles()}`);
    await page.fill(".sidebar input[type=search]", "");
    const llama = { conv: { id: "1", name: "Seas", lastModified: 1, currNode: "b" }, messages: [{ id: "a", type: "text", role: "user", content: "Why?", parent: null }, { id: "b", type: "text", role: "assistant", content: "Rivers.", parent: "a", model: "other" }] };
    await page.setInputFiles(".sidebar input[type=file]", { name: "x.json", mimeType: "application/json", buffer: Buffer.from(JSON.stringify(llama)) });
    await until(async () => (await titles()).includes("Seas"), async () => `${where}: imported: ${await titles()}`);
    const seas = (await titles()).indexOf("Seas"), [markdown] = await Promise.all([page.waitForEvent("download"), option(seas, "Save as Markdown")]);
    check(markdown.suggestedFilename() === "Seas.md" && readFileSync(await markdown.path(), "utf8") === "# Seas\n\n## You\n\nWhy?\n\n## other\n\nRivers.\n", `${where}: Markdown: ${readFileSync(await markdown.path(), "utf8")}`);
    await page.locator(".sidebar li a").nth(seas).click();
    await until(async () => await text(page, ".message.assistant .markdown") === "Rivers.", `${where}: the imported chat`);
    await searched({ page, where, open, titles });
    // Files in a message.
    const file = page.locator(".talk input[type=file]"), draft = () => page.inputValue(".composer textarea");
    await file.setInputFiles([{ name: "a.py", mimeType: "text/x-python", buffer: Buffer.from("a = 1\n") }]);
    await until(async () => await draft() === "a.py:\n```py\na = 1\n```\n", async () => `${where}: an attached file: ${await draft()}`);
    await file.setInputFiles([{ name: "a.bin", mimeType: "application/octet-stream", buffer: Buffer.from([255, 0]) }]);
    await until(async () => /a\.bin is not a text file/.test(await page.locator(".talk .problem").innerText()), `${where}: a file that is no text`);
}

async function settings({ page, where }) {
    await page.getByRole("button", { name: "Settings" }).click();
    await page.getByRole("button", { name: "All settings" }).click();
    check(await page.getByLabel("Temperature", { exact: true }).inputValue() === "0" && await page.locator("#set-temperature").getAttribute("placeholder") === "0", `${where}: the server's temperature`);
    check(await page.getByLabel("Seed", { exact: true }).count() === 0, `${where}: a slider of seeds`);
    await look(page, where, "settings");
    await page.fill("#set-max_tokens", "24");
    await page.selectOption("dialog select", "schema");
    await page.locator("dialog textarea.editor").last().fill('{"type":"object","properties":{"made_of":{"enum":["hydrogen","oxygen"]}},"required":["made_of"],"additionalProperties":false}');
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    await ask(page, "What is water made of?");
    const said = async () => (await text(page, ".message.assistant .markdown")).replace(/^json\s+Copy/, "").trim();
    await until(async () => /^\{\s*"made_of"\s*:\s*"(hydrogen|oxygen)"\s*\}$/.test(await said()), async () => `${where}: does not fit the schema: ${await said()}`);
    await page.getByRole("button", { name: "Settings" }).click();
    await page.locator("dialog textarea.editor").last().fill('{"type":');
    await until(async () => await page.locator("dialog .problem").count() === 1, `${where}: a schema that is no JSON`);
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    await ask(page, "Again.");
    await until(async () => await lastAnswer(page).locator(".notice").count() === 1, `${where}: a schema that is no JSON has no sentence`);
}

async function surprise({ page, where }) {
    await ask(page, "What is water made of?");
    await page.getByRole("switch", { name: "Surprise" }).click();
    await page.waitForSelector(".message.assistant .tk");                              // measured at once
    const whole = await lastAnswer(page).locator(".coloured").innerText();
    await until(async () => await page.locator(".tk").count() > 3 && await page.locator(".tk:not(.s0)").count() > 0, `${where}: no colours`);
    await page.locator('.tk[data-i="3"]').click();
    await page.waitForSelector(".inspector .alternatives tr");
    await until(async () => await page.locator(".alternatives tbody tr").count() >= 8, `${where}: alternatives`);
    await look(page, where, "surprise");
    await page.locator(".coloured").focus();
    await page.keyboard.press("ArrowRight");
    await until(async () => await page.locator(".tk.chosen").getAttribute("data-i") === "4", `${where}: keys do not move the choice`);
    await page.locator(".alternatives tbody tr:not(.is) .icon-button").first().click();
    await page.waitForFunction(() => document.querySelector(".message.assistant")?.getAttribute("aria-busy") === "false" && document.querySelector(".branches .count")?.textContent === "2/2");
    const other = await lastAnswer(page).locator(".coloured").innerText();
    check(other !== whole && other.slice(0, 8) === whole.slice(0, 8), `${where}: the branch: ${other.slice(0, 60)}`);
    await until(async () => await page.locator(".tk.mark").getAttribute("data-i") === "4", `${where}: where the branch begins`);
}

async function inspector({ page, where }) {
    await page.getByRole("switch", { name: "Surprise" }).click();
    await ask(page, "What is the capital of France?");
    await page.locator('.tk[data-i="5"]').click();
    await page.waitForSelector(".lens tbody tr");
    const token = (await page.locator(".inspector h2 .piece").innerText()).trim(), last = page.locator(".lens tbody tr").first();
    await until(async () => (await last.locator(".say.is").first().innerText()).trim() === token, `${where}: the last layer does not say ${token}`);
    const shown = () => page.locator(".figures dd").first().innerText(), lens = () => last.locator("td.n").first().innerText();
    await until(async () => Math.abs(Number(await shown()) - Number(await lens())) < 0.02, async () => `${where}: p is ${await shown()}, the last layer's ${await lens()}`);
    await until(async () => await page.locator(".lens tbody tr").count() === 30 && await page.locator(".attends path").count() > 8, `${where}: layers, lines`);
    await look(page, where, "inspector");
    await page.locator(".heads button").nth(3).click();
    await page.waitForSelector(".whole-row span");
    const whole = await page.locator(".whole-row span").evaluateAll((all) => all.map((x) => Number(x.title.split(" ")[1])));
    const [, layer, head] = /(\d+)\.(\d+)/.exec(await page.locator(".whole-row").getAttribute("aria-label")), lines = await page.locator(`.attends g:not(.other) path`).count();
    check(whole.length > 20 && Math.abs(whole.reduce((a, b) => a + b, 0) - 1) < 0.05, `${where}: ${layer}.${head}: the weights of ${whole.length} tokens add up to ${whole.reduce((a, b) => a + b, 0)}`);
    check(lines > 3 && lines <= whole.filter((w) => w >= 0.0095).length, `${where}: ${lines} lines of head ${head}, beyond the three that come first`);
    await page.getByRole("button", { name: "Without this head?" }).click();
    await page.waitForSelector(".before tbody tr");
    await until(async () => await page.locator(".before tbody tr").count() === 5, `${where}: before and after`);
    await page.locator(".inspector").evaluate((e) => { e.scrollTop = e.scrollHeight; });
    await look(page, where, "inspector-heads");
    await page.getByRole("button", { name: "Side by side" }).click();
    await page.waitForFunction(() => document.querySelectorAll(".compare-column .figures").length === 2);
    await until(async () => /#head3=0$/.test(await page.locator(".compare-column input").nth(1).inputValue()), `${where}: the intervention`);
    await until(async () => await page.locator(".compare-column .notice").count() === 0, `${where}: a failure`);
}

async function model({ page, where }) {
    await page.goto(page.url().replace(/#.*/, "#/model"));
    await page.waitForSelector(".drawing svg");
    await until(async () => await page.locator(".strip button").count() === 30, `${where}: layers`);
    await page.locator(".strip button").nth(7).click();
    await until(async () => (await page.locator(".model-columns h2").first().innerText()) === "Layer 7", `${where}: opening a layer`);
    await until(async () => (await text(page, ".operations tbody tr:nth-child(2)")).replace(/\s+/g, " ").startsWith("self_attn.q_proj 576 → 576 q4_1 207,360 663,552"), async () => `${where}: ${await text(page, ".operations tbody tr:nth-child(2)")}`);
    await page.getByLabel("Coloured by").selectOption("time");
    await page.waitForFunction(() => /µs|ms/.test(document.querySelector(".operations tbody tr:nth-child(2)").textContent));
    await look(page, where, "model");
    await page.waitForSelector(".settings-table");
    const sizes = () => page.locator(".settings-table td:last-child").evaluateAll((all) => all.slice(0, 6).map((x) => Number(x.textContent.replace(/,/g, ""))));
    await until(async () => await page.locator(".slider input").count() === 4, `${where}: sliders`);
    for (const presses of [["ArrowLeft"], ["ArrowRight", "ArrowRight"], ["Home"], ["End"]]) {
        for (let i = 0; i < 4; i++) {
            await page.locator(".slider input").nth(i).focus();
            for (const key of presses) await page.keyboard.press(key);
        }
        const [context, batch, kv, precision] = await page.locator(".slider output").allInnerTexts();
        const facts = JSON.parse(run("inspect", demo, "-c", context.replace(/,/g, ""), "--batch", batch, "--kv-type", kv, ...(precision === "as stored" ? [] : ["--precision", precision]), "--json")), m = facts.memory;
        const expected = [m.weights + m.mapped, m.kv, m.scratch, m.total + m.mapped, facts.kv.bytes_per_token, facts.flops.at_context];
        await until(async () => (await sizes()).join() === expected.join(), async () => `${where}: ${[context, batch, kv, precision]}: shows ${await sizes()}, inspect ${expected}`);
    }
    await look(page, where, "model-settings");
    await page.locator(".chapter summary").nth(2).click();
    await page.waitForSelector(".chapter[open] .blocks > *");
    const [saved] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save as HTML" }).click()]);
    check(/\.html$/.test(saved.suggestedFilename()), `${where}: the report`);
}

async function compare({ page, where }) {
    await page.goto(page.url().replace(/#.*/, "#/compare"));
    await until(async () => await page.locator(".suggestions button").count() === 4, async () => `${where}: ${await page.locator(".suggestions button").count()} suggestions`);
    await look(page, where, "compare-empty");
    await page.locator(".suggestions button", { hasText: "the attention of layer" }).click();
    await page.waitForFunction(() => [...document.querySelectorAll(".compare-column .figures")].filter((f) => f.children.length === 5).length === 2);
    check(await page.locator(".compare-column details[open] input").inputValue() === "model.layers.15.self_attn=0", `${where}: the suggested intervention: ${await page.locator(".compare-column details[open] input").inputValue()}`);
    await page.locator(".compare-column details[open] input").fill("");
    await page.locator(".compare-column").nth(1).getByRole("button", { name: "Settings of B" }).click();
    await page.getByRole("button", { name: "All settings" }).click();
    await page.fill("#set-repeat_penalty", "1.6");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    await page.fill(".ask textarea", "What is water made of?");
    await page.getByRole("button", { name: "Send" }).click();
    await page.waitForFunction(() => { const all = [...document.querySelectorAll(".compare-column .figures")]; return all.length === 2 && all.every((f) => f.children.length === 5); });
    const parted = await page.locator(".tk.mark").evaluateAll((all) => all.map((e) => e.dataset.i));
    check(parted.length === 2 && parted[0] === parted[1], `${where}: where they part: ${parted}`);
    const said = await page.locator(".coloured").evaluateAll((all) => all.map((e) => [...e.querySelectorAll(".tk")].map((x) => x.textContent)));
    check(said[0].slice(0, parted[0]).join() === said[1].slice(0, parted[0]).join() && said[0][parted[0]] !== said[1][parted[0]], `${where}: they do not part there`);
    await look(page, where, "compare");
}

async function tokens({ page, where }) {
    await page.goto(page.url().replace(/#.*/, "#/tokens"));
    await page.waitForSelector(".pieces li");
    await look(page, where, "tokens");
    await page.fill(".view textarea", "Hello world");
    await page.waitForFunction(() => document.querySelectorAll(".pieces li").length === 2);
    await until(async () => (await page.locator(".pieces li span").allInnerTexts()).join("|") === "Hello|·world", `${where}: pieces`);
    await page.fill(".view textarea", "a\u202eb<img src=x onerror=alert(1)>\u0001");
    await page.waitForFunction(() => document.querySelectorAll(".pieces li").length > 5);
    await until(async () => (await text(page, ".pieces")).includes("U+202E"), `${where}: what turns text over is not shown`);
}

async function machine({ page, where }) {
    await page.goto(page.url().replace(/#.*/, "#/machine"));
    await page.waitForSelector(".bigs");
    await page.evaluate(async () => { await (await fetch("/v1/completions", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ prompt: "Once upon a time", max_tokens: 60 }) })).text(); });
    await until(async () => await page.locator(".curve canvas").count() === 6, `${where}: curves`);
    const memory = () => page.locator("tfoot td").allInnerTexts();
    await until(async () => { const [allocated, planned] = await memory(); return allocated === planned && /^[\d,]{8,}$/.test(allocated); }, async () => `${where}: allocated, planned: ${await memory()}`);
    await until(async () => Number((await text(page, ".list div:nth-child(2) dd")).replace(/,/g, "")) >= 60, `${where}: tokens are not counted`);
    await look(page, where, "machine");
}

async function frame({ page, where }) {
    const paper = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor), before = await paper();
    await preferences(page, async (place) => { for (let i = 0; i < 2; i++) await place.locator("button").click(); });
    await until(async () => await paper() !== before, `${where}: the colours do not change`);
    await page.keyboard.press("Alt+Digit4");
    await page.waitForSelector(".pieces li");
    await page.keyboard.press("Alt+Digit1");
    await page.waitForSelector(".composer");
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press("?");
    await page.waitForSelector("dialog");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    for (const [tag, name] of [["zh-Hant", "對話"], ["zh-Hans", "对话"], ["my", "စကားပြော"], ["en", "Chat"]]) {
        await speak(page, tag);
        await until(async () => await page.evaluate(() => document.documentElement.lang) === tag, `${where}: lang ${tag}`);
        for (const view of ["model", "compare", "tokens", "machine", "chat"]) {
            await page.evaluate((v) => { location.hash = `#/${v}`; }, view);
            await page.waitForSelector({ model: ".drawing svg, .notice", compare: ".suggestions", tokens: ".pieces li", machine: ".bigs", chat: ".composer" }[view]);
            await page.screenshot({ path: join(shots, `web-${view}-${page.viewportSize().width}-${tag}.png`) });
            await fits(page, `${where} ${view} ${tag}`);
        }
        await until(async () => (await page.locator(".top nav a").first().innerText()) === name, async () => `${where}: ${tag}: ${await page.locator(".top nav a").first().innerText()}`);
    }
}

export const flows = { chat, stopping, several, settings, surprise, inspector, model, compare, tokens, machine, frame };
