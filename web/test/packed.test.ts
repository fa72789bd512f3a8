// Tokens as the browser's database stores them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { pack, unpack } from "../src/store/packed";

test("tokens are read as they were stored", () => {
    const tokens = ["", " a", "\ufffd", "💧", "\u0000", "水\n"].map((text, i) => ({ id: i * 50000, text, lp: -i / 3, top: [{ id: i, text, lp: -i / 3 }, { id: 7, text: "other", lp: -9.5 }].slice(0, i % 3) }));
    assert.deepEqual(unpack(structuredClone(pack(tokens))), tokens);
    assert.deepEqual(unpack(pack([])), []);
});
