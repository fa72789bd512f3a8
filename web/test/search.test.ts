// The search of messages: what is found, and how much of a text is shown around it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { matchesIn } from "../src/store/search";
import { excerpt, finder } from "../src/text/excerpt";

const find = (text: string, sought: string): string | null => {
    const e = excerpt(text, finder(sought)!);
    return e && `${e.before}[${e.match}]${e.after}`;
};

test("letters of either case, in every script", () => {
    assert.equal(find("The Water is wet.", "water"), "The [Water] is wet.");
    assert.equal(find("Ölfässer", "öLF"), "[Ölf]ässer");
    assert.equal(find("为什么海水是咸的？", "海水"), "为什么[海水]是咸的？");
    assert.equal(find("ПРИВЕТ", "привет"), "[ПРИВЕТ]");
    assert.equal(find("water", "wine"), null);
});

test("white space of any length is one space", () => {
    assert.equal(find("one\n\n  two", "one two"), "[one two]");
    assert.equal(find("onetwo", "one two"), null);
    assert.equal(finder("  \n "), null);
});

test("signs mean themselves", () => {
    for (const sought of ["a.b", "(x", "[0]", "a|b", "\\d+", "^$", "*", "a/b-c", "{1,2}", "?"]) assert.equal(find(`. ${sought} .`, sought), `. [${sought}] .`);
    assert.equal(find("axb", "a.b"), null);
});

test("the words around it, without halves of characters", () => {
    const e = excerpt(`${"word ".repeat(50)}needle${" next".repeat(50)}`, finder("needle")!)!;
    assert.ok(e.before.startsWith("…word") && e.before.length <= 32 && e.after.length === 61 && e.after.endsWith("…"));
    for (let n = 25; n < 35; n++) assert.doesNotThrow(() => encodeURIComponent(excerpt(`${"😀".repeat(n)}x${"😀".repeat(n)}`, finder("x")!)!.before + excerpt(`x${" ".repeat(n % 2)}${"😀".repeat(n)}`, finder("x")!)!.after));
});

test("work and results have a bound", () => {
    const from = performance.now();
    assert.equal(excerpt(`${"a ".repeat(500000)}${" ".repeat(500000)}`, finder("a a b")!), null);
    assert.equal(excerpt(" ".repeat(1e6), finder("x y")!), null);
    assert.equal(excerpt("a".repeat(1e6), finder("a".repeat(99) + "b")!), null);
    assert.ok(performance.now() - from < 5000);
    assert.ok(excerpt(`a${" ".repeat(1e5)}b`, finder("a b")!)!.match.length <= 100);
    const turns = Array.from({ length: 50 }, (_, i) => ({ id: String(i), created: 50 - i, text: i === 49 ? "none" : "found" }));
    assert.deepEqual(matchesIn(turns, finder("FOUND")!).map((m) => m.turn), ["48", "47", "46"]);
    assert.deepEqual(matchesIn([{ id: "a", created: 1, text: 7 as unknown as string }], finder("7")!), []);
});
