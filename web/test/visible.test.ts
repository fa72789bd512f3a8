// What cannot be seen, or turns the text around it over, is shown as what it is.
import assert from "node:assert/strict";
import { test } from "node:test";
import { spelled, visible } from "../src/text/visible";

test("control characters", () => { assert.equal(visible("a\u0000b\u001bc\u007fd\u0085"), "a␀b␛c␡d⟨U+0085⟩"); });
test("lines and tabs stay", () => { assert.equal(visible("a\n\tb\r\n"), "a\n\tb\r\n"); });
test("overrides of direction", () => { assert.equal(visible("\u202Eexe.txt\u2066"), "⟨U+202E⟩exe.txt⟨U+2066⟩"); });
test("right-to-left text itself stays", () => { assert.equal(visible("שלום عالم"), "שלום عالم"); });
test("tokens are spelled", () => { assert.equal(spelled(" a\n"), "·a⏎"); });
