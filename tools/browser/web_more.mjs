// Flows that the demo model alone does not cover: tool calls, reasoning, experts, several models; and use by keyboard only.
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { check, folder, run, until } from "./browser.mjs";
import { model as demo, serve } from "./serving.mjs";
import { accessible, ask, look, openPage } from "./web_page.mjs";
import { chunk, played, usage, usual } from "./web_rough.mjs";

const delta = (d, finish = null) => ({ choices: [{ index: 0, delta: d, logprobs: null, finish_reason: finish }] });

// Two calls arrive in pieces, as a server streams them; their results are sent back together, each with the id of its call.
async function tools(of) {
    const asked = [], pieces = [
        { index: 0, id: "call_a", type: "function", function: { name: "weather", arguments: "" } }, { index: 0, function: { arguments: '{"city":' } }, { index: 0, function: { arguments: '"<b>Yangon</b>"}' } },
        { index: 1, id: "call_b", type: "function", function: { name: "time", arguments: "{}" } },
    ];
    await played(of, (path, body) => {
        if (path !== "/v1/chat/completions") return usual(path);
        asked.push(body);
        return { events: asked.length === 1 ? [...pieces.map((p) => delta({ tool_calls: [p] })), delta({}, "tool_calls"), usage(9), "[DONE]"] : [chunk("31 degrees at noon."), chunk(null, "stop"), usage(6), "[DONE]"] };
    }, async (page) => {
        await page.getByRole("button", { name: "Settings" }).click();
        await page.getByRole("button", { name: "All settings" }).click();
        await page.locator("dialog").getByRole("button", { name: "Insert an example" }).last().click();
        await page.keyboard.press("Escape");
        await page.waitForSelector("dialog", { state: "detached" });
        await ask(page, "How warm is it?");
        check(Array.isArray(asked[0].tools) && asked[0].tools[0].type === "function", `${of.where}: the tools are not sent`);
        await until(async () => await page.locator(".message.assistant details.fold").count() === 2, `${of.where}: two calls`);
        await page.locator(".message.assistant details.fold summary").first().click();
        await until(async () => (await page.locator(".message.assistant details.fold pre").first().innerText()).includes('"city": "<b>Yangon</b>"'), async () => `${of.where}: arguments: ${await page.locator(".message.assistant details.fold pre").first().innerText()}`);
        await until(async () => (await page.locator(".message.assistant .stats").innerText()).includes("waits for a tool"), `${of.where}: why it stopped`);
        await look(page, of.where, "tools");
        const results = page.locator("form.results input");
        await until(async () => await results.count() === 2, `${of.where}: a result for each call`);
        await results.nth(0).fill("31");
        await results.nth(1).fill("12:00");
        await results.nth(1).press("Enter");
        await until(async () => await page.locator(".message.assistant .stats").count() === 2, async () => `${of.where}: the second answer: ${await page.locator(".messages").innerText()}`);
        const sent = asked[1].messages;
        check(sent.map((m) => m.role).join() === "user,assistant,tool,tool", `${of.where}: ${sent.map((m) => m.role)}`);
        check(sent[1].tool_calls.map((c) => `${c.id} ${c.function.name} ${c.function.arguments}`).join("; ") === 'call_a weather {"city":"<b>Yangon</b>"}; call_b time {}', `${of.where}: the calls go back as ${JSON.stringify(sent[1])}`);
        check(sent[2].tool_call_id === "call_a" && sent[2].content === "31" && sent[3].tool_call_id === "call_b" && sent[3].content === "12:00", `${of.where}: results: ${JSON.stringify(sent.slice(2))}`);
        await until(async () => (await page.locator(".message.assistant .markdown").last().innerText()).includes("31 degrees") && await page.locator("form.results").count() === 0, `${of.where}: the model does not go on`);
        await until(async () => await stored(page) === 5, async () => `${of.where}: ${await stored(page)} of 5 messages are stored`);
        await page.reload();
        await until(async () => await page.locator(".message").count() === 5, async () => `${of.where}: after loading again: ${await page.locator(".messages").innerText()}`);
    });
}

