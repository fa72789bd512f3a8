import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { t, type Key } from "../i18n";
import { Inspector } from "../inspect/Inspector";
import { saveTurn, type Conversation } from "../store/chats";
import { found, seeking } from "../store/search";
import { lastChat, sidebar, surprise, tracing } from "../store/prefs";
import { contextOf, models, onlyModel } from "../store/server";
import { attached, textOf } from "../text/attached";
import { IconButton, sends, Switch } from "../ui/parts";
import { address, go, rest } from "../ui/route";
import { send, stop, writing } from "./generate";
import { Message } from "./Message";
import { picked } from "./picked";
import { SettingsDialog } from "./Settings";
import { Sidebar } from "./Sidebar";
import { Legend } from "./Tokens";

export function ModelChoice({ value, onChange, label }: { value: string; onChange: (id: string) => void; label?: string }) {
    const list = models.value, shown = value || onlyModel.value;
    return <span class="field model">
        <label class="hidden" for={`model-${label ?? "chat"}`}>{label ?? t("model")}</label>
        <select id={`model-${label ?? "chat"}`} value={shown} onChange={(e) => onChange(e.currentTarget.value)}>
            {!list.some((m) => m.id === shown) && <option value={shown}>{shown || t("chooseModel")}</option>}
            {list.map((m) => <option key={m.id} value={m.id}>{m.id}{m.status.value === "loaded" || list.length === 1 ? "" : ` (${t(m.status.value === "loading" ? "stateLoading" : m.status.value === "failed" ? "stateFailed" : "stateUnloaded")})`}</option>)}
        </select>
    </span>;
}

function Composer({ c, parent, busy }: { c: Conversation; parent: string | null; busy: string | null }) {
    const box = useRef<HTMLTextAreaElement>(null), file = useRef<HTMLInputElement>(null), [problem, setProblem] = useState(""), draft = c.meta.value.draft;
    useLayoutEffect(() => {
        const b = box.current!;
        b.style.height = "auto";
        b.style.height = `${Math.min(b.scrollHeight + 2, innerHeight * 0.4)}px`;
    }, [draft, c]);
    const submit = (): void => {
        const text = c.meta.peek().draft;
        if (!text.trim() || busy) return;
        c.change({ draft: "" });
        send(c, text, parent);
    };
    const attach = async (files: FileList | null): Promise<void> => {
        setProblem("");
        for (const f of files ?? []) {
            const text = f.size > LARGEST ? null : await textOf(f);
            if (text === null) setProblem(t("attachBad", { name: f.name, n: LARGEST / 1e6 }));
            else c.change({ draft: `${c.meta.peek().draft}${c.meta.peek().draft.trim() ? "\n" : ""}${attached(f.name, text)}` });
        }
        file.current!.value = "";
        box.current!.focus();
    };
    return <>
    {problem && <p class="problem composing" role="alert">{problem}</p>}
    <form class="composer" onSubmit={(e) => { e.preventDefault(); submit(); }}>
        <IconButton icon="attach" label={t("attach")} onClick={() => file.current!.click()} />
        <input ref={file} type="file" multiple hidden tabIndex={-1} aria-hidden="true" onChange={(e) => { void attach(e.currentTarget.files); }} />
        <textarea ref={box} rows={1} dir="auto" aria-label={t("message")} placeholder={t("messageHint")} value={draft}
            onInput={(e) => c.change({ draft: e.currentTarget.value })}
            onKeyDown={(e) => { if (sends(e)) { e.preventDefault(); submit(); } }} />
        {busy ? <IconButton icon="stop" label={t("stop")} onClick={() => stop(busy)} class="primary" />
            : <button type="submit" class="icon-button primary" aria-label={t("send")} title={t("send")} disabled={!draft.trim()}><svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d="M8 13V3M4 7l4-4 4 4" /></svg></button>}
    </form></>;
}

const LARGEST = 2e6;                     // bytes of an attached file
const examples: Key[] = ["exampleA", "exampleB", "exampleC", "exampleD"];

function Empty({ c }: { c: Conversation }) {
    const name = c.meta.value.model || onlyModel.value;
    return <div class="empty"><h2 dir="auto">{name || t("chooseModel")}</h2><p>{t("emptyChat")}</p>
        <ul class="examples">{examples.map((key) => <li key={key}><button type="button" onClick={() => { send(c, t(key), null); }}>{t(key)}</button></li>)}</ul></div>;
}

