// Tokens in the text that they made.
import assert from "node:assert/strict";
import { test } from "node:test";
import { align, alignMore, groups } from "../src/text/align";

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

test("an answer that grows is aligned and divided as when it is whole", () => {
    const tokens = Array.from({ length: 900 }, (_, i) => ({ text: i % 37 === 36 ? " line.\n" : i % 53 < 2 ? "\ufffd" : i % 101 === 0 ? "<unused>" : ` w${i}` }));
    const text = tokens.map((x, i) => x.text === "<unused>" || (x.text === "\ufffd" && i % 53 === 0) ? "" : x.text === "\ufffd" ? "é" : x.text).join("");
    const whole = align(text, tokens);
    let pieces = align("", []), starts = groups([]);
    for (let n = 1; n <= tokens.length; n += 1 + n % 7) {
        pieces = alignMore(pieces, text.slice(0, whole[n - 1]!.to), tokens.slice(0, n));
        starts = groups(tokens.slice(0, n), starts);
    }
    assert.deepEqual(alignMore(pieces, text, tokens), whole);
    assert.deepEqual(groups(tokens, starts), groups(tokens));
    assert.ok(groups(tokens).length > 5 && groups(tokens).slice(1).every((i) => tokens[i - 1]!.text.endsWith("\n")));
    assert.deepEqual(groups(tokens.map(() => ({ text: "w" }))), [0, 400, 800]);
});
