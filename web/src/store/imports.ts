// Read the exports of other programs as chats of lamina: those of ChatGPT (conversations.json), Open WebUI and llama.cpp's page. All of them store
// trees of messages. What they contain is not trusted: only texts of known roles are taken.
import { attached } from "../text/attached";
import type { ChatMeta, Turn } from "./types";

export interface Read { meta: Partial<ChatMeta>; turns: Partial<Turn>[] }
type Record_ = Record<string, unknown>;

export const isObject = (x: unknown): x is Record_ => typeof x === "object" && x !== null && !Array.isArray(x);
const text = (x: unknown): string => typeof x === "string" ? x : "";
const list = (x: unknown): unknown[] => Array.isArray(x) ? x : [];
const milliseconds = (x: unknown): number => { const n = Number(x) || 0; return n < 1e11 ? Math.round(n * 1000) : Math.round(n); };

// A message before its role is looked at.
interface Node { id: string; parent: string | null; role: string; text: string; reasoning?: string; model?: string; created: number }

function chat(title: string, updated: number, nodes: Node[], current: string, more: Partial<ChatMeta> = {}): Read {
    const byId = new Map(nodes.map((n) => [n.id, n])), kept = (n: Node): boolean => (n.role === "user" || n.role === "assistant") && Boolean(n.text || n.reasoning);
    // What is left out is passed over: its children belong to its parent. A tree that refers to itself ends where it began.
    const above = (n: Node): string | null => {
        const seen = new Set<Node>([n]);
        for (let p = byId.get(n.parent ?? ""); p && !seen.has(p); p = byId.get(p.parent ?? "")) {
            if (kept(p)) return p.id;
            seen.add(p);
        }
        return null;
    };
    const turns = nodes.filter(kept).map((n) => ({ id: n.id, parent: above(n), role: n.role as Turn["role"], text: n.text, created: n.created, ...(n.reasoning ? { reasoning: n.reasoning } : {}), ...(n.model ? { model: n.model } : {}) }));
    const parents = new Map(turns.map((x) => [x.id, x.parent])), chosen: Record<string, string> = {};
    const last = byId.get(current);
    for (let id = last && !kept(last) ? above(last) : current; id && parents.has(id) && !(chosen[parents.get(id) ?? ""]); id = parents.get(id) ?? "") chosen[parents.get(id) ?? ""] = id;
    return { meta: { title, updated, created: turns[0]?.created || updated, chosen, system: nodes.find((n) => n.role === "system" && n.text)?.text ?? "", ...more }, turns };
}

function fromChatGPT(c: Record_): Read {
    const nodes = Object.entries(c["mapping"] as Record_).filter((x): x is [string, Record_] => isObject(x[1])).map(([id, n]): Node => {
        const m = isObject(n["message"]) ? n["message"] : {}, content = isObject(m["content"]) ? m["content"] : {}, author = isObject(m["author"]) ? m["author"] : {}, facts = isObject(m["metadata"]) ? m["metadata"] : {};
        const shown = ["text", "multimodal_text", "code"].includes(text(content["content_type"]) || "text") && !facts["is_visually_hidden_from_conversation"];
        return { id, parent: text(n["parent"]) || null, role: text(author["role"]), created: milliseconds(m["create_time"]), model: text(facts["model_slug"]),
            text: shown ? list(content["parts"]).filter((x) => typeof x === "string").join("\n") || text(content["text"]) : "" };
    });
    return chat(text(c["title"]), milliseconds(c["update_time"] ?? c["create_time"]), nodes, text(c["current_node"]));
}

function fromOpenWebUI(c: Record_): Read {
    const inner = c["chat"] as Record_, history = isObject(inner["history"]) ? inner["history"] : {}, messages = isObject(history["messages"]) ? Object.values(history["messages"]) : list(inner["messages"]);
    const nodes = messages.filter(isObject).map((m): Node => {
        const [, thought, said] = /^\s*<details type="reasoning"[^>]*>\s*(?:<summary>[^<]*<\/summary>)?([^]*?)<\/details>([^]*)$/.exec(text(m["content"])) ?? [];
        return { id: text(m["id"]), parent: text(m["parentId"]) || null, role: text(m["role"]), created: milliseconds(m["timestamp"]), model: text(m["model"]), text: said === undefined ? text(m["content"]) : said.trim(),
            ...(thought ? { reasoning: thought.trim().replace(/^> ?/gm, "") } : {}) };
    });
    return chat(text(inner["title"]) || text(c["title"]), milliseconds(c["updated_at"] ?? inner["timestamp"]), nodes, text(history["currentId"]), { ...(c["pinned"] === true ? { pinned: true } : {}), ...(text(inner["system"]) ? { system: text(inner["system"]) } : {}) });
}

function fromLlamaCpp(c: Record_): Read {
    const about = c["conv"] as Record_;
    const nodes = list(c["messages"]).filter(isObject).map((m): Node => {
        const files = list(m["extra"]).filter(isObject).filter((x) => text(x["content"])).map((x) => attached(text(x["name"]), text(x["content"])));
        return { id: text(m["id"]), parent: text(m["parent"]) || null, role: m["type"] === "root" ? "" : text(m["role"]), created: milliseconds(m["timestamp"]), model: text(m["model"]), text: [...files, text(m["content"])].join("\n"),
            ...(text(m["reasoningContent"]) || text(m["thinking"]) ? { reasoning: text(m["reasoningContent"]) || text(m["thinking"]) } : {}) };
    });
    return chat(text(about["name"]), milliseconds(about["lastModified"]), nodes, text(about["currNode"]));
}

// Return the chats of a file. Throws if it is no export that is known.
export function readExport(file: string): Read[] {
    const all = JSON.parse(file) as unknown;
    if (isObject(all) && all["format"] === "lamina-chat" && Array.isArray(all["chats"])) {
        for (const c of all["chats"]) if (!isObject(c) || !isObject(c["meta"]) || !Array.isArray(c["turns"])) throw new Error("format");
        return all["chats"] as Read[];
    }
    return (Array.isArray(all) ? all : [all]).map((c: unknown) => {
        if (isObject(c) && isObject(c["mapping"])) return fromChatGPT(c);
        if (isObject(c) && isObject(c["chat"])) return fromOpenWebUI(c);
        if (isObject(c) && isObject(c["conv"]) && Array.isArray(c["messages"])) return fromLlamaCpp(c);
        throw new Error("format");
    });
}
