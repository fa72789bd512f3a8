// Rows of tokens that arrive with an answer.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { TokenTrace } from "../src/api/types";
import { keeper, Latest, rowOf } from "../src/inspect/traced";

const token = (position: number, row = true): TokenTrace =>
    ({ index: 0, token: { id: 1, text: "x", position }, ...(row ? { row: { position: position - 1, token: { id: 1, text: "x", p: 1 } } } : {}) });

test("rows by index", () => {
    const keep = keeper("a", 0);
    for (const position of [20, 21, 22]) keep(token(position));
    assert.deepEqual([0, 1, 2, 3].map((i) => rowOf("a", i)?.position), [19, 20, 21, undefined]);
    assert.equal(rowOf("b", 0), undefined);
});
test("after tokens that were taken over", () => {
    const keep = keeper("a", 5);
    keep(token(30));
    keep(token(31));
    assert.deepEqual([0, 4, 5, 6].map((i) => rowOf("a", i)?.position), [undefined, undefined, 29, 30]);
});
test("tokens without a trace", () => {
    const keep = keeper("a", 0);
    keep({ index: 0, error: "no memory" });
    keep(token(11));
    keep({ index: 0, error: "no memory" });
    keep(token(13, false));
    keep(token(14));
    assert.deepEqual([0, 1, 2, 3, 4].map((i) => rowOf("a", i)?.position), [undefined, 10, undefined, undefined, 13]);
});
test("an answer that is given again", () => {
    keeper("a", 0)(token(20));
    keeper("aa", 0)(token(40));
    keeper("a", 0);
    assert.equal(rowOf("a", 0), undefined);
    assert.equal(rowOf("aa", 0)?.position, 39);
});
test("only the latest", () => {
    const l = new Latest<number>(2);
    l.set("a", 1);
    l.set("b", 2);
    l.set("a", 3);
    l.set("c", 4);
    assert.deepEqual(["a", "b", "c"].map((x) => l.get(x)), [3, undefined, 4]);
});