export function Chat({ c }: { c: Conversation }) {
    const list = useRef<HTMLDivElement>(null), bottom = useRef(true), held = useRef(false), top = useRef(0), [away, setAway] = useState(false);
    const settings = rest.value.endsWith("/settings"), id = c.meta.value.id;
    // Each chat has an address, also when none was asked for.
    useEffect(() => { if (rest.value.split("/")[0] !== id) { history.replaceState(null, "", `#/chat/${id}`); address.value = `chat/${id}`; } }, [c, rest.value]);
    useEffect(() => { void c.load(); lastChat.value = id; picked.value = null; }, [c]);
    useEffect(() => { const m = c.meta.value.model || onlyModel.value; if (m) void contextOf(m).catch(() => undefined); }, [c, c.meta.value.model, onlyModel.value]);
    useEffect(() => {
        const save = (): void => {
            c.saveNow();
            for (const turn of writing.peek().keys()) { const s = c.turns.get(turn); if (s) saveTurn(s.peek()); }
        };
        addEventListener("pagehide", save);
        return () => removeEventListener("pagehide", save);
    }, [c]);
    void c.shape.value;
    const path = c.path(), last = path[path.length - 1], lastId = last?.value.id ?? null, busy = lastId && writing.value.has(lastId) ? lastId : null;
    // Keep the end visible while it grows, unless the reader has scrolled away from it. A new message is always brought into view.
    useLayoutEffect(() => { if (busy) bottom.current = true; }, [lastId, Boolean(busy)]);
    const toEnd = (): void => { const l = list.current; if (l) { l.scrollTop = l.scrollHeight; top.current = l.scrollTop; } };
    // A message that was found is kept in view until the reader scrolls.
    const sought = seeking.value && path.some((x) => x.peek().id === found.peek());
    const toFound = (): void => { list.current?.querySelector(".found")?.scrollIntoView({ block: "start" }); top.current = list.current?.scrollTop ?? 0; };
    useLayoutEffect(() => { if (busy) held.current = false; else if (sought) { held.current = true; bottom.current = seeking.value = false; } }, [sought, busy]);
    const follow = (): void => { if (held.current) toFound(); else if (bottom.current) toEnd(); };
    useLayoutEffect(follow);
    // Also while a long text is rendered in steps, and when messages out of view turn out to be longer than estimated.
    useEffect(() => {
        const l = list.current!, watch = new ResizeObserver(follow);
        for (const message of l.children) watch.observe(message);
        return () => watch.disconnect();
    }, [c, path.length, lastId]);
    // Only upwards is away: a text that grows leaves the end behind until it is scrolled to again.
    const onScroll = (): void => {
        if (held.current) return;
        const l = list.current!, near = l.scrollHeight - l.scrollTop - l.clientHeight < 60;
        if (near || l.scrollTop < top.current) bottom.current = near;
        top.current = l.scrollTop;
        setAway(!bottom.current);
    };
    const release = (): void => { held.current = false; };
    const open = sidebar.value, p = picked.value, chosen = p && p.chat === id ? c.turns.get(p.turn) : undefined;
    return <div class={`chat ${open ? "with-sidebar" : ""} ${chosen ? "with-inspector" : ""}`}>
        {open && <><div class="shade only-narrow" onClick={() => { sidebar.value = false; }} /><Sidebar current={c} close={() => { if (innerWidth < 800) sidebar.value = false; }} /></>}
        <div class="talk">
            <h1 class="hidden">{c.meta.value.title || t("newChat")}</h1>
            <div class="bar">
                <IconButton icon="menu" label={t("chats")} expanded={open} onClick={() => { sidebar.value = !open; }} />
                <ModelChoice value={c.meta.value.model} onChange={(model) => c.change({ model })} />
                <span class="grow" />
                <Switch label={t("surprise")} on={surprise.value} title={t("hSurprise")} onChange={(on) => { surprise.value = on; if (!on) picked.value = null; }} />
                <IconButton icon="settings" label={t("settings")} onClick={() => go(`chat/${id}/settings`)} />
            </div>
            {surprise.value && <div class="legend-row"><Legend /><Switch label={t("tracing")} on={tracing.value} title={t("hTracing")} onChange={(on) => { tracing.value = on; }} /></div>}
            <div class="messages" ref={list} onScroll={onScroll} onWheel={release} onTouchMove={release} onPointerDown={release} onKeyDown={release} tabIndex={0} role="log" aria-label={t("conversation")} aria-live="off">
                {path.length ? path.map((turn) => <Message key={turn.peek().id} c={c} turn={turn} last={turn === last} />) : <Empty c={c} />}
            </div>
            {away && busy && <button type="button" class="to-end" onClick={() => { bottom.current = true; toEnd(); }}>{t("toEnd")} ↓</button>}
            <Composer c={c} parent={lastId} busy={busy} />
        </div>
        {chosen && p && <Inspector key={p.turn} c={c} turn={chosen} at={p.at} />}
        {settings && <SettingsDialog c={c} onClose={() => go(`chat/${id}`)} />}
    </div>;
}