// Return the number of messages in the page's database.
const stored = (page) => page.evaluate(() => new Promise((done) => {
    indexedDB.open("lamina").onsuccess = ({ target: { result: db } }) => {
        db.transaction("turns").objectStore("turns").count().onsuccess = (e) => { db.close(); done(e.target.result); };
    };
}));

// Reasoning is folded, grows before the answer, and is not sent to the model again.
async function reasoning(of) {
    const asked = [];
    let answer;
    const held = new Promise((done) => { answer = done; });
    await played(of, (path, body) => {
        if (path !== "/v1/chat/completions") return usual(path);
        asked.push(body);
        return { events: [...["Let me ", "*think*", " <i>hard</i>."].map((x) => delta({ reasoning_content: x })), held, chunk("Forty"), chunk("-two."), chunk(null, "stop"),
            { choices: [], usage: { prompt_tokens: 5, completion_tokens: 6, completion_tokens_details: { reasoning_tokens: 3 } }, timings: { predicted_per_second: 50 } }, "[DONE]"] };
    }, async (page) => {
        await page.fill(".composer textarea", "What is it?");
        await page.press(".composer textarea", "Enter");
        await page.waitForSelector(".message.assistant details.fold");
        await until(async () => await page.locator(".message.assistant[aria-busy=true] details.fold summary").innerText() === "Reasoning …", `${of.where}: while it thinks`);
        answer();
        await page.waitForSelector(".message.assistant .stats");
        const fold = page.locator(".message.assistant details.fold");
        await until(async () => !await fold.evaluate((d) => d.open), `${of.where}: reasoning is open`);
        await fold.locator("summary").click();
        await until(async () => (await fold.innerText()).includes("think <i>hard</i>.") && await fold.locator("em").innerText() === "think", async () => `${of.where}: reasoning: ${await fold.innerText()}`);
        await until(async () => (await page.locator(".message.assistant > .markdown").innerText()).trim() === "Forty-two.", `${of.where}: the answer`);
        await look(page, of.where, "reasoning");
        await ask(page, "Sure?");
        check(!JSON.stringify(asked[1].messages).includes("hard") && asked[1].messages[1].content === "Forty-two.", `${of.where}: reasoning is said again: ${JSON.stringify(asked[1].messages)}`);
    });
}

// A small mixture of experts with the demo model's tokens, made once.
function mixture() {
    const config = join(folder, "mixture"), file = join(folder, "mixture.gguf");
    if (existsSync(file)) return file;
    mkdirSync(config, { recursive: true });
    writeFileSync(join(config, "config.json"), JSON.stringify({ architectures: ["MixtralForCausalLM"], model_type: "mixtral", hidden_size: 128, intermediate_size: 256, num_hidden_layers: 3, num_attention_heads: 4, num_key_value_heads: 2,
        num_local_experts: 4, num_experts_per_tok: 2, vocab_size: 49152, max_position_embeddings: 512, rms_norm_eps: 1e-5, rope_theta: 10000, tie_word_embeddings: true }));
    run("synth", join(config, "config.json"), file, "--tokenizer", demo, "--type", "q8_0", "--force", "--quiet");
    return file;
}

const MODELS = ["--alias", "demo", "--alias", "mixture"];

async function withBoth(of, work) {
    const server = await serve(demo, mixture(), ...MODELS, "--port", "0", "--parallel", "2", "-c", "512", "--temp", "0");
    const { page, close } = await openPage(of.browser, server.url, { width: of.width, height: of.width < 800 ? 844 : 860, where: of.where });
    try { await work(page, server); } finally { await close(); await server.close(); }
}

