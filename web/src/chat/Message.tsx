import type { Signal } from "@preact/signals";
import { useState } from "preact/hooks";
import { t } from "../i18n";
import { writing, answerCalls, continueAnswer, endsEarly, regenerate, retry, send } from "./generate";
import { newChat, type Conversation } from "../store/chats";
import { found } from "../store/search";
import { surprise, tracing } from "../store/prefs";
import { contexts } from "../store/server";
import { SideBySide } from "../inspect/SideBySide";
import type { Call, Turn } from "../store/types";
import { about, figure, seconds } from "../text/format";
import { Markdown } from "../text/Markdown";
import { visible } from "../text/visible";
import { FailureNotice } from "../ui/failure";
import { Confirm, IconButton, sends } from "../ui/parts";
import { go } from "../ui/route";
import { Measure } from "./Measure";
import { picked } from "./picked";
import { ColouredText } from "./Tokens";

function Branches({ c, turn }: { c: Conversation; turn: Turn }) {
    const all = c.children(turn.parent), at = all.findIndex((x) => x.peek().id === turn.id);
    if (all.length < 2) return null;
    const to = (i: number): void => { c.choose(all[(i + all.length) % all.length]!.peek()); };
    return <span class="branches">
        <IconButton icon="left" label={t("branchBefore")} onClick={() => to(at - 1)} />
        <span class="count" aria-label={t("branchOf", { at: at + 1, of: all.length })}>{at + 1}/{all.length}</span>
        <IconButton icon="right" label={t("branchAfter")} onClick={() => to(at + 1)} />
    </span>;
}

function Stats({ turn }: { turn: Turn }) {
    const s = turn.stats;
    if (!s) return null;
    const context = contexts.value[turn.model ?? ""] ?? 0, left = context - s.prompt - s.tokens;
    const why = turn.stop === "length" ? t("stopLength") : turn.stop === "stopped" ? t("stopStopped") : turn.stop === "tool_calls" ? t("stopCalls") : "";
    return <p class="stats">
        <span>{t("nTokens", { n: figure(s.tokens) })}</span>
        {s.rate > 0 && <span>{about(s.rate)} tok/s</span>}
        {s.first > 0 && <span>{t("firstAfter", { time: seconds(s.first / 1000) })}</span>}
        {s.cached > 0 && <span>{t("fromCache", { n: figure(s.cached), of: figure(s.prompt) })}</span>}
        {context > 0 && <span>{t("contextLeft", { n: figure(Math.max(0, left)) })}</span>}
        {turn.traced && <span>{t("traced")}</span>}
        {why && <span>{why}</span>}
    </p>;
}

function Calls({ c, turn, calls, last }: { c: Conversation; turn: Turn; calls: Call[]; last: boolean }) {
    return <>
        {calls.map((call, i) => <details class="fold" key={i}>
            <summary>{t("toolCall")} <code>{visible(call.name)}</code></summary>
            <pre tabIndex={0}>{visible(pretty(call.args))}</pre>
        </details>)}
        {last && <form class="results" onSubmit={(e) => {
            e.preventDefault();
            const said = new FormData(e.currentTarget);
            answerCalls(c, turn.id, calls.map((call, i) => ({ call: call.id, text: String(said.get(String(i))) })));
        }}>
            {calls.map((call, i) => <label key={i}><span>{t("toolResult")} <code>{visible(call.name)}</code></span><input name={String(i)} required /></label>)}
            <button type="submit">{t("send")}</button>
        </form>}
    </>;
}

const pretty = (json: string): string => { try { return JSON.stringify(JSON.parse(json), null, 2); } catch { return json; } };

function Edit({ c, turn, done }: { c: Conversation; turn: Turn; done: () => void }) {
    const [text, setText] = useState(turn.text);
    return <form class="edit" onSubmit={(e) => { e.preventDefault(); if (!text.trim()) return; done(); if (turn.role === "user") send(c, text, turn.parent); else c.add({ parent: turn.parent, role: "assistant", text, stop: "stop", ...(turn.model ? { model: turn.model } : {}) }); }}>
        <textarea dir="auto" aria-label={t("edit")} rows={Math.min(12, text.split("\n").length + 1)} value={text} onInput={(e) => setText(e.currentTarget.value)}
            onKeyDown={(e) => { if (e.key === "Escape") done(); else if (sends(e)) { e.preventDefault(); e.currentTarget.form!.requestSubmit(); } }} ref={(x) => { if (x && document.activeElement !== x) x.focus(); }} />
        <div class="row end"><button type="button" onClick={done}>{t("cancel")}</button><button type="submit" class="primary" disabled={!text.trim()}>{t(turn.role === "user" ? "sendBranch" : "saveBranch")}</button></div>
    </form>;
}

