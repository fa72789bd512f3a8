// Servers for the checks: lamina serve with the demo model, or a mock server that returns what a model would never generate.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { createServer as listener } from "node:net";
import { join } from "node:path";
import { folder, lamina, root } from "./browser.mjs";

export const model = join(root, "build/assets/smollm2-135m-instruct-q4_1.gguf");

// Return a port for a server that is restarted: outside the kernel's range for connections, since a client that retries could take it.
export async function freePort() {
    const first = Number(readFileSync("/proc/sys/net/ipv4/ip_local_port_range", "utf8").split(/\s/)[0]), end = first > 21000 ? first : 65536;
    for (;;) {
        const port = 20000 + Math.floor(Math.random() * (end - 20000)), probe = listener();
        const free = await new Promise((done) => probe.once("error", () => done(false)).listen(port, "127.0.0.1", () => probe.close(() => done(true))));
        if (free) return port;
    }
}

export async function serve(...flags) {
    const process_ = spawn(lamina, ["serve", ...flags], { cwd: root, env: { ...process.env, LAMINA_CACHE: join(folder, "cache") }, stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    const url = await new Promise((done, fail) => {
        process_.stderr.on("data", (d) => {
            said += d;
            const at = /listening on (\S+)/.exec(said);
            if (at) done(at[1]);
        });
        process_.on("exit", () => fail(new Error(`lamina serve: ${said}`)));
    });
    for (let i = 0; i < 600; i++) {
        if ((await fetch(`${url}/health`).catch(() => ({ ok: false }))).ok) break;
        await new Promise((r) => setTimeout(r, 100));
    }
    return { url, process: process_, close: () => new Promise((done) => { process_.on("exit", done); process_.kill("SIGTERM"); }) };
}

// Serve `page` with responses of the check: `handle(path, body)` returns { status, type, body } or { events }; null cuts the connection.
// Of the events, a number waits so many milliseconds, a promise until it is resolved, and null cuts the connection.
export async function play(page, handle) {
    const server = createServer((request, response) => {
        let body = "";
        request.on("data", (d) => { body += d; });
        request.on("end", async () => {
            if (request.url === "/") {
                response.writeHead(200, page.headers);
                response.end(page.body);
                return;
            }
            const answer = await handle(request.url, body ? JSON.parse(body) : undefined, request);
            if (answer === null) { request.socket.destroy(); return; }
            if (answer.events) {
                response.writeHead(200, { "Content-Type": "text/event-stream" });
                for (const e of answer.events) {
                    if (e === null) { request.socket.destroy(); return; }
                    if (typeof e === "number") { await new Promise((r) => setTimeout(r, e)); continue; }
                    if (e instanceof Promise) { await e; continue; }
                    if (!response.write(`data: ${typeof e === "string" ? e : JSON.stringify(e)}\n\n`)) await new Promise((r) => response.once("drain", r));
                }
                response.end();
                return;
            }
            response.writeHead(answer.status ?? 200, { "Content-Type": answer.type ?? "application/json", ...answer.headers });
            response.end(typeof answer.body === "string" ? answer.body : JSON.stringify(answer.body));
        });
    });
    await new Promise((done) => server.listen(Number(page.port ?? 0), "127.0.0.1", done));
    return { url: `http://127.0.0.1:${server.address().port}`, close: () => new Promise((done) => { server.closeAllConnections(); server.close(done); }) };
}

// A proxy at `prefix`, which it takes off the paths of requests to a server.
export async function behind(url, prefix) {
    const proxy = createServer((asked, answer) => {
        if (!asked.url.startsWith(`${prefix}/`)) { answer.writeHead(404).end(); return; }
        asked.pipe(request(url + asked.url.slice(prefix.length), { method: asked.method, headers: asked.headers }, (got) => { answer.writeHead(got.statusCode, got.headers); got.pipe(answer); }));
    });
    await new Promise((done) => proxy.listen(0, "127.0.0.1", done));
    return { url: `http://127.0.0.1:${proxy.address().port}${prefix}`, close: () => new Promise((done) => { proxy.closeAllConnections(); proxy.close(done); }) };
}

// Return the page with the HTTP headers that lamina sends.
export async function pageOf(url) {
    const answer = await fetch(`${url}/`, { headers: { Accept: "text/html" } });
    const headers = Object.fromEntries(["content-type", "content-security-policy", "x-content-type-options", "referrer-policy", "cross-origin-opener-policy"].map((h) => [h, answer.headers.get(h)]));
    return { headers, body: Buffer.from(await answer.arrayBuffer()) };
}

