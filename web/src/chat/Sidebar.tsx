import { useRef, useState } from "preact/hooks";
import { language, t } from "../i18n";
import { chatById, chats, deleteChat, exportChats, importChats, newChat, type Conversation } from "../store/chats";
import { download, Dialog, IconButton } from "../ui/parts";
import { go } from "../ui/route";

function dayOf(time: number): string {
    const days = Math.floor((new Date().setHours(24, 0, 0, 0) - time) / 86400000);
    if (days <= 0) return t("today");
    if (days === 1) return t("yesterday");
    return new Intl.DateTimeFormat(language.value, { month: "short", day: "numeric", ...(days > 300 ? { year: "numeric" } : {}) }).format(time);
}

function Entry({ c, here, ask, onGo }: { c: Conversation; here: boolean; ask: () => void; onGo: () => void }) {
    const m = c.meta.value;
    return <li>
        <a href={`#/chat/${m.id}`} dir="auto" {...(here ? { "aria-current": "page" as const } : {})} onClick={onGo}>{m.title || t("newChat")}</a>
        <IconButton icon="trash" label={t("deleteChat", { title: m.title || t("newChat") })} onClick={ask} />
    </li>;
}

export function Sidebar({ current, close }: { current: Conversation; close: () => void }) {
    const file = useRef<HTMLInputElement>(null), [dying, setDying] = useState<Conversation | null>(null), [problem, setProblem] = useState(""), [sought, setSought] = useState("");
    const shown = chats.value.filter((c) => !sought || c.meta.value.title.toLowerCase().includes(sought.toLowerCase()));
    const days = new Map<string, Conversation[]>();
    for (const c of shown) {
        const day = dayOf(c.meta.value.updated);
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
        {chats.value.length > 8 && <input type="search" aria-label={t("search")} placeholder={t("search")} value={sought} onInput={(e) => setSought(e.currentTarget.value)} />}
        <div class="days">
            {[...days].map(([day, list]) => <section key={day}>
                <h2>{day}</h2>
                <ul>{list.map((c) => <Entry key={c.meta.peek().id} c={c} here={c === current} ask={() => setDying(c)} onGo={close} />)}</ul>
            </section>)}
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
        {dying && <Dialog title={t("deleteTitle")} onClose={() => setDying(null)}>
            <p dir="auto">{dying.meta.value.title || t("newChat")}</p>
            <div class="row end"><button type="button" onClick={() => setDying(null)}>{t("cancel")}</button><button type="button" class="danger" onClick={() => remove(dying)}>{t("delete")}</button></div>
        </Dialog>}
    </nav>;
}

export const currentChat = (id: string): Conversation => chatById(id) ?? chats.value[0] ?? newChat();
