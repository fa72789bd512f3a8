// Texts divided into blocks: whole, with bounded work, also while they grow, and whatever they contain.
import assert from "node:assert/strict";
import { test } from "node:test";
import Reader, { type MarkdownIt } from "markdown-it";
import { LONGEST, blocksOf, next, type Piece } from "../src/text/blocks";

const reader = new Reader();
reader.core.ruler.enableOnly(["block"]);

// Count the characters that are parsed.
let parsed = 0, most = 0;
const counted = { parse: (text: string) => { parsed += text.length; most = Math.max(most, text.length); return reader.parse(text, {}); } } as unknown as MarkdownIt;

// Divide a text as Markdown.tsx does; `list` has the pieces of its beginning.
function divide(text: string, list: Piece[] = []): Piece[] {
    const out: Piece[] = [];
    let at = 0;
    for (const piece of list.slice(0, -2)) at += out[out.push(piece) - 1]!.raw.length;
    for (let last = false; !last;) {
        const step = next(counted, text.slice(at), out[out.length - 1]?.end);
        last = step.last;
        for (const piece of step.pieces) at += out[out.push(piece) - 1]!.raw.length;
        assert.ok(last || step.pieces.some((p) => p.raw.length), "no progress");
    }
    return out;
}

const rep = (s: string, n = 60000): string => s.repeat(Math.ceil(n / s.length)).slice(0, n);
const hostile: Record<string, string> = {
    address: `${rep("a.")}@`, quotes: rep(">", 4000), "quotes with blanks": rep("> "), lists: rep("- ", 4000), "lists of quotes": rep("- > ", 8000), blanks: `${rep(" ")}x`, "blank lines": rep(" \n"), tabs: rep("\t"), brackets: rep("["), links: rep("[a]("),
    stars: rep("**a "), ticks: rep("``a` "), "wide table": `|${rep("a|", 30000)}\n|${rep("-|", 30000)}\n`, "long table": `|a|b|\n|-|-|\n${rep("|1|2|\n")}`, "wide and long": `|${rep("a|", 6000)}\n|${rep("-|", 6000)}\n${rep("|a|b\n")}`, line: rep("a"),
    lines: rep("a\n"), paragraphs: rep("a b\n\n"), code: `\`\`\`\n${rep("x = 1\n\n")}\`\`\`\n\nafter\n\n- list`, "open code": `~~~c\n${rep("int x;\n")}`, fences: rep("```\n"), numbers: rep("1. a\n"), definitions: rep("[a]: b\n"), underlined: `${rep("a\n")}===`, comments: rep("<!-- "), formulas: rep("$$\na\n\\[ "),
};

for (const [name, text] of Object.entries(hostile))
    test(`hostile: ${name}`, () => {
        parsed = most = 0;
        const whole = divide(text);
        assert.ok(whole.map((p) => p.raw).join("") === text);
        assert.ok(most <= LONGEST && whole.every((p) => p.raw.length <= LONGEST), `${most} characters at once`);
        assert.ok(parsed <= 8 * text.length + LONGEST, `${parsed} characters parsed of ${text.length}`);
    });

test("of a growing text no more than the last blocks are parsed again", () => {
    for (const text of Object.values(hostile)) {
        let list: Piece[] = [], steps = 0;
        parsed = most = 0;
        for (let n = 0; n < text.length; n += 9999, steps++) list = divide(text.slice(0, n), list);
        assert.ok(most <= LONGEST && parsed <= steps * 4 * LONGEST, `${parsed} characters in ${steps} steps`);
        list = divide(text, list);
        assert.ok(list.map((p) => p.raw).join("") === text);
    }
});

test("blocks are those of CommonMark", () => {
    const blocks = ["# Title\n\n", "a\nlazy\n\n", "- one\n\n  more\n- two\n\n", "```\nx\n\ny\n```\n", "| a |\n|---|\n| 1 |\n\n", "> q\n> r\n\n", "---\n", "1. x\n   - y\n\n", "end"];
    assert.deepEqual(blocksOf(reader, blocks.join("")), blocks);
    assert.deepEqual(blocksOf(reader, ""), [""]);
    assert.deepEqual(blocksOf(reader, "\n\na\n"), ["\n\na\n"]);
});

test("blank lines do not make a block too long", () => {
    for (const block of ["a", "```\nx\n```", "- a"]) assert.deepEqual(divide(`${block}\n\n${rep(" \n", 30000)}end`)[0], { raw: `${block}\n\n` });
    assert.ok(divide(`\`\`\`\nx\n\n${rep("\n", 30000)}end`)[0]!.plain);
});

test("a long block ends where it would, and what follows is Markdown again", () => {
    for (const [long, after] of [[`\`\`\`\n${rep("x = 1\n\n")}\n\`\`\`\n`, "\n# after\n"], [`${rep("a b\n", 45000)}\n`, "# after\n"]] as const) {
        const pieces = divide(long + after), plain = pieces.filter((p) => p.plain).map((p) => p.raw).join("");
        assert.ok(plain.trimEnd() === long.trimEnd(), plain.slice(-20));
        assert.ok(!pieces[pieces.length - 1]!.plain);
    }
});
