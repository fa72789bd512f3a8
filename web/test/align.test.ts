// Tokens in the text that they made.
import assert from "node:assert/strict";
import { test } from "node:test";
import { align } from "../src/text/align";

const texts = (text: string, tokens: string[]): string[] => align(text, tokens.map((t) => ({ text: t }))).map((p) => p.text);

test("plain tokens", () => { assert.deepEqual(texts("Water is wet", ["Water", " is", " wet"]), ["Water", " is", " wet"]); });
test("characters of several tokens", () => {
    assert.deepEqual(texts("a 💧 b", ["a", " \ufffd", "\ufffd", "\ufffd", " b"]), ["a", " 💧", "", "", " b"]);
    assert.deepEqual(texts("💧", ["\ufffd", "\ufffd"]), ["💧", ""]);
});
test("marks that are not in the text, and a space that was trimmed", () => {
    assert.deepEqual(texts("Hi.", [" Hi", ".", "<|im_end|>"]), ["Hi", ".", ""]);
});
test("all pieces together are the text", () => {
    const text = "x 水y💧z", tokens = ["x", " ", "\ufffd", "\ufffd", "y", "\ufffd\ufffd", "\ufffd", "z"].map((t) => ({ text: t }));
    assert.equal(align(text, tokens).map((p) => p.text).join(""), text);
});
