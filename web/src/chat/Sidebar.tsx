import { useEffect, useRef, useState } from "preact/hooks";
import { language, t } from "../i18n";
import { asMarkdown, chats, deleteChat, exportChats, importChats, newChat, type Conversation } from "../store/chats";
import { found, search, show, type Match, type Matches } from "../store/search";
import { visible } from "../text/visible";
import { Confirm, download, Icon, IconButton, sends } from "../ui/parts";
import { go } from "../ui/route";

function dayOf(time: number): string {
    const days = Math.floor((new Date().setHours(24, 0, 0, 0) - time) / 86400000);
    if (days <= 0) return t("today");
    if (days === 1) return t("yesterday");
    return new Intl.DateTimeFormat(language.value, { month: "short", day: "numeric", ...(days > 300 ? { year: "numeric" } : {}) }).format(time);
}

const saveMarkdown = async (c: Conversation): Promise<void> => {
    const text = await asMarkdown(c, { user: t("you"), assistant: t("model"), tool: t("toolResult"), system: t("system"), reasoning: t("reasoning"), call: t("toolCall") });
    download(`${c.meta.peek().title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "chat"}.md`, "text/markdown", text);
};

function Hits({ c, matches, onGo }: { c: Conversation; matches: Match[]; onGo: () => void }) {
    const open = (turn: string) => (e: MouseEvent): void => { e.preventDefault(); void show(c, turn).then(() => { go(`chat/${c.meta.peek().id}`); onGo(); }); };
    return <ul class="hits">{matches.map((m) => <li key={m.turn}><a href={`#/chat/${c.meta.peek().id}`} dir="auto" onClick={open(m.turn)}>{visible(m.before)}<mark>{visible(m.match)}</mark>{visible(m.after)}</a></li>)}</ul>;
}

function Entry({ c, here, ask, onGo, matches }: { c: Conversation; here: boolean; ask: () => void; onGo: () => void; matches: Match[] | undefined }) {
    const m = c.meta.value, title = m.title || t("newChat"), [renaming, setRenaming] = useState(false), menu = useRef<HTMLDetailsElement>(null);
    const rename = (to: string): void => { setRenaming(false); if (to.trim()) c.change({ title: to.trim().slice(0, 200) }); };
    const item = (label: string, work: () => void) => <button type="button" onClick={() => { menu.current!.open = false; work(); }}>{label}</button>;
    if (renaming) return <li><input class="grow" dir="auto" aria-label={t("rename")} defaultValue={m.title} ref={(x) => { if (x && document.activeElement !== x) { x.focus(); x.select(); } }} onBlur={(e) => rename(e.currentTarget.value)}
        onKeyDown={(e) => { if (sends(e)) rename(e.currentTarget.value); else if (e.key === "Escape") setRenaming(false); }} /></li>;
    return <li>
        <a href={`#/chat/${m.id}`} dir="auto" title={title} {...(here ? { "aria-current": "page" as const } : {})} onClick={onGo}>{title}</a>
        <details class="menu" ref={menu} onFocusOut={(e) => { if (!e.currentTarget.contains(e.relatedTarget as Node | null)) e.currentTarget.open = false; }} onKeyDown={(e) => { if (e.key === "Escape") e.currentTarget.open = false; }}>
            <summary class="icon-button" aria-label={t("optionsOf", { title })}><Icon name={m.pinned ? "pin" : "more"} /></summary>
            <div>{item(t("rename"), () => setRenaming(true))}{item(t(m.pinned ? "unpin" : "pin"), () => c.change({ pinned: !m.pinned }))}{item(t("saveMarkdown"), () => { void saveMarkdown(c); })}{item(t("delete"), ask)}</div>
        </details>
        {matches && <Hits c={c} matches={matches} onGo={onGo} />}
    </li>;
}

const none: Matches = { of: new Map(), partial: false };

// Search messages a moment after the last key.
function useMatches(sought: string): Matches {
    const [matches, setMatches] = useState(none);
    useEffect(() => {
        let waits = true;
        const timer = setTimeout(() => { void search(sought, () => waits).then((m) => { if (waits) setMatches(m); }); }, sought.trim() ? 150 : 0);
        return () => { waits = false; clearTimeout(timer); };
    }, [sought]);
    return sought.trim() ? matches : none;
}

export function Sidebar({ current, close }: { current: Conversation; close: () => void }) {
    const file = useRef<HTMLInputElement>(null), [dying, setDying] = useState<Conversation | null>(null), [problem, setProblem] = useState(""), [sought, setSought] = useState("");
    const { of: matches, partial } = useMatches(sought), title = sought.trim().toLowerCase();
    const shown = chats.value.filter((c) => !title || matches.has(c) || c.meta.value.title.toLowerCase().includes(title));
    const days = new Map<string, Conversation[]>(shown.some((c) => c.meta.value.pinned) ? [[t("pinned"), []]] : []);
    for (const c of shown) {
        const day = c.meta.value.pinned ? t("pinned") : dayOf(c.meta.value.updated);
        (days.get(day) ?? days.set(day, []).get(day)!).push(c);
    }
    const remove = (c: Conversation): void => {
        deleteChat(c);
        setDying(null);
        if (c === current) go(`chat/${(chats.value[0] ?? newChat(c.meta.value)).meta.value.id}`);
    };
    return <nav class="sidebar" aria-label={t("chats")}>
        <div class="row">
            <IconButton icon="plus" text label={t("newChat")} class="grow bordered" onClick={() => { go(`chat/${newChat(current.meta.value).meta.value.id}`); close(); }} />
            <IconButton icon="close" label={t("close")} onClick={close} class="only-narrow" />
        </div>
        <input type="search" aria-label={t("search")} placeholder={t("search")} value={sought} onInput={(e) => { setSought(e.currentTarget.value); if (!e.currentTarget.value.trim()) found.value = null; }} />
        <div class="days">
            {[...days].map(([day, list]) => <section key={day}>
                <h2>{day}</h2>
                <ul>{list.map((c) => <Entry key={c.meta.peek().id} c={c} here={c === current} matches={matches.get(c)} ask={() => setDying(c)} onGo={close} />)}</ul>
            </section>)}
            {title && !shown.length && <p class="help" role="status">{t("searchNone")}</p>}
            {partial && <p class="help">{t("searchPartial")}</p>}
        </div>
        <div class="row foot">
            <button type="button" class="quiet" onClick={() => { void exportChats(chats.value).then((text) => download("lamina-chats.json", "application/json", text)); }}>{t("export")}</button>
            <button type="button" class="quiet" onClick={() => file.current!.click()}>{t("import")}</button>
            <input ref={file} type="file" accept="application/json,.json" hidden tabIndex={-1} aria-hidden="true" onChange={(e) => {
                const input = e.currentTarget;
                void input.files?.[0]?.text().then((text) => {
                    try { importChats(text); setProblem(""); } catch { setProblem(t("importBad")); }
                    input.value = "";
                });
            }} />
        </div>
        {problem && <p class="problem" role="alert">{problem}</p>}
        {dying && <Confirm title={t("deleteTitle")} text={dying.meta.value.title || t("newChat")} onYes={() => remove(dying)} onNo={() => setDying(null)} />}
    </nav>;
}