// Format an answer that is one JSON document as a code block.
const asJson = (text: string): string => {
    if (!/^\s*[{[]/.test(text)) return text;
    try { return `\`\`\`json\n${JSON.stringify(JSON.parse(text), null, 2)}\n\`\`\``; } catch { return text; }
};

function Body({ c, turn, busy, first }: { c: Conversation; turn: Turn; busy: boolean; first: Turn | undefined }) {
    if (surprise.value && first?.tokens?.length && (busy || turn.tokens?.length)) return <SideBySide turn={turn} first={first} />;
    if (surprise.value && turn.role === "assistant" && turn.tokens?.length) {
        const here = picked.value?.turn === turn.id ? picked.value.at : null;
        return <ColouredText text={turn.text} tokens={turn.tokens} chosen={here} label={t("tokensOf", { n: turn.tokens.length })}
            choose={(at) => { picked.value = at === null ? null : { chat: c.meta.peek().id, turn: turn.id, at }; }} {...(turn.prefix ? { mark: turn.prefix - 1 } : {})} />;
    }
    return <>
        {surprise.value && turn.role === "assistant" && !busy && turn.text && <Measure key={turn.id} c={c} turn={turn} />}
        {turn.text ? <Markdown key={turn.id} text={busy ? turn.text : asJson(turn.text)} growing={busy} /> : busy && !turn.reasoning && <p class="waiting"><span class="dots" aria-hidden="true" />{t("waiting")}</p>}
    </>;
}

export function Message({ c, turn: s, last }: { c: Conversation; turn: Signal<Turn>; last: boolean }) {
    const turn = s.value, busy = writing.value.has(turn.id), first = turn.from ? c.turns.get(turn.from)?.value : undefined, [editing, setEditing] = useState(false), [copied, setCopied] = useState(false), [dying, setDying] = useState(false);
    const name = turn.role === "user" ? t("you") : turn.role === "tool" ? t("toolResult") : turn.model || t("model");
    const copy = (): void => {
        void navigator.clipboard?.writeText(turn.text).then(() => { setCopied(true); setTimeout(() => setCopied(false), 1500); }).catch(() => undefined);
    };
    const again = (): void => { c.meta.peek().id && newChatFrom(c); };
    return <article class={`message ${turn.role}${found.value === turn.id ? " found" : ""}`} aria-label={name} aria-busy={busy}>
        <header>
            <h2 dir="auto">{visible(name)}</h2>
            {turn.changed?.map((x) => <code class="changed" key={x} title={t("changedBy")}>{x}</code>)}
            <span class="tools">
                <Branches c={c} turn={turn} />
                {!busy && turn.role === "assistant" && turn.parent && <IconButton icon="retry" label={t("regenerate")} onClick={() => { regenerate(c, turn); }} />}
                {!busy && turn.role !== "tool" && <IconButton icon="edit" label={t("edit")} onClick={() => setEditing(true)} />}
                {!busy && turn.text && <IconButton icon="copy" label={copied ? t("copied") : t("copy")} onClick={copy} />}
                {!busy && <IconButton icon="trash" label={t("deleteMessage")} onClick={() => setDying(true)} />}
            </span>
        </header>
        {editing ? <Edit c={c} turn={turn} done={() => setEditing(false)} /> : <>
            {turn.reasoning && <details class="fold"><summary>{t("reasoning")}{busy && !turn.text ? " …" : ""}</summary><Markdown text={turn.reasoning} growing={busy} /></details>}
            {turn.role === "user" || turn.role === "tool" ? <div class="said" dir="auto">{visible(turn.text)}</div> : <Body c={c} turn={turn} busy={busy} first={first} />}
            {turn.calls && !busy && <Calls c={c} turn={turn} calls={turn.calls} last={last} />}
            {turn.error && <FailureNotice kind={turn.error.kind} message={turn.error.message} remedies={{ retry: () => retry(c, s), shorten: again, settings: () => { location.hash = `#/chat/${c.meta.peek().id}/settings`; },
                ...(turn.traced ? { untraced: () => { tracing.value = false; retry(c, s); } } : {}), ...(first ? { first: () => c.choose(first) } : {}),
                choose: () => { document.querySelector<HTMLSelectElement>("select.model, .model select")?.focus(); } }} />}
            {turn.warnings?.map((w) => <p class="warning" key={w}>{visible(w)}</p>)}
            <Stats turn={turn} />
            {last && !busy && endsEarly(c, turn) && <p><button type="button" onClick={() => continueAnswer(c, s)}>{t("continue")}</button></p>}
        </>}
        {dying && <Confirm title={t("deleteMessageTitle")} text={turn.text.slice(0, 400)} onYes={() => { setDying(false); if (picked.value?.turn === turn.id) picked.value = null; c.remove(turn); }} onNo={() => setDying(false)} />}
    </article>;
}

// Open a new chat with the same settings and the last question as its draft, so that no input is lost.
function newChatFrom(c: Conversation): void {
    const asked = c.path().map((x) => x.peek()).filter((x) => x.role === "user").pop();
    const next = newChat(c.meta.peek());
    next.change({ draft: asked?.text ?? "" });
    go(`chat/${next.meta.peek().id}`);
}