async function experts(of) {
    await withBoth(of, async (page) => {
        await page.locator(".model select").selectOption("mixture");
        await page.getByRole("button", { name: "Settings" }).click();
        await page.getByRole("button", { name: "All settings" }).click();
        await page.fill("#set-max_tokens", "12");
        await page.keyboard.press("Escape");
        await page.waitForSelector("dialog", { state: "detached" });
        await page.getByRole("switch", { name: "Surprise" }).click();
        await ask(page, "Say something.");
        await page.locator('.tk[data-i="3"]').click();
        await page.waitForSelector(".inspector .expert");
        const rows = await page.locator(".inspector section:last-child tr").evaluateAll((all) => all.map((r) => [...r.querySelectorAll(".expert")].map((e) => e.textContent.trim().split(/\s+/).map(Number))));
        check(rows.length === 3 && rows.every((r) => r.length === 2 && r.every(([e]) => e >= 0 && e < 4) && Math.abs(r[0][1] + r[1][1] - 1) < 0.02), `${of.where}: experts: ${JSON.stringify(rows)}`);
        await page.locator(".inspector").evaluate((e) => { e.scrollTop = e.scrollHeight; });
        await look(page, of.where, "experts");
        await page.keyboard.press("Escape");
        await page.keyboard.press("Alt+Digit2");
        await page.waitForSelector(".strip button");
        await page.locator(".view .model select").selectOption("mixture");
        await page.waitForFunction(() => document.querySelectorAll(".strip button").length === 3);
        await page.getByLabel("Coloured by").selectOption("experts");
        await page.waitForFunction(() => [...document.querySelectorAll(".strip button")].every((b) => / %$/.test(b.title)));
        const load = await page.locator(".strip button").evaluateAll((all) => all.map((b) => parseFloat(b.title.split(": ")[1])));
        check(load.every((x) => x >= 25 && x <= 50), `${of.where}: the busiest of four experts, two for each token: ${load}`);
    });
}

