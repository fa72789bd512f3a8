// Traces and interventions of answers: the lens while an answer is written, the answer without a head next to the first, and servers that
// refuse either.
import { join } from "node:path";
import { check, until } from "./browser.mjs";
import { model as demo, serve } from "./serving.mjs";
import { ask, fits, lastAnswer, look, openPage, shots, speak } from "./web_page.mjs";

const FRANCE = "What is the capital of France?", LONG = "Write a very long story about a king, a dragon and a long journey.";
// Without this head, the demo model's answer goes on with “,” in place of the full stop.
const LAYER = 10, HEAD = 3, CHANGE = `model.layers.${LAYER}.self_attn#head${HEAD}=0`;

// Collect the requests of the page to the routes that generate or trace.
function requests(page) {
    const all = [];
    page.on("request", (r) => { if (/\/v1\/(chat\/completions|trace)$|\/completion$|\/apply-template$/.test(r.url())) all.push({ path: new URL(r.url()).pathname, body: r.postDataJSON() }); });
    return all;
}

const post = async (server, path, body) => (await fetch(server.url + path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) })).json();
const lensOf = (page) => page.locator(".lens tbody tr").evaluateAll((all) => all.map((r) => [...r.children].map((x) => x.textContent.trim()).join(" ")));
const begin = async (page, text) => { await page.fill(".composer textarea", text); await page.press(".composer textarea", "Enter"); };
const token = async (page, i) => { await lastAnswer(page).locator(`.tk[data-i="${i}"]`).first().click(); };

async function tracing({ page, where }) {
    const sent = requests(page), toggle = page.getByRole("switch", { name: "Trace while writing" });
    check(await toggle.count() === 0, `${where}: the switch is there without surprise`);
    await page.getByRole("switch", { name: "Surprise" }).click();
    await ask(page, FRANCE);
    check(sent.length === 1 && sent[0].body.logprobs === true && !("trace" in sent[0].body), `${where}: without the switch: ${JSON.stringify(sent)}`);
    await toggle.click();
    await page.keyboard.press("Alt+KeyN");
    await page.waitForSelector(".empty");
    sent.length = 0;
    await begin(page, LONG);
    await page.waitForSelector('.message.assistant[aria-busy=true] .tk[data-i="12"]');
    await token(page, 8);
    await page.waitForSelector(".lens tbody tr");
    const early = await lensOf(page), chosen = (await page.locator(".inspector h2 .piece").innerText()).trim();
    check(early.length === 30, `${where}: ${early.length} layers`);
    await until(async () => (await page.locator(".lens tbody tr").first().locator(".say.is").first().innerText()).trim() === chosen, `${where}: the last layer does not say ${chosen}`);
    await page.locator(".coloured").focus();
    await page.keyboard.press("ArrowRight");
    await until(async () => await page.locator(".tk.chosen").getAttribute("data-i") === "9" && (await lensOf(page)).join() !== early.join(), `${where}: the next token by a key`);
    await page.waitForTimeout(400);
    await until(async () => await page.locator(".message.assistant").getAttribute("aria-busy") === "true", `${where}: the answer is over too early`);
    await look(page, where, "tracing");
    check(sent.length === 1 && sent[0].body.trace.lens === 3 && sent[0].body.trace.surprise === false, `${where}: the lens took requests: ${sent.map((x) => x.path)}`);
    await page.getByRole("button", { name: "Show it now" }).click();
    await page.waitForSelector(".attends path", { state: "attached" });
    check(sent.filter((x) => x.path === "/v1/trace").length === 1, `${where}: attention while writing took ${sent.map((x) => x.path)}`);
    await token(page, 8);
    await page.locator(".composer").getByRole("button", { name: "Stop" }).click({ timeout: 2000 }).catch(() => undefined);          // or it is complete by now
    await page.waitForSelector(".message.assistant[aria-busy=false]");
    await page.waitForSelector(".attends path", { state: "attached" });                       // requested by itself, once the answer is complete
    const last = sent.filter((x) => x.path === "/v1/trace" && x.body.attention).pop();
    check(last && !("lens" in last.body) && last.body.attention === true, `${where}: ${JSON.stringify(last?.body).slice(0, 200)}`);
    await until(async () => (await lensOf(page)).join() === early.join(), `${where}: the lens has changed`);
    // The same token by a request for its text: the same figures.
    await page.waitForTimeout(400);
    await page.reload();
    await page.waitForSelector(".message.assistant .coloured");
    await token(page, 8);
    await page.waitForSelector(".lens tbody tr");
    await until(async () => (await lensOf(page)).join() === early.join(), async () => `${where}: came with the answer: ${early.slice(0, 3)}; asked for: ${(await lensOf(page)).slice(0, 3)}`);
    check(sent.at(-1).body.lens === 3 || sent.some((x) => x.path === "/v1/trace" && x.body.lens === 3), `${where}: after loading again nothing is asked`);
}

