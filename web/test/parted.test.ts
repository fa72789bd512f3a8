// The first token in which two answers differ.
import assert from "node:assert/strict";
import { test } from "node:test";
import { parted } from "../src/text/parted";

const tokens = (...ids: number[]): { id: number; text: string }[] => ids.map((id) => ({ id, text: id < 0 ? "\ufffd" : `t${id}` }));

test("a token that differs", () => { assert.equal(parted(tokens(1, 2, 3), tokens(1, 4, 3), false, "id"), 1); });
test("no token that differs", () => {
    assert.equal(parted(tokens(1, 2), tokens(1, 2), true, "id"), null);
    assert.equal(parted([], [], true, "id"), null);
});
test("an end that differs, once both have ended", () => {
    assert.equal(parted(tokens(1, 2, 3), tokens(1, 2), false, "id"), null);
    assert.equal(parted(tokens(1, 2, 3), tokens(1, 2), true, "id"), 2);
});
test("tokens that look the same", () => {
    assert.equal(parted(tokens(1, -1), tokens(1, -2), true, "id"), 1);
    assert.equal(parted(tokens(1, -1), tokens(1, -2), true, "text"), null);
});
