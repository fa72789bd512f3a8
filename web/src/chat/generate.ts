// Answers: request, stream and stop them.
import { signal, type Signal } from "@preact/signals";
import { Failure, post, stream } from "../api/client";
import type { ChatChunk, NativeChunk, TokenChoice } from "../api/types";
import { saveTurn, type Conversation } from "../store/chats";
import { surprise } from "../store/prefs";
import { contextOf, noteFailure, onlyModel } from "../store/server";
import type { Settings, Token, Turn } from "../store/types";

// The turns that are being generated, by id, with the controllers that stop them.
export const writing = signal<ReadonlyMap<string, AbortController>>(new Map());
export const ALTERNATIVES = 8;

const begin = (id: string): AbortController => {
    const c = new AbortController();
    writing.value = new Map(writing.value).set(id, c);
    return c;
};
const finish = (id: string): void => {
    const m = new Map(writing.value);
    m.delete(id);
    writing.value = m;
};
export const stop = (id: string): void => { writing.value.get(id)?.abort(); };

export const tokenOf = (t: TokenChoice): Token =>
    ({ id: t.id, text: t.token, lp: t.logprob, top: (t.top_logprobs ?? []).map((x) => ({ id: x.id, text: x.token, lp: x.logprob })) });

export function messagesOf(turns: Turn[], system: string): unknown[] {
    const out: unknown[] = system.trim() ? [{ role: "system", content: system }] : [];
    for (const t of turns) {
        if (t.role === "tool") out.push({ role: "tool", tool_call_id: t.call ?? "", content: t.text });
        else if (t.role === "assistant" && t.calls?.length)
            out.push({ role: "assistant", content: t.text || null, tool_calls: t.calls.map((c) => ({ id: c.id, type: "function", function: { name: c.name, arguments: c.args } })) });
        else out.push({ role: t.role, content: t.text });
    }
    return out;
}

export function samplingOf(s: Settings): Record<string, unknown> {
    const out: Record<string, unknown> = { ...s.numbers };
    if (s.stop.length) out["stop"] = s.stop;
    return out;
}

// Return the fields that constrain the answer, or its tools. A schema or tools that are not valid JSON give the same kind of failure as
// a request that the server rejects.
export function formatOf(s: Settings): Record<string, unknown> {
    const parse = (text: string): unknown => {
        try { return JSON.parse(text); } catch (e) { throw new Failure("refused", String(e instanceof Error ? e.message : e), 400, 0, "schema"); }
    };
    switch (s.format) {
    case "json": return { response_format: { type: "json_object" } };
    case "schema": return { response_format: { type: "json_schema", json_schema: { name: "answer", strict: true, schema: parse(s.schema) } } };
    case "grammar": return { grammar: s.grammar };
    case "regex": return { guided_regex: s.regex };
    default: return s.tools.trim() ? { tools: parse(s.tools) } : {};
    }
}

// Collects updates and applies them once per frame, as pieces arrive faster than the screen shows them.
class Flusher {
    private due = 0;
    constructor(private readonly work: () => void) {}
    soon(): void {
        if (this.due) return;
        const go = (): void => { this.due = 0; this.work(); };
        this.due = document.hidden ? window.setTimeout(go, 250) : requestAnimationFrame(go);
    }
    now(): void { this.due = 0; this.work(); }
}

export interface Ask { path: string; body: Record<string, unknown> }

// Fill `turn` with the response to `ask`. Never throws: a failure becomes part of the turn.
async function write(turn: Signal<Turn>, ask: () => Promise<Ask>): Promise<void> {
    const id = turn.value.id, began = performance.now(), abort = begin(id);
    let text = turn.value.text, reasoning = turn.value.reasoning ?? "", first = 0, saved = began;
    const tokens = [...(turn.value.tokens ?? [])], calls = [...(turn.value.calls ?? [])];
    let rest: Partial<Turn> = {}, many = 0;
    const put = (): void => {
        turn.value = { ...turn.value, text, ...(reasoning ? { reasoning } : {}), ...(tokens.length ? { tokens: tokens.slice() } : {}), ...(calls.length ? { calls: calls.slice() } : {}), ...rest };
    };
    const flusher = new Flusher(() => {
        if (!writing.value.has(id)) return;
        put();
        if (performance.now() - saved > 2000) { saved = performance.now(); saveTurn(turn.value); }
    });
    const stats = (prompt: number, cached: number, count: number, thought: number, rate: number): void => {
        rest = { ...rest, stats: { prompt, cached, tokens: count, reasoning: thought, rate, first } };
    };
    try {
        const { path, body } = await ask();
        for await (const c of stream<ChatChunk & NativeChunk>(path, body, abort.signal)) {
            if (c.warnings) rest = { ...rest, warnings: c.warnings };
            if (c.choices) {
                const choice = c.choices[0], d = choice?.delta;
                if (d && (d.content || d.reasoning_content || d.tool_calls) && !first) first = performance.now() - began;
                if (d?.content) { text += d.content; many++; }
                if (d?.reasoning_content) { reasoning += d.reasoning_content; many++; }
                for (const piece of d?.tool_calls ?? []) {
                    const at = calls[piece.index] ??= { id: piece.id ?? "", name: "", args: "" };
                    calls[piece.index] = { id: piece.id ?? at.id, name: at.name + (piece.function?.name ?? ""), args: at.args + (piece.function?.arguments ?? "") };
                }
                for (const t of choice?.logprobs?.content ?? []) tokens.push(tokenOf(t));
                if (choice?.finish_reason) rest = { ...rest, stop: choice.finish_reason };
                if (c.usage) stats(c.usage.prompt_tokens, c.usage.prompt_tokens_details?.cached_tokens ?? 0, c.usage.completion_tokens,
                    c.usage.completion_tokens_details?.reasoning_tokens ?? 0, c.timings?.predicted_per_second ?? many / Math.max(1e-3, (performance.now() - began - first) / 1000));
            } else {
                if (c.content && !first) first = performance.now() - began;
                text += c.content ?? "";
                for (const t of c.completion_probabilities ?? []) tokens.push(tokenOf(t));
                if (c.stop) {
                    rest = { ...rest, stop: c.stop_type === "limit" ? "length" : "stop" };
                    stats(c.tokens_evaluated ?? 0, 0, c.tokens_predicted ?? 0, 0, c.timings?.predicted_per_second ?? 0);
                }
            }
            flusher.soon();
        }
    } catch (e) {
        if (e instanceof DOMException && e.name === "AbortError") rest = { ...rest, stop: "stopped" };
        else {
            const f = e instanceof Failure ? e : new Failure("server", String(e));
            noteFailure(f);
            rest = { ...rest, error: { kind: f.kind, message: f.message } };
        }
    }
    finish(id);
    put();
    saveTurn(turn.value);
}