async function withoutHead(page) {
    await page.waitForSelector(".attends path", { state: "attached" });
    await page.locator(".inspector select").selectOption(String(LAYER));
    await page.locator(".heads button").nth(HEAD).click();
    await page.getByRole("button", { name: "Answer again without it" }).click();
    await page.waitForFunction(() => { const a = [...document.querySelectorAll(".message.assistant")].pop(); return a.querySelector(".changed") && a.getAttribute("aria-busy") === "false"; });
}

const columns = (page) => page.locator(".side-by-side section").evaluateAll((all) => all.map((e) => [...e.querySelectorAll(".tk")].map((x) => x.textContent)));
const marks = (page) => page.locator(".side-by-side .tk.mark").evaluateAll((all) => all.map((e) => Number(e.dataset.i)));

async function whatif({ page, where, server }) {
    const sent = requests(page);
    await page.getByRole("switch", { name: "Surprise" }).click();
    await ask(page, FRANCE);
    await token(page, 5);
    await withoutHead(page);
    await page.waitForSelector(".parted .before tbody tr");
    const [first, second] = await columns(page), at = await marks(page);
    check(at.length === 2 && at[0] === at[1] && at[0] > 0, `${where}: marks: ${at}`);
    check(first.slice(0, at[0]).join("") === second.slice(0, at[0]).join("") && first[at[0]] !== second[at[0]], `${where}: they do not part at ${at}: ${first} / ${second}`);
    // What the server says of both, by requests of our own.
    const own = await Promise.all([{}, { intervene: [CHANGE] }].map((more) => post(server, "/v1/chat/completions", { messages: [{ role: "user", content: FRANCE }], temperature: 0, logprobs: true, top_logprobs: 5, ...more })));
    own.forEach((x, i) => check(x.choices[0].message.content === [first, second][i].join(""), `${where}: column ${i}: ${[first, second][i].join("")} is not ${x.choices[0].message.content}`));
    const rows = await page.locator(".parted .before tbody tr").evaluateAll((all) => all.map((r) => [...r.children].map((x) => x.textContent)));
    own.forEach((x, i) => {
        const likely = x.choices[0].logprobs.content[at[0]].top_logprobs, shown = rows.map((r) => r.slice(2 * i, 2 * i + 2)).slice(0, 5);
        check(shown.every(([text, p], k) => text === likely[k].token.replace(/ /g, "·").replace(/\n/g, "⏎") && Math.abs(Number(p) - Math.exp(likely[k].logprob)) < 0.006), `${where}: alternatives ${i}: ${shown.join("; ")}`);
    });
    await until(async () => await page.locator(".parted .is").count() === 4, `${where}: the chosen tokens are not marked`);
    const asked = sent.filter((x) => x.path === "/v1/chat/completions");
    check(asked.length === 2 && asked[1].body.intervene.join() === CHANGE && asked[1].body.stream, `${where}: ${JSON.stringify(asked[1]?.body.intervene)}`);
    await look(page, where, "whatif");
    // The inspector of the changed answer looks into the changed model.
    await page.locator(".side-by-side section").nth(1).locator(`.tk[data-i="${at[0]}"]`).click();
    await page.waitForSelector(".lens tbody tr");
    check(sent.filter((x) => x.path === "/v1/trace").pop().body.intervene?.join() === CHANGE, `${where}: the changed model is not the one that is looked into`);
    const p = async () => Number((await page.locator(".figures dd").first().innerText())), lens = async () => Number(await page.locator(".lens tbody tr").first().locator("td.n").first().innerText());
    await until(async () => Math.abs(await p() - await lens()) < 0.02, async () => `${where}: p ${await p()}, the last layer's ${await lens()}`);
    await page.keyboard.press("Escape");
    await page.waitForSelector(".inspector", { state: "detached" });
    await page.locator(".branches").getByRole("button", { name: "Previous version" }).click();
    await until(async () => await page.locator(".side-by-side").count() === 0 && (await lastAnswer(page).locator(".coloured").innerText()).trim() === first.join("").trim(), `${where}: the first answer`);
    // An answer that continues from a chosen token does so without the head too.
    await token(page, 6);
    await page.locator(".alternatives tbody tr:not(.is) .icon-button").first().click();
    await page.waitForFunction(() => document.querySelector(".branches .count")?.textContent === "3/3" && document.querySelector(".message.assistant")?.getAttribute("aria-busy") === "false");
    await token(page, 6);
    await withoutHead(page);
    const [branch, changed] = sent.filter((x) => x.path === "/completion").map((x) => x.body);
    check(changed.prompt.join() === branch.prompt.join() && changed.intervene.join() === CHANGE && !("intervene" in branch), `${where}: the branch without the head: ${JSON.stringify(changed).slice(0, 200)}`);
    await until(async () => (await columns(page)).map((x) => x.slice(0, 7).join("")).every((x, _, all) => x === all[0]), async () => `${where}: the branch and its change begin as ${(await columns(page)).join(" / ")}`);
    // Sampled answers: the seed is the same, so that the change alone makes the difference.
    await page.getByRole("button", { name: "Settings" }).click();
    await page.fill("#set-temperature", "0.9");
    await page.fill("#set-max_tokens", "24");
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    await page.getByRole("switch", { name: "Trace while writing" }).click();
    await page.getByRole("button", { name: "Answer again", exact: true }).click();
    await page.waitForFunction(() => document.querySelector(".branches .count")?.textContent === "5/5" && document.querySelector(".message.assistant .stats"));
    await until(async () => (await lastAnswer(page).locator(".stats").innerText()).includes("with a trace"), `${where}: the figures do not tell of the trace`);
    await token(page, 0);
    await withoutHead(page);
    const [drawn, again] = sent.filter((x) => x.path === "/v1/chat/completions").slice(-2).map((x) => x.body);
    check(Number.isInteger(drawn.seed) && drawn.seed >= 0 && again.seed === drawn.seed && again.temperature === 0.9 && drawn.trace && again.trace && again.intervene.join() === CHANGE, `${where}: ${JSON.stringify([drawn.seed, again.seed, again.temperature])}`);
    await page.waitForTimeout(400);
    await page.reload();
    await page.waitForSelector(".side-by-side .tk");
    await until(async () => (await columns(page)).length === 2, `${where}: after loading again`);
    for (const tag of ["zh-Hant", "zh-Hans", "my"]) {
        await speak(page, tag);
        await until(async () => await page.evaluate(() => document.documentElement.lang) === tag, `${where}: lang ${tag}`);
        await page.screenshot({ path: join(shots, `web-whatif-${page.viewportSize().width}-${tag}.png`) });
        await fits(page, `${where} ${tag}`);
    }
}

