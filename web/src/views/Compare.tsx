// One prompt and several answers side by side, from different models, settings or interventions, and where they diverge.
import { signal, type Signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { Failure, post, stream } from "../api/client";
import type { ChatChunk, NativeChunk, Trace, TracePaths } from "../api/types";
import { ModelChoice } from "../chat/Chat";
import { ALTERNATIVES, formatOf, samplingOf, tokenOf } from "../chat/generate";
import { SettingsFields } from "../chat/Settings";
import { ColouredText, Legend } from "../chat/Tokens";
import { t, type Key } from "../i18n";
import { machine, models, onlyModel, tracePaths } from "../store/server";
import { plainSettings, type Settings, type Token } from "../store/types";
import { about, bits, bytes, figure, probability } from "../text/format";
import { parted as differ } from "../text/parted";
import { spelled } from "../text/visible";
import { FailureNotice } from "../ui/failure";
import { Dialog, IconButton, sends } from "../ui/parts";
import { seed } from "./compare-seed";

interface Column { key: number; model: string; intervene: string; settings: Settings }
interface Answer { text: string; tokens: Token[]; rate: number; prompt: string; done: boolean; failure: Failure | null; other: number | null }

const none: Answer = { text: "", tokens: [], rate: 0, prompt: "", done: false, failure: null, other: null };
let keys = 0;
const column = (model: string, intervene = "", like?: Settings): Column => ({ key: keys++, model, intervene, settings: like ? structuredClone(like) : { ...plainSettings(), numbers: { temperature: 0, max_tokens: 128 } } });

// The state that persists while another view is shown.
const columns = signal<Column[]>([]), prompt = signal(""), answers = signal<Record<number, Signal<Answer>>>({}), running = signal<AbortController | null>(null);

const interventions = (text: string): string[] => text.split(/[\n;]+/).map((x) => x.trim()).filter(Boolean);

async function run(c: Column, out: Signal<Answer>, text: string, abort: AbortSignal): Promise<void> {
    const model = c.model || onlyModel.value, tokens: Token[] = [];
    let said = "", due = 0;
    const put = (more: Partial<Answer> = {}): void => { due = 0; out.value = { ...out.value, text: said, tokens: tokens.slice(), ...more }; };
    try {
        const body = { model, messages: [{ role: "user", content: text }], stream: true, stream_options: { include_usage: true }, logprobs: true, top_logprobs: ALTERNATIVES, ...samplingOf(c.settings), ...formatOf(c.settings),
            ...(c.intervene.trim() ? { intervene: interventions(c.intervene) } : {}) };
        for await (const e of stream<ChatChunk & NativeChunk>("/v1/chat/completions", body, abort)) {
            said += e.choices?.[0]?.delta.content ?? "";
            for (const x of e.choices?.[0]?.logprobs?.content ?? []) tokens.push(tokenOf(x));
            if (e.timings) out.value = { ...out.value, rate: e.timings.predicted_per_second };
            due ||= requestAnimationFrame(() => put());
        }
        put({ done: true });
    } catch (e) {
        put({ done: true, failure: e instanceof Failure ? e : e instanceof DOMException ? null : new Failure("server", String(e)) });
    }
    cancelAnimationFrame(due);
}

// Return the perplexity of a text under another model: exp of the mean surprise (in nats) of its tokens as an answer to `asked`.
async function under(c: Column, text: string, asked: string): Promise<number | null> {
    const model = c.model || onlyModel.value;
    const { prompt: before } = await post<{ prompt: string }>("/apply-template", { model, messages: [{ role: "user", content: asked }] });
    const ids = async (content: string, special: boolean): Promise<number[]> => (await post<{ tokens: number[] }>("/tokenize", { model, content, parse_special: special })).tokens;
    const head = await ids(before, true), own = await ids(text, false);
    if (!own.length) return null;
    const x = await post<Trace>("/v1/trace", { model, ids: [...head, ...own], top: 0, positions: [-1], ...(c.intervene.trim() ? { intervene: interventions(c.intervene) } : {}) });
    const lost = x.tokens.slice(head.length).map((k) => -Math.log(Math.max(k.p ?? 1, 1e-30)));
    return Math.exp(lost.reduce((a, b) => a + b, 0) / lost.length);
}

async function start(): Promise<void> {
    const abort = new AbortController(), text = prompt.value, list = columns.value;
    running.value = abort;
    answers.value = Object.fromEntries(list.map((c) => [c.key, signal<Answer>({ ...none, prompt: text })]));
    await Promise.all(list.map((c) => run(c, answers.value[c.key]!, text, abort.signal)));
    running.value = null;
    const first = list[0] && answers.value[list[0].key]!;
    // The first answer is evaluated under the second model, every other answer under the first model.
    await Promise.all(list.map(async (c, i) => {
        const judge = list[i === 0 ? 1 : 0], own = answers.value[c.key]!;
        if (!judge || !own.value.text || own.value.failure || !first) return;
        const other = await under(judge, own.value.text, text).catch(() => null);
        own.value = { ...own.value, other };
    }));
}

function Shown({ c, index, remove }: { c: Column; index: number; remove: (() => void) | null }) {
    const [at, setAt] = useState<number | null>(null), [settings, setSettings] = useState(false), own = answers.value[c.key]?.value ?? none, firstColumn = columns.value[0]!, other = columns.value[index === 0 ? 1 : 0];
    const first = answers.value[firstColumn.key]?.value ?? none, rival = other ? answers.value[other.key]?.value ?? none : none;
    const parted = index === 0 ? differ(own.tokens, rival.tokens, own.done && rival.done, "text") : differ(first.tokens, own.tokens, first.done && own.done, "text");
    const change = (part: Partial<Column>): void => { columns.value = columns.value.map((x) => x.key === c.key ? { ...x, ...part } : x); };
    const x = parted === null ? undefined : own.tokens[parted], y = parted === null ? undefined : rival.tokens[parted], size = machine.value?.models.find((m) => m.id === (c.model || onlyModel.value));
    const picked = at === null ? undefined : own.tokens[at], mine = (token: Token): string => { const alt = x?.top.find((k) => k.id === token.id); return alt ? probability(Math.exp(alt.lp)) : `< ${probability(Math.exp(Math.min(...(x?.top ?? []).map((k) => k.lp))))}`; };
    const ppl = own.tokens.length ? Math.exp(own.tokens.reduce((n, k) => n - k.lp, 0) / own.tokens.length) : NaN;
    return <section class="card compare-column" aria-label={t("columnN", { n: index + 1 })}>
        <header><h2>{String.fromCharCode(65 + index)}</h2><ModelChoice label={t("modelOf", { n: String.fromCharCode(65 + index) })} value={c.model} onChange={(model) => change({ model })} /><span class="grow" />
            <IconButton icon="settings" label={t("settingsOf", { n: String.fromCharCode(65 + index) })} onClick={() => setSettings(true)} />
            {remove && <IconButton icon="close" label={t("removeColumn", { n: String.fromCharCode(65 + index) })} onClick={remove} />}</header>
        <details class="fold" open={Boolean(c.intervene)}><summary>{t("interventions")}</summary><input class="editor" aria-label={t("interventions")} placeholder="layers.5.self_attn#head3=0" spellcheck={false} value={c.intervene} onInput={(e) => change({ intervene: e.currentTarget.value })} /></details>
        {own.failure && <FailureNotice kind={own.failure.kind} message={own.failure.message} remedies={{ retry: () => { void start(); } }} />}
        {own.tokens.length > 0 ? <ColouredText text={own.text} tokens={own.tokens} chosen={at} choose={setAt} label={`${t("answer")} ${index + 1}`} {...(parted === null ? {} : { mark: parted })} /> : own.text && <p class="said">{own.text}</p>}
        {picked && <p class="help"><span class="piece">{spelled(picked.text)}</span> p {probability(Math.exp(picked.lp))} · {about(bits(picked.lp))} bit · {picked.top.slice(0, 4).map((k) => <span key={k.id}><span class="piece">{spelled(k.text)}</span> {probability(Math.exp(k.lp))} </span>)}</p>}
        {x && <p>{t("partsAt", { n: parted! + 1 })} <span class="piece">{spelled(x.text)}</span> <b>{probability(Math.exp(x.lp))}</b>{y && <>, {t("rivalHere")} <span class="piece">{spelled(y.text)}</span> <b>{mine(y)}</b></>}</p>}
        {own.done && first.done && index > 0 && parted === null && own.tokens.length > 0 && <p>{t("sameTokens")}</p>}
        {own.done && own.tokens.length > 0 && <dl class="figures">
            <div><dt>{t("tokens")}</dt><dd>{figure(own.tokens.length)}</dd></div>
            <div><dt>tok/s</dt><dd>{own.rate ? about(own.rate) : "–"}</dd></div>
            <div><dt>{t("memory")}</dt><dd>{size?.bytes ? bytes(size.bytes) : "–"}</dd></div>
            <div><dt>{t("ownPerplexity")}</dt><dd>{about(ppl)}</dd></div>
            {own.other !== null && other && <div><dt>{t("perplexityUnder", { n: index === 0 ? "B" : "A" })}</dt><dd>{about(own.other)}</dd></div>}
        </dl>}
        {settings && <Dialog title={t("settings")} onClose={() => setSettings(false)} wide><SettingsFields settings={c.settings} model={c.model || onlyModel.value} change={(part) => change({ settings: { ...columns.value.find((k) => k.key === c.key)!.settings, ...part } })} /></Dialog>}
    </section>;
}

interface Suggestion { title: string; prompt: string; columns: Column[] }

// What to compare, for a reader who has not compared anything yet.
function suggestions(layers: TracePaths["layers"]): Suggestion[] {
    const more = (numbers: Record<string, number>, other: Partial<Settings> = {}): Settings => ({ ...plainSettings(), numbers: { temperature: 0, max_tokens: 128, ...numbers }, ...other });
    const of = (title: string, prompt: Key, second: Settings, intervene = "", model = ""): Suggestion => ({ title, prompt: t(prompt), columns: [column(""), column(model, intervene, second)] });
    const middle = layers[Math.floor(layers.length / 2)], [a, b] = models.value;
    const out = [of(t("sugTemperature"), "exampleB", more({ temperature: 1.2 })), of(t("sugPenalty"), "exampleC", more({ repeat_penalty: 1.3 })), of(t("sugJson"), "exampleA", more({}, { format: "json" }))];
    if (middle) out.push(of(t("sugLayer", { n: middle.layer }), "exampleA", more({}), `${middle.attention}=0`));
    if (a && b) out.unshift({ title: `${a.id}, ${b.id}`, prompt: t("exampleA"), columns: [column(a.id), column(b.id)] });
    return out;
}

function Suggestions() {
    const [layers, setLayers] = useState<TracePaths["layers"]>([]), model = onlyModel.value || models.value[0]?.id || "";
    useEffect(() => { if (model) void tracePaths(model).then((x) => setLayers(x?.layers ?? [])); }, [model]);
    return <section class="suggestions" aria-label={t("tryThese")}>
        <h2>{t("tryThese")}</h2>
        <ul>{suggestions(layers).map((s) => <li key={s.title}><button type="button" onClick={() => { prompt.value = s.prompt; columns.value = s.columns; answers.value = {}; void start(); }}><b>{s.title}</b><span>{s.prompt}</span></button></li>)}</ul>
    </section>;
}

export function Compare() {
    useEffect(() => {
        if (seed.value) {
            prompt.value = seed.value.prompt;
            columns.value = seed.value.columns.map((x) => column(x.model, x.intervene));
            answers.value = {};
            seed.value = null;
            if (prompt.value.trim()) void start();
        } else if (!columns.value.length) columns.value = [column(""), column("")];
    }, []);
    const busy = running.value;
    return <div class="view">
        <div class="head"><h1>{t("compare")}</h1><p class="lead">{t("compareLead")}</p></div>
        <form class="row ask" onSubmit={(e) => { e.preventDefault(); if (busy) busy.abort(); else if (prompt.value.trim()) void start(); }}>
            <textarea rows={2} dir="auto" aria-label={t("message")} placeholder={t("messageHint")} value={prompt.value} onInput={(e) => { prompt.value = e.currentTarget.value; }}
                onKeyDown={(e) => { if (sends(e)) { e.preventDefault(); e.currentTarget.form!.requestSubmit(); } }} />
            <button type="submit" class="primary">{t(busy ? "stop" : "send")}</button>
            {columns.value.length < 4 && <button type="button" onClick={() => { const last = columns.value[columns.value.length - 1]!; columns.value = [...columns.value, column(last.model, "", last.settings)]; }}>{t("addColumn")}</button>}
        </form>
        {Object.keys(answers.value).length ? <Legend /> : <Suggestions />}
        <div class="columns">{columns.value.map((c, i) => <Shown key={c.key} c={c} index={i} remove={columns.value.length > 1 ? () => { columns.value = columns.value.filter((x) => x !== c); } : null} />)}</div>
    </div>;
}
