// Code divided into parts for the highlighter.
import assert from "node:assert/strict";
import { test } from "node:test";
import { LINE, PART, partsOf } from "../src/text/highlight";

test("parts are whole lines, bounded, and together the code", () => {
    for (const source of ["", "a", "a\n", "a\n".repeat(9000), "int x;\n\n".repeat(2000), `${"x".repeat(LINE)}\n`.repeat(15), "\n".repeat(9000)]) {
        const parts = partsOf(source)!;
        assert.ok(parts.join("") === source && parts.every((p) => p.length <= PART));
        assert.ok(parts.slice(0, -1).every((p) => p.endsWith("\n") && (!source.includes(";\n\n") || p.endsWith("\n\n"))));
    }
    assert.equal(partsOf(`a\n${"x".repeat(LINE + 1)}`), null);
});
