// Answers: request, stream and stop them.
import { signal, type Signal } from "@preact/signals";
import { Failure, post, stream } from "../api/client";
import type { ChatChunk, NativeChunk, TokenChoice } from "../api/types";
import { keeper } from "../inspect/traced";
import { saveTurn, type Conversation } from "../store/chats";
import { surprise, tracing } from "../store/prefs";
import { contextOf, drawsSeeds, noteFailure, onlyModel } from "../store/server";
import type { Settings, Token, Turn } from "../store/types";

// The turns that are being generated, by id, with the controllers that stop them.
export const writing = signal<ReadonlyMap<string, AbortController>>(new Map());
export const ALTERNATIVES = 8;
// What the inspector shows of a token, without attention, which is too large to come with each token of an answer.
export const INSIDE = { lens: 3, attribution: true, norms: true, experts: true };

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

interface Ask { path: string; body: Record<string, unknown> }

// Fill `turn` with the response to `ask`. Never throws: a failure becomes part of the turn.
async function write(turn: Signal<Turn>, ask: () => Promise<Ask>): Promise<void> {
    const id = turn.value.id, already = turn.value.stats?.tokens ?? 0, began = performance.now(), abort = begin(id);
    let text = turn.value.text, reasoning = turn.value.reasoning ?? "", first = 0, saved = began;
    const tokens = [...(turn.value.tokens ?? [])], calls = [...(turn.value.calls ?? [])];
    let rest: Partial<Turn> = {}, many = 0, traced = false;
    const put = (): void => {
        turn.value = { ...turn.value, text, ...(reasoning ? { reasoning } : {}), ...(tokens.length ? { tokens: tokens.slice() } : {}), ...(calls.length ? { calls: calls.slice() } : {}), ...rest };
    };
    const flusher = new Flusher(() => {
        if (!writing.value.has(id)) return;
        put();
        if (performance.now() - saved > 2000) { saved = performance.now(); saveTurn(turn.value); }
    });
    const stats = (prompt: number, cached: number, count: number, thought: number, rate: number): void => {
        rest = { ...rest, stats: { prompt: prompt - already, cached, tokens: already + count, reasoning: thought, rate, first } };
    };
    try {
        const { path, body } = await ask(), keep = keeper(id, tokens.length);
        traced = "trace" in body;
        if (traced) rest = { traced };
        for await (const c of stream<ChatChunk & NativeChunk>(path, body, abort.signal)) {
            if (c.warnings) rest = { ...rest, warnings: c.warnings };
            if (c.trace) { keep(c.trace); continue; }
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

// Return the settings with a seed, so that the answer can be given again with a change in the model as the only difference. A default seed of
// the server has the same effect and is left to it.
function seeded(numbers: Record<string, number>, model: string): Record<string, number> {
    return (numbers["seed"] ?? -1) === -1 && drawsSeeds(model) ? { ...numbers, seed: Math.floor(Math.random() * 2 ** 31) } : numbers;
}

// The fields for what is returned in addition to the text, and for changes in the model.
const extras = (changed: string[] | undefined): Record<string, unknown> =>
    ({ ...(surprise.value && tracing.value ? { trace: { ...INSIDE, surprise: false } } : {}), ...(changed ? { intervene: changed } : {}) });

// Return the request for the answer `t`, by what it has: its model, sampling settings, interventions, and tokens to continue from.
async function askOf(c: Conversation, t: Turn, more = false): Promise<Ask> {
    const m = c.meta.value, settings = { ...m.settings, numbers: t.numbers ?? m.settings.numbers };
    if (t.prefix && !more) {
        const ids = await promptIds(c, t), { max_tokens, max_completion_tokens, ...numbers } = samplingOf(settings);
        return { path: "/completion", body: { model: t.model, prompt: [...ids, ...t.tokens!.slice(0, t.prefix).map((x) => x.id)], stream: true, n_probs: ALTERNATIVES,
            ...numbers, n_predict: max_completion_tokens ?? max_tokens ?? -1, ...extras(t.changed) } };
    }
    return { path: "/v1/chat/completions", body: { model: t.model, messages: messagesOf(more ? c.upTo(t.id) : c.upTo(t.parent!), m.system), stream: true, stream_options: { include_usage: true }, ...samplingOf(settings),
        ...formatOf(settings), ...(more ? { continue_final_message: true, add_generation_prompt: false } : {}), ...(surprise.value && (!more || t.tokens) ? { logprobs: true, top_logprobs: ALTERNATIVES } : {}), ...extras(t.changed) } };
}

function answer(c: Conversation, parent: string | null, like: Partial<Turn> = {}): Signal<Turn> {
    const model = like.model ?? modelOf(c), t = c.add({ text: "", ...like, parent, role: "assistant", model, numbers: like.numbers ?? seeded(c.meta.value.settings.numbers, model) });
    void write(t, () => askOf(c, t.value));
    void contextOf(model).catch(() => undefined);
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
export function regenerate(c: Conversation, turn: Turn): Signal<Turn> | null {
    return turn.parent ? answer(c, turn.parent) : null;
}

// What remains of an answer that is generated anew.
function beginning(turn: Turn): Partial<Turn> {
    const tokens = turn.tokens?.slice(0, turn.prefix ?? 0);
    return tokens?.length ? { text: tokens.map((x) => x.text).join(""), tokens, prefix: tokens.length } : { text: "" };
}

// Generate the answer again, with a change in the model as the only difference.
export function changedAnswer(c: Conversation, turn: Turn, change: string): Signal<Turn> | null {
    const { model, numbers } = turn;
    return turn.parent ? answer(c, turn.parent, { ...beginning(turn), ...(model ? { model } : {}), ...(numbers ? { numbers } : {}), changed: [...turn.changed ?? [], change], from: turn.id }) : null;
}

// Generate an answer again in place of one that failed, with the settings as they are now.
export function retry(c: Conversation, turn: Signal<Turn>): void {
    const { error: _error, stop: _stop, stats: _stats, reasoning: _reasoning, calls: _calls, tokens: _tokens, prefix: _prefix, traced: _traced, warnings: _warnings, ...rest } = turn.value;
    turn.value = { ...rest, ...beginning(turn.value), numbers: (rest.from ? rest.numbers : undefined) ?? seeded(c.meta.value.settings.numbers, rest.model ?? modelOf(c)) };
    void write(turn, () => askOf(c, turn.value));
}

// Whether an answer ended before its end, and the rest can be asked for. What a schema or grammar constrains begins anew, and is not continued.
export const endsEarly = (c: Conversation, t: Turn): boolean =>
    t.role === "assistant" && Boolean(t.text && t.parent) && !t.calls?.length && t.stop !== "stop" && c.meta.value.settings.format === "text";

// Continue an answer where it was stopped, with the settings as they are now. Tokens are kept if those of the rest come too.
export function continueAnswer(c: Conversation, turn: Signal<Turn>): void {
    const { error: _error, stop: _stop, tokens, ...rest } = turn.value;
    turn.value = { ...rest, ...(surprise.value && tokens ? { tokens } : {}), numbers: seeded(c.meta.value.settings.numbers, rest.model ?? modelOf(c)) };
    void write(turn, () => askOf(c, turn.value, true));
}

// Return the ids of the prompt before the turn's first token.
export async function promptIds(c: Conversation, turn: Turn): Promise<number[]> {
    const model = turn.model ?? modelOf(c), { settings, system } = c.meta.value, { tools } = settings.format === "text" ? formatOf(settings) : {};
    const { prompt } = await post<{ prompt: string }>("/apply-template", { model, messages: messagesOf(c.upTo(turn.parent!), system), ...(tools ? { tools } : {}) });
    return (await post<{ tokens: number[] }>("/tokenize", { model, content: prompt })).tokens;
}

// Start a branch with the first `at` tokens of the turn, then the token `with_`, and continue from there.
export function branchAt(c: Conversation, turn: Turn, at: number, with_: { id: number; text: string; lp: number }): Signal<Turn> {
    const tokens = [...turn.tokens!.slice(0, at), { ...turn.tokens![at]!, ...with_ }], { model, changed } = turn;
    return answer(c, turn.parent, { ...beginning({ ...turn, tokens, prefix: tokens.length }), ...(model ? { model } : {}), ...(changed ? { changed } : {}) });
}
