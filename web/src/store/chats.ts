// All conversations: their stored data, and which messages are shown.
import { batch, signal, type Signal } from "@preact/signals";
import { attached } from "../text/attached";
import { allChats, putChat, putTurn, removeChat, removeTurn, turnsOf } from "./db";
import { isObject, readExport } from "./imports";
import { plainSettings, type ChatMeta, type Turn } from "./types";

export const newId = (): string => crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");

export class Conversation {
    readonly meta: Signal<ChatMeta>;
    readonly turns = new Map<string, Signal<Turn>>();
    readonly shape = signal(0);          // incremented when turns are added or another branch is chosen
    readonly loaded = signal(false);
    private saving = 0;

    constructor(meta: ChatMeta) {
        this.meta = signal(meta);
    }

    async load(): Promise<void> {
        if (this.loaded.value) return;
        for (const t of await turnsOf(this.meta.value.id)) if (!this.turns.has(t.id)) this.turns.set(t.id, signal(t));
        batch(() => { this.loaded.value = true; this.shape.value++; });
    }

    change(part: Partial<ChatMeta>): void {
        this.meta.value = { ...this.meta.value, ...part };
        clearTimeout(this.saving);
        this.saving = window.setTimeout(() => { this.saveNow(); }, 250);
    }

    saveNow(): void {
        clearTimeout(this.saving);
        void putChat(this.meta.value).catch(() => undefined);
    }

    children(parent: string | null): Signal<Turn>[] {
        return [...this.turns.values()].filter((t) => t.peek().parent === parent).sort((a, b) => a.peek().created - b.peek().created);
    }

    // Return the shown messages from the first to the last.
    path(): Signal<Turn>[] {
        const out: Signal<Turn>[] = [], byParent = new Map<string, Signal<Turn>[]>();
        for (const t of this.turns.values()) {
            const key = t.peek().parent ?? "";
            (byParent.get(key) ?? byParent.set(key, []).get(key)!).push(t);
        }
        let at = "";
        for (;;) {
            const list = byParent.get(at);
            if (!list?.length) return out;
            const wanted = this.meta.peek().chosen[at];
            const next = list.find((t) => t.peek().id === wanted) ?? list.reduce((a, b) => a.peek().created > b.peek().created ? a : b);
            out.push(next);
            at = next.peek().id;
        }
    }

    // Return all messages up to and including this one.
    upTo(id: string): Turn[] {
        const out: Turn[] = [];
        for (let t = this.turns.get(id)?.peek(); t; t = t.parent ? this.turns.get(t.parent)?.peek() : undefined) out.unshift(t);
        return out;
    }

    add(turn: Omit<Turn, "id" | "chat" | "created">): Signal<Turn> {
        const t = signal<Turn>({ ...turn, id: newId(), chat: this.meta.value.id, created: Date.now() + this.turns.size / 1000 });
        batch(() => {
            this.turns.set(t.value.id, t);
            this.choose(t.value);
            this.change({ updated: Date.now() });
        });
        void putTurn(t.value).catch(() => undefined);
        return t;
    }

    // Delete one message. Those that follow it follow the one before it.
    remove(t: Turn): void {
        batch(() => {
            this.turns.delete(t.id);
            for (const child of this.turns.values()) if (child.peek().parent === t.id) { child.value = { ...child.peek(), parent: t.parent }; saveTurn(child.peek()); }
            const { [t.id]: next, ...chosen } = this.meta.peek().chosen, here = t.parent ?? "";
            if (chosen[here] === t.id) { if (next) chosen[here] = next; else delete chosen[here]; }
            this.change({ chosen });
            this.shape.value++;
        });
        void removeTurn(t.id).catch(() => undefined);
    }

    choose(t: Turn): void {
        batch(() => {
            this.change({ chosen: { ...this.meta.value.chosen, [t.parent ?? ""]: t.id } });
            this.shape.value++;
        });
    }
}

export const saveTurn = (t: Turn): void => { void putTurn(t).catch(() => undefined); };

export const chats = signal<Conversation[]>([]);
export const ready = signal(false);
const find = (id: string): Conversation | undefined => chats.value.find((c) => c.meta.peek().id === id);
export const chatById = find;