async function models(of) {
    await withBoth(of, async (page) => {
        await until(async () => (await page.locator(".model option").allInnerTexts()).map((x) => x.replace(/ \(.*/, "")).join() === "Choose a model,demo,mixture", async () => `${of.where}: ${await page.locator(".model option").allInnerTexts()}`);
        await page.locator(".model select").selectOption("demo");
        await ask(page, "What is water made of?");
        await until(async () => await page.locator(".message.assistant h2").innerText() === "demo", `${of.where}: who answers`);
        const first = await page.locator(".message.assistant .markdown").innerText();
        await page.locator(".model select").selectOption("mixture");
        await page.getByRole("button", { name: "Answer again" }).click();
        await page.waitForFunction(() => document.querySelector(".branches .count")?.textContent === "2/2" && document.querySelector(".message.assistant")?.getAttribute("aria-busy") === "false");
        await until(async () => await page.locator(".message.assistant h2").innerText() === "mixture" && await page.locator(".message.assistant .markdown").innerText() !== first, `${of.where}: the other model`);
        await page.keyboard.press("Alt+Digit4");
        await page.waitForSelector(".pieces li");
        await page.getByLabel("Add a model").selectOption({ index: 1 });
        await page.waitForFunction(() => { const all = [...document.querySelectorAll(".pieces")].map((p) => p.children.length); return all.length === 2 && all[0] > 5 && all[1] > 5; });
        const pieces = await page.locator(".pieces").evaluateAll((all) => all.map((p) => p.textContent));
        check(pieces[0] === pieces[1], `${of.where}: one tokenizer, two texts`);
        await page.keyboard.press("Alt+Digit3");
        await page.waitForSelector(".compare-column");
        await page.getByLabel("Model of A").selectOption("demo");
        await page.getByLabel("Model of B").selectOption("mixture");
        await page.fill(".ask textarea", "What is water made of?");
        await page.getByRole("button", { name: "Send" }).click();
        await page.waitForFunction(() => [...document.querySelectorAll(".compare-column .figures")].filter((f) => f.children.length === 5).length === 2);
        await until(async () => await page.locator(".tk.mark").count() === 2, `${of.where}: where two models part`);
        await look(page, of.where, "models");
    });
}

// By keyboard only, from an empty page to another answer, a token, a view and back.
async function keys({ page, where, width }) {
    const focused = () => page.evaluate(() => { const e = document.activeElement; return `${e.tagName.toLowerCase()}${e.id ? `#${e.id}` : ""} ${e.getAttribute("aria-label") ?? e.textContent.slice(0, 40)}`; });
    const to = async (what, back = false) => {
        const seen = [];
        for (let i = 0; i < 60; i++) {
            const now = await focused();
            if (what.test(now)) {
                const ring = await page.evaluate(() => { const s = getComputedStyle(document.activeElement), p = getComputedStyle(document.activeElement.closest("form,span,label") ?? document.body); return s.outlineStyle !== "none" || s.boxShadow !== "none" || p.boxShadow !== "none"; });
                check(ring, `${where}: nothing shows that ${now} has the focus`);
                return true;
            }
            seen.push(now);
            await page.keyboard.press(back ? "Shift+Tab" : "Tab");
        }
        check(false, `${where}: Tab does not lead to ${what}: ${seen.join(" > ").slice(0, 600)}`);
        return false;
    };
    await page.keyboard.press("Tab");
    await until(async () => /Skip/.test(await focused()), async () => `${where}: the first key: ${await focused()}`);
    await page.keyboard.press("Enter");
    await until(async () => /^main/.test(await focused()), async () => `${where}: skipping leads to ${await focused()}`);
    await to(/^button .*Surprise/);
    await page.keyboard.press("Space");
    await until(async () => await page.getByRole("switch", { name: "Surprise" }).getAttribute("aria-checked") === "true", `${where}: the switch`);
    await to(/^textarea/);
    await page.keyboard.type("What is water");
    await page.keyboard.press("Shift+Enter");
    await page.keyboard.type("made of?");
    await until(async () => await page.inputValue(".composer textarea") === "What is water\nmade of?", `${where}: a new line`);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector(".message.assistant .stats"));
    await until(async () => (await page.locator(".message.user .said").innerText()).includes("\nmade of?"), `${where}: the message`);
    await to(/^button Answer again/, true);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector(".branches .count")?.textContent === "2/2" && document.querySelector(".message.assistant .stats"));
    await to(/^button Previous version/, true);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector(".branches .count")?.textContent === "1/2");
    await to(/tokens of the answer/);
    for (const key of ["ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"]) await page.keyboard.press(key);
    await page.waitForSelector(".inspector .lens tbody tr");
    await until(async () => await page.locator(".tk.chosen").count() === 1, `${where}: a token by keys`);
    const at = await page.locator(".tk.chosen").getAttribute("data-i");
    await to(/^button Continue with/);
    await accessible(page, where);
    await page.keyboard.press("Escape");
    await page.waitForSelector(".inspector", { state: "detached" });
    check(Number(at) > 0, `${where}: arrows moved to ${at}`);
    await to(/^button Settings/, true);
    await page.keyboard.press("Enter");
    await page.waitForSelector("dialog");
    for (let i = 0; i < 25; i++) {
        await page.keyboard.press("Tab");
        await until(async () => await page.evaluate(() => document.activeElement === document.body || Boolean(document.activeElement.closest("dialog"))), async () => `${where}: the focus leaves the dialog for ${await focused()}`);
    }
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    await page.keyboard.press("Alt+KeyN");
    await page.waitForSelector(".empty");
    await page.keyboard.press("Alt+Digit2");
    await page.waitForSelector(".strip button");
    await to(/^button 0/);
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await until(async () => await page.locator(".model-columns h2").first().innerText() === "Layer 1", `${where}: a layer by keys`);
    await to(/^summary/);
    await page.keyboard.press("Enter");
    await until(async () => await page.locator("details.chapter[open]").count() >= 1, `${where}: a chapter by keys`);
    await page.keyboard.press("Alt+Digit1");
    await page.waitForSelector(".composer");
    if (width < 800) return;
    await to(/^button Chats/);
    if (!await page.locator(".sidebar").count()) await page.keyboard.press("Enter");
    await to(/^a What is water/);
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelectorAll(".message").length === 2);
}

export const flows = { tools, reasoning, experts, models, keys };
