// Requests to the server of this page, and their failures.
import { signal } from "@preact/signals";
import { EventParser } from "./stream";

export type FailureKind = "gone" | "loading" | "draining" | "busy" | "key" | "context" | "model" | "memory" | "refused" | "broken" | "server" | "off" | "traces" | "forbidden";

export class Failure extends Error {
    constructor(readonly kind: FailureKind, message: string, readonly status = 0, readonly wait = 0, readonly where = "") {
        super(message);
    }
}

const keyName = "lamina-key";
export const key = signal(localStorage.getItem(keyName) ?? sessionStorage.getItem(keyName) ?? "");
export const keyWanted = signal(false);

export function setKey(value: string, keep: boolean): void {
    key.value = value;
    keyWanted.value = false;
    localStorage.removeItem(keyName);
    sessionStorage.removeItem(keyName);
    if (value) (keep ? localStorage : sessionStorage).setItem(keyName, value);
}

function headers(body: boolean): Record<string, string> {
    const out: Record<string, string> = {};
    if (body) out["Content-Type"] = "application/json";
    if (key.value) out["Authorization"] = `Bearer ${key.value}`;
    return out;
}

interface ErrorBody { error?: { message?: string; type?: string; code?: string | number | null; param?: string | null } | string }

export function failureOf(status: number, body: ErrorBody, wait: number): Failure {
    const e = typeof body.error === "string" ? { message: body.error } : body.error ?? {};
    const message = e.message ?? `HTTP ${status}`, code = e.code ?? "", where = e.param ?? "";
    const kind: FailureKind =
        status === 401 ? "key"
        : status === 403 && where === "intervene" ? "forbidden"
        : status === 429 ? (where === "trace" ? "traces" : "busy")
        : status === 503 ? (message.includes("shutting") ? "draining" : "loading")
        : status === 507 ? "memory"
        : code === "context_length_exceeded" ? "context"
        : status === 404 && where === "model" ? "model"
        : status === 501 || status === 404 ? "off"
        : status >= 400 && status < 500 ? "refused" : "server";
    if (kind === "key") keyWanted.value = true;
    return new Failure(kind, message, status, wait, where ?? "");
}

// `path` begins with a slash, and is below the address of the page, which may be behind a proxy at another path.
async function send(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
    let answer: Response;
    try {
        answer = await fetch(`.${path}`, { method: body === undefined ? "GET" : "POST", headers: headers(body !== undefined), cache: "no-store",
            ...(body === undefined ? {} : { body: JSON.stringify(body) }), ...(signal ? { signal } : {}) });
    } catch (e) {
        if (e instanceof DOMException && e.name === "AbortError") throw e;
        throw new Failure("gone", String(e));
    }
    if (answer.ok) return answer;
    const text = await answer.text().catch(() => "");
    let parsed: ErrorBody = {};
    try { parsed = JSON.parse(text) as ErrorBody; } catch { parsed = { error: { message: text.slice(0, 300) || `HTTP ${answer.status}` } }; }
    throw failureOf(answer.status, parsed, Number(answer.headers.get("Retry-After") ?? 0));
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
    return await (await send(path, undefined, signal)).json() as T;
}

export async function getText(path: string, signal?: AbortSignal): Promise<string> {
    return await (await send(path, undefined, signal)).text();
}

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
    return await (await send(path, body, signal)).json() as T;
}

// Yield the JSON of each event, in order. Returns after [DONE] or a final event; throws on an error event, or if the stream ends early.
export async function* stream<T extends object>(path: string, body: unknown, signal: AbortSignal): AsyncGenerator<T> {
    const answer = await send(path, body, signal);
    const parser = new EventParser(), reader = answer.body!.getReader();
    let ended = false;
    try {
        for (;;) {
            let piece: ReadableStreamReadResult<Uint8Array>;
            try {
                piece = await reader.read();
            } catch (e) {
                if (e instanceof DOMException && e.name === "AbortError") throw e;
                throw new Failure("broken", String(e));
            }
            if (piece.done) break;
            for (const event of parser.push(piece.value)) {
                if (event.data === "[DONE]") { ended = true; continue; }
                const value = JSON.parse(event.data) as T, seen = value as ErrorBody & { stop?: boolean };
                if (seen.error) throw failureOf(500, seen, 0);
                if (seen.stop === true) ended = true;
                yield value;
            }
        }
    } finally {
        reader.cancel().catch(() => undefined);
    }
    if (!ended) throw new Failure("broken", "the stream ended before the answer did");
}