export async function loadChats(): Promise<void> {
    const list = (await allChats().catch(() => [] as ChatMeta[])).map((m) => new Conversation({ ...m, settings: { ...plainSettings(), ...m.settings } }));
    chats.value = [...chats.value, ...list].sort((a, b) => b.meta.peek().updated - a.meta.peek().updated);
    ready.value = true;
}

export function newChat(like?: ChatMeta): Conversation {
    const now = Date.now();
    const c = new Conversation({ id: newId(), title: "", created: now, updated: now, model: like?.model ?? "", system: like?.system ?? "",
        settings: like ? structuredClone(like.settings) : plainSettings(), chosen: {}, draft: "" });
    c.loaded.value = true;
    chats.value = [c, ...chats.value];
    return c;
}

export function deleteChat(c: Conversation): void {
    chats.value = chats.value.filter((x) => x !== c);
    void removeChat(c.meta.value.id).catch(() => undefined);
}

// ---- export and import ----
// Return the shown messages of a chat as Markdown.
export async function asMarkdown(c: Conversation, names: Record<"user" | "tool" | "assistant" | "system" | "reasoning" | "call", string>): Promise<string> {
    await c.load();
    const m = c.meta.value, out = [`# ${m.title}`];
    if (m.system.trim()) out.push(`## ${names.system}`, m.system.trim());
    for (const t of c.path().map((x) => x.peek())) {
        out.push(`## ${t.role === "assistant" ? t.model || names.assistant : names[t.role]}`);
        if (t.reasoning) out.push(`<details><summary>${names.reasoning}</summary>\n\n${t.reasoning.trim()}\n\n</details>`);
        if (t.text) out.push(t.text.trim());
        for (const call of t.calls ?? []) out.push(attached(`${names.call} ${call.name}`, call.args).trim());
    }
    return `${out.join("\n\n")}\n`;
}

interface Exported { format: "lamina-chat"; version: 1; chats: { meta: ChatMeta; turns: Turn[] }[] }

export async function exportChats(list: Conversation[]): Promise<string> {
    await Promise.all(list.map((c) => c.load()));
    const out: Exported = { format: "lamina-chat", version: 1, chats: list.map((c) => ({ meta: c.meta.value, turns: [...c.turns.values()].map((t) => t.value) })) };
    return JSON.stringify(out, null, 1);
}

const isText = (x: unknown): x is string => typeof x === "string";

// Import untrusted chats and return their number: only well-formed parts are accepted, and ids are replaced, so that no existing chat is
// overwritten. Throws if the file is not an export.
export function importChats(text: string): number {
    const added: Conversation[] = [];
    for (const one of readExport(text)) {
        const ids = new Map<string, string>();
        for (const t of one.turns) if (isObject(t) && isText(t.id)) ids.set(t.id, newId());
        const m = one.meta, chosen: Record<string, string> = {};
        for (const [from, to] of Object.entries(isObject(m.chosen) ? m.chosen : {})) {
            const child = ids.get(String(to)), parent = from === "" ? "" : ids.get(from);
            if (child !== undefined && parent !== undefined) chosen[parent] = child;
        }
        const c = new Conversation({ id: newId(), title: isText(m.title) ? m.title : "", created: Number(m.created) || Date.now(), updated: Number(m.updated) || Date.now(),
            model: isText(m.model) ? m.model : "", system: isText(m.system) ? m.system : "", settings: { ...plainSettings(), ...(isObject(m.settings) ? m.settings : {}) }, chosen,
            draft: isText(m.draft) ? m.draft : "", ...(m.pinned === true ? { pinned: true } : {}) });
        for (const t of one.turns) {
            if (!isObject(t) || !isText(t.id) || !isText(t.text) || !["user", "assistant", "tool"].includes(String(t.role))) continue;
            const { from, ...plain } = t, id = ids.get(t.id)!, first = isText(from) ? ids.get(from) : undefined;
            const turn = { ...plain, id, chat: c.meta.value.id, parent: isText(t.parent) ? ids.get(t.parent) ?? null : null, ...(first === undefined ? {} : { from: first }) } as Turn;
            c.turns.set(id, signal(turn));
            saveTurn(turn);
        }
        c.loaded.value = true;
        c.saveNow();
        added.push(c);
    }
    chats.value = [...added, ...chats.value].sort((a, b) => b.meta.peek().updated - a.meta.peek().updated);
    return added.length;
}