// Servers that trace one answer at a time, or allow no interventions.
async function refusals(of) {
    const server = await serve(demo, "--port", "0", "--parallel", "1", "-c", "512", "--temp", "0");
    const { page, close } = await openPage(of.browser, server.url, { width: of.width, height: of.width < 800 ? 844 : 860, where: of.where, quiet: true });
    const abort = new AbortController();
    try {
        await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
        await page.getByRole("switch", { name: "Surprise" }).click();
        await ask(page, FRANCE);
        await token(page, 5);
        await page.waitForSelector(".attends path", { state: "attached" });          // a straight line has no height, which counts as hidden
        await page.locator(".heads button").nth(HEAD).click();
        await page.getByRole("button", { name: "Without this head?" }).click();
        await until(async () => /no interventions.*--allow-interventions/s.test(await page.locator(".inspector .notice").innerText()), `${of.where}: the inspector does not say how to start the server`);
        await withoutHead(page);
        const notice = lastAnswer(page).locator(".notice");
        await until(async () => /no interventions.*lamina serve MODEL --allow-interventions/s.test(await notice.innerText()), async () => `${of.where}: ${await notice.innerText()}`);
        await look(page, of.where, "forbidden");
        await notice.getByRole("button", { name: "Copy the command" }).click();
        await until(async () => await page.evaluate(() => navigator.clipboard.readText()) === "lamina serve MODEL --allow-interventions", `${of.where}: the command is not copied`);
        await notice.getByRole("button", { name: "Show the first answer" }).click();
        await until(async () => (await lastAnswer(page).locator(".coloured").innerText()).includes("Paris"), `${of.where}: the first answer`);
        // Another client's traced answer takes the only place until it is closed.
        const other = await fetch(`${server.url}/v1/completions`, { method: "POST", signal: abort.signal, headers: { "Content-Type": "application/json" },
            body: JSON.stringify({ prompt: "Once", max_tokens: 500, ignore_eos: true, stream: true, trace: { lens: 5, attention: true } }) });
        check(other.status === 200, `${of.where}: the other client: ${other.status}`);
        await page.getByRole("switch", { name: "Trace while writing" }).click();
        await begin(page, "What is water made of?");
        await until(async () => await lastAnswer(page).locator(".notice").count() === 1 && /As many answers are being traced/.test(await lastAnswer(page).locator(".notice").innerText()), async () => `${of.where}: ${await lastAnswer(page).innerText()}`);
        await look(page, of.where, "traces");
        await lastAnswer(page).getByRole("button", { name: "Answer without a trace" }).click();
        await until(async () => await lastAnswer(page).locator(".stats").count() === 1 && await lastAnswer(page).locator(".notice").count() === 0, `${of.where}: no answer without a trace`);
        await until(async () => await page.getByRole("switch", { name: "Trace while writing" }).getAttribute("aria-checked") === "false", `${of.where}: the switch stays on`);
        abort.abort();
        // A full context has the same sentence with a trace as without.
        await page.getByRole("switch", { name: "Trace while writing" }).click();
        await begin(page, "word ".repeat(600));
        await until(async () => /no longer fits/.test(await lastAnswer(page).locator(".notice").innerText()), async () => `${of.where}: ${await lastAnswer(page).innerText()}`);
        await until(async () => await lastAnswer(page).getByRole("button", { name: "Continue in a new chat" }).count() === 1 && await lastAnswer(page).getByRole("button", { name: "Answer without a trace" }).count() === 0, `${of.where}: its button`);
    } finally { abort.abort(); await close(); await server.close(); }
}

export const flows = { tracing, whatif, refusals };
