// Conversations in the browser's database. Without one (private windows of some browsers), they last as long as the page.
import { pack, unpack, type Packed } from "./packed";
import type { ChatMeta, Turn } from "./types";

let opened: Promise<IDBDatabase | null> | undefined;

function open(): Promise<IDBDatabase | null> {
    opened ??= new Promise((done) => {
        let request: IDBOpenDBRequest;
        try { request = indexedDB.open("lamina", 1); } catch { done(null); return; }
        request.onupgradeneeded = () => {
            const db = request.result;
            db.createObjectStore("chats", { keyPath: "id" });
            db.createObjectStore("turns", { keyPath: "id" }).createIndex("chat", "chat");
        };
        request.onsuccess = () => done(request.result);
        request.onerror = () => done(null);
        request.onblocked = () => done(null);
    });
    return opened;
}

function run<T>(store: string, mode: IDBTransactionMode, work: (s: IDBObjectStore) => IDBRequest<T> | void): Promise<T | undefined> {
    return open().then((db) => db ? new Promise<T | undefined>((done, fail) => {
        const t = db.transaction(store, mode), request = work(t.objectStore(store));
        t.commit();                      // without it, what is not written yet is lost when the page is left
        t.oncomplete = () => done(request ? request.result : undefined);
        t.onerror = () => fail(t.error);
        t.onabort = () => fail(t.error);
    }) : undefined);
}

export const allChats = async (): Promise<ChatMeta[]> => await run<ChatMeta[]>("chats", "readonly", (s) => s.getAll()) ?? [];

// Earlier versions of the page stored tokens as they are.
type Stored = Turn & { packed?: Packed };
const stored = ({ tokens, ...rest }: Turn): Stored => tokens ? { ...rest, packed: pack(tokens) } : rest;
const read = ({ packed, ...rest }: Stored): Turn => packed ? { ...rest, tokens: unpack(packed) } : rest;

// The messages of a chat without their tokens, which a search does not need.
export const storedTurns = async (chat: string): Promise<Turn[]> => await run<Stored[]>("turns", "readonly", (s) => s.index("chat").getAll(chat)) ?? [];
export const turnsOf = async (chat: string): Promise<Turn[]> => (await storedTurns(chat)).map(read);
export const putChat = (c: ChatMeta): Promise<unknown> => run("chats", "readwrite", (s) => s.put(c));
export const putTurn = (t: Turn): Promise<unknown> => run("turns", "readwrite", (s) => s.put(stored(t)));

export const removeTurn = (id: string): Promise<unknown> => run("turns", "readwrite", (s) => s.delete(id));

export async function removeChat(id: string): Promise<void> {
    const turns = await turnsOf(id);
    await run("chats", "readwrite", (s) => s.delete(id));
    await run("turns", "readwrite", (s) => { for (const t of turns) s.delete(t.id); });
}
