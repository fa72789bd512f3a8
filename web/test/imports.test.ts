// Exports of other programs, in the forms of ChatGPT's conversations.json, Open WebUI's chat-export.json and llama.cpp's types of its database.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readExport } from "../src/store/imports";
import { attached } from "../src/text/attached";

const message = (role: string, parts: unknown[], more: object = {}): object => ({ author: { role }, create_time: 1700000001.5, content: { content_type: "text", parts }, metadata: { model_slug: "gpt-4o" }, ...more });
const chatgpt = [{ title: "Seas", create_time: 1700000000.25, update_time: 1700000100, current_node: "d", mapping: {
    r: { id: "r", message: null, parent: null, children: ["s"] }, s: { id: "s", message: message("system", [""]), parent: "r", children: ["a"] },
    a: { id: "a", message: message("user", ["Why is the sea salt?", { content_type: "image_asset_pointer" }]), parent: "s", children: ["b", "t"] }, b: { id: "b", message: message("assistant", ["Rivers."]), parent: "a", children: [] },
    t: { id: "t", message: message("assistant", [], { content: { content_type: "thoughts", thoughts: [] } }), parent: "a", children: ["c"] }, c: { id: "c", message: message("tool", ["search results"]), parent: "t", children: ["d"] },
    d: { id: "d", message: message("assistant", ["Rocks and rivers."]), parent: "c", children: [] } } }];
const openwebui = [{ id: "1", title: "Seas", updated_at: 1700000100, pinned: true, chat: { title: "Seas", models: ["llama3.2"], history: { currentId: "b", messages: {
    a: { id: "a", parentId: null, childrenIds: ["b", "c"], role: "user", content: "Why?", timestamp: 1700000000 },
    b: { id: "b", parentId: "a", childrenIds: [], role: "assistant", content: '<details type="reasoning" done="true" duration="2">\n<summary>Thought for 2 seconds</summary>\n> Hm.\n> Salt.\n</details>\nRivers.', model: "llama3.2", timestamp: 1700000001 },
    c: { id: "c", parentId: "a", childrenIds: [], role: "assistant", content: "Rocks.", model: "qwen3", timestamp: 1700000002 } } } } }];
const llamacpp = { conv: { id: "1", name: "Seas", lastModified: 1700000100000, currNode: "b" }, messages: [
    { id: "r", convId: "1", type: "root", role: "system", content: "", parent: null, children: ["s"], timestamp: 1700000000000 }, { id: "s", convId: "1", type: "text", role: "system", content: "Be short.", parent: "r", children: ["a"], timestamp: 1700000000000 },
    { id: "a", convId: "1", type: "text", role: "user", content: "Why?", parent: "s", children: ["b"], timestamp: 1700000000001, extra: [{ type: "TEXT", name: "x.py", content: "a = 1" }] },
    { id: "b", convId: "1", type: "text", role: "assistant", content: "Rivers.", reasoningContent: "Hm.", parent: "a", children: [], timestamp: 1700000000002, model: "demo.gguf" }] };

test("ChatGPT", () => {
    const [c] = readExport(JSON.stringify(chatgpt));
    assert.deepEqual(c!.turns.map((t) => [t.id, t.parent, t.role, t.text]), [["a", null, "user", "Why is the sea salt?"], ["b", "a", "assistant", "Rivers."], ["d", "a", "assistant", "Rocks and rivers."]]);
    assert.deepEqual(c!.meta, { title: "Seas", updated: 1700000100000, created: 1700000001500, chosen: { a: "d", "": "a" }, system: "" });
    assert.equal(c!.turns[1]!.model, "gpt-4o");
});

test("Open WebUI", () => {
    const [c] = readExport(JSON.stringify(openwebui));
    assert.deepEqual(c!.turns.map((t) => [t.id, t.parent, t.text, t.reasoning, t.model]), [["a", null, "Why?", undefined, undefined], ["b", "a", "Rivers.", "Hm.\nSalt.", "llama3.2"], ["c", "a", "Rocks.", undefined, "qwen3"]]);
    assert.deepEqual(c!.meta.chosen, { a: "b", "": "a" });
    assert.equal(c!.meta.pinned, true);
});

test("llama.cpp, one chat and several", () => {
    const [c] = readExport(JSON.stringify(llamacpp));
    assert.deepEqual(c!.turns.map((t) => [t.id, t.parent, t.text, t.reasoning]), [["a", null, "x.py:\n```py\na = 1\n```\n\nWhy?", undefined], ["b", "a", "Rivers.", "Hm."]]);
    assert.deepEqual([c!.meta.system, c!.meta.created, c!.meta.chosen], ["Be short.", 1700000000001, { a: "b", "": "a" }]);
    assert.equal(readExport(JSON.stringify([llamacpp, llamacpp])).length, 2);
});

test("what is no export, and trees that refer to themselves", () => {
    for (const bad of ["{}", "[1]", "null", '[{"chat":7}]', '{"format":"lamina-chat","chats":[{"meta":{},"turns":7}]}', '{"conv":{},"messages":1}', "x"]) assert.throws(() => readExport(bad), bad);
    assert.deepEqual(readExport("[]"), []);
    const loop = structuredClone(llamacpp);
    loop.messages[0]!.parent = "b" as never;
    loop.messages[2]!.role = "other";
    assert.deepEqual(readExport(JSON.stringify(loop))[0]!.turns.map((t) => t.parent), [null]);
});

test("a file in a message: fences are longer than any in it", () => {
    assert.equal(attached("a.md", "x\r\n````\n"), "a.md:\n`````md\nx\n````\n`````\n");
});