const modelOf = (c: Conversation): string => c.meta.value.model || onlyModel.value;

export function chatBody(c: Conversation, turns: Turn[], more: Record<string, unknown> = {}): Record<string, unknown> {
    const m = c.meta.value;
    return { model: modelOf(c), messages: messagesOf(turns, m.system), stream: true, stream_options: { include_usage: true }, ...samplingOf(m.settings), ...formatOf(m.settings),
        ...(surprise.value ? { logprobs: true, top_logprobs: ALTERNATIVES } : {}), ...more };
}

function answer(c: Conversation, parent: string, more: Record<string, unknown> = {}, changed?: string[]): Signal<Turn> {
    const t = c.add({ parent, role: "assistant", text: "", model: modelOf(c), ...(changed ? { changed } : {}) });
    void write(t, async () => ({ path: "/v1/chat/completions", body: chatBody(c, c.upTo(parent), { ...more, ...(changed ? { intervene: changed } : {}) }) }));
    void contextOf(modelOf(c)).catch(() => undefined);
    return t;
}

export function send(c: Conversation, text: string, parent: string | null): Signal<Turn> {
    const turn = c.add({ parent, role: "user", text });
    if (!c.meta.value.title) c.change({ title: text.trim().split("\n")[0]!.slice(0, 80) });
    return answer(c, turn.value.id);
}

// Add the results of all tool calls of an answer, in their order; then the model continues.
export function answerCalls(c: Conversation, parent: string, results: { call: string; text: string }[]): void {
    let at = parent;
    for (const { call, text } of results) at = c.add({ parent: at, role: "tool", call, text }).value.id;
    answer(c, at);
}

// Generate another answer as a sibling of this one.
export function regenerate(c: Conversation, turn: Turn, changed?: string[]): Signal<Turn> | null {
    return turn.parent ? answer(c, turn.parent, {}, changed) : null;
}

// Generate an answer again in place of one that failed.
export function retry(c: Conversation, turn: Signal<Turn>): void {
    const { error: _error, stop: _stop, stats: _stats, reasoning: _reasoning, calls: _calls, tokens: _tokens, ...rest } = turn.value;
    turn.value = { ...rest, text: "" };
    void write(turn, async () => ({ path: "/v1/chat/completions", body: chatBody(c, c.upTo(rest.parent!), rest.changed ? { intervene: rest.changed } : {}) }));
}

// Return the ids of the prompt before the turn's first token.
export async function promptIds(c: Conversation, turn: Turn): Promise<number[]> {
    const model = turn.model ?? modelOf(c);
    const { prompt } = await post<{ prompt: string }>("/apply-template", { model, messages: messagesOf(c.upTo(turn.parent!), c.meta.value.system) });
    return (await post<{ tokens: number[] }>("/tokenize", { model, content: prompt })).tokens;
}

// Start a branch with the first `at` tokens of the turn, then the token `with_`, and continue from there.
export function branchAt(c: Conversation, turn: Turn, at: number, with_: { id: number; text: string; lp: number }): Signal<Turn> {
    const kept = turn.tokens!.slice(0, at), chosen = { ...turn.tokens![at]!, ...with_ };
    const prefix = [...kept, chosen];
    const t = c.add({ parent: turn.parent, role: "assistant", text: prefix.map((x) => x.text).join(""), tokens: prefix, prefix: prefix.length, ...(turn.model ? { model: turn.model } : {}) });
    void write(t, async () => {
        const ids = await promptIds(c, turn);
        const { max_tokens, max_completion_tokens, ...numbers } = samplingOf(c.meta.value.settings);
        return { path: "/completion", body: { model: turn.model ?? modelOf(c), prompt: [...ids, ...prefix.map((x) => x.id)], stream: true, n_probs: ALTERNATIVES,
            ...numbers, n_predict: max_completion_tokens ?? max_tokens ?? -1 } };
    });
    return t;
}
