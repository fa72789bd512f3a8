// The parser of streams against streams recorded from a server, cut at every byte, and against what the standard says of lines and fields.
import assert from "node:assert/strict";
import { test } from "node:test";
import { EventParser, type StreamEvent } from "../src/api/stream";

const bytes = (s: string): Uint8Array => new TextEncoder().encode(s);

function parse(whole: Uint8Array, cuts: number[]): StreamEvent[] {
    const p = new EventParser(), out: StreamEvent[] = [];
    let from = 0;
    for (const to of [...cuts, whole.length]) {
        out.push(...p.push(whole.subarray(from, to)));
        from = to;
    }
    return out;
}

const recorded = [
    'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}\n\n',
    ": waiting\n\n",
    'data: {"choices":[{"index":0,"delta":{"content":"水 is 💧 éမ"}}]}\n\n',
    'event: error\ndata: {"error":\ndata: {"message":"a: b"}}\n\n',
    "data: [DONE]\n\n",
].join("");
const expected = [
    { event: "message", data: '{"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}' },
    { event: "message", data: '{"choices":[{"index":0,"delta":{"content":"水 is 💧 éမ"}}]}' },
    { event: "error", data: '{"error":\n{"message":"a: b"}}' },
    { event: "message", data: "[DONE]" },
];

for (const [name, end] of [["\\n", "\n"], ["\\r\\n", "\r\n"], ["\\r", "\r"]] as const) {
    const whole = bytes(recorded.replaceAll("\n", end));
    test(`lines that end in ${name}: cut at every byte, and every byte alone`, () => {
        for (let cut = 0; cut <= whole.length; cut++) {
            // An end \r could go on with \n: what hangs on it comes with the next byte, so a last cut shows all the same.
            const got = parse(whole, [cut]);
            assert.deepEqual(got, expected, `cut at ${cut}`);
        }
        assert.deepEqual(parse(whole, Array.from({ length: whole.length }, (_, i) => i)), expected);
    });
    test(`lines that end in ${name}: cut at every two bytes`, () => {
        for (let a = 0; a < whole.length; a += 3)
            for (let b = a; b < Math.min(whole.length, a + 40); b++) assert.deepEqual(parse(whole, [a, b]), expected, `cut at ${a}, ${b}`);
    });
}

test("an event that is not whole is not told", () => {
    assert.deepEqual(parse(bytes("data: a\n"), []), []);
    assert.deepEqual(parse(bytes("data: a"), []), []);
    assert.deepEqual(parse(bytes("event: x\n\n"), []), []);
});

test("one space after the colon, fields without one, others passed over", () => {
    assert.deepEqual(parse(bytes("data:  a\ndata\ndata:b\nid: 1\nretry: 3\nzzz: y\n\n"), []), [{ event: "message", data: " a\n\nb" }]);
});

test("a mark of byte order at the beginning only", () => {
    assert.deepEqual(parse(bytes("\ufeffdata: a\n\ndata: \ufeffb\n\n"), [1, 2]), [{ event: "message", data: "a" }, { event: "message", data: "\ufeffb" }]);
});

test("bytes that are no UTF-8 become U+FFFD and do no more harm", () => {
    assert.deepEqual(parse(new Uint8Array([...bytes("data: a"), 0xff, 0xc3, ...bytes("\n\ndata: b\n\n")]), []), [{ event: "message", data: "a\ufffd\ufffd" }, { event: "message", data: "b" }]);
});
